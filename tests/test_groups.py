"""Groups of samples with a threshold and a loss scale each.

The expected values come from plain loops, and from one `DiscrimLoss` for each group.
"""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from discrimloss import DiscrimLoss
from discrimloss import functional as F
from discrimloss.histogram import bounded_split_thresholds, split_thresholds
from discrimloss.hyperparameters import resolve_hyperparameters
from discrimloss.label_correction import MIXING
from discrimloss.tracker import LossTracker
from discrimloss.visits import group_visits

GROUPS, SAMPLES, EPOCHS = 3, 60, 5
THRESHOLDS = ("bounded_split", "split", "ema", "mean", 0.7)


def losses_of(index: Tensor, epoch: int, generator: torch.Generator) -> Tensor:
    """Losses of another size in each group; some samples stay difficult."""
    is_difficult = index % 5 == 0
    losses = torch.rand(len(index), generator=generator) + 2.0
    losses = torch.where(is_difficult, losses + 2.0, losses / epoch)
    return losses * (1.0 + 10.0 * (index % GROUPS))


class NaiveTracker:
    """`functional.track_losses` of one group, with Python floats."""

    def __init__(self, threshold: str | float) -> None:
        self.threshold = threshold
        self.k1 = 0.0 if isinstance(threshold, str) else threshold
        self.visits = 0
        self.mean_abs = self.mean_square = 0.0

    def track(self, means: list[float], rows: list[float], scale_is_fixed: bool) -> None:
        """`means` holds each sample once, `rows` each row of the batch."""
        if not means or (scale_is_fixed and self.threshold not in ("ema", "mean")):
            return
        mean = sum(means) / len(means)
        if self.threshold == "mean":
            self.k1 = (self.k1 * self.visits + sum(means)) / (self.visits + len(means))
        elif isinstance(self.threshold, str):
            self.k1 = mean if self.visits == 0 else 0.9 * self.k1 + 0.1 * mean
        if not scale_is_fixed:
            median = sorted(map(abs, rows))[(len(rows) - 1) // 2]
            usual = median if median > 0 else sum(map(abs, means)) / len(means)
            usual = usual if self.visits == 0 else self.mean_abs
            sizes = [min(abs(each), 30.0 * usual) for each in means]
            share = len(means) / (self.visits + len(means))
            self.mean_abs += share * (sum(sizes) / len(sizes) - self.mean_abs)
            squares = sum(size**2 for size in sizes) / len(sizes)
            self.mean_square += share * (squares - self.mean_square)
        self.visits += len(means)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_tracking_agrees_with_a_loop_over_groups(threshold: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    naive = [NaiveTracker(threshold) for _ in range(GROUPS)]
    start = 0.0 if isinstance(threshold, str) else threshold
    zeros = torch.zeros(GROUPS)
    tracked = F.TrackedLosses(zeros + start, zeros.long(), zeros, zeros)
    for step in range(12):
        scale_is_fixed = torch.tensor([step >= 6, step >= 9, False])
        index = torch.randint(SAMPLES, (11,), generator=generator)
        if step % 3 == 0:
            index = index - index % GROUPS  # the first group alone
        losses = losses_of(index, 1 + step // 4, generator) - 3.0
        losses[0] = 1e6 if step == 4 else torch.nan
        visits = group_visits(losses, index)
        tracked = F.track_losses(tracked, visits, index % GROUPS, scale_is_fixed, threshold)

        for group in range(GROUPS):
            rows = [row for row in range(len(index)) if int(index[row]) % GROUPS == group]
            finite: dict[int, list[float]] = {}
            for row in rows:
                if math.isfinite(losses[row]):
                    finite.setdefault(int(index[row]), []).append(float(losses[row]))
            means = {sample: sum(own) / len(own) for sample, own in finite.items()}
            of_rows = [means.get(int(index[row]), 0.0) for row in rows]
            naive[group].track(list(means.values()), of_rows, bool(scale_is_fixed[group]))
        assert tracked.visits.tolist() == [each.visits for each in naive]
        assert tracked.k1.tolist() == pytest.approx([each.k1 for each in naive], rel=1e-4)
        assert tracked.mean_abs.tolist() == pytest.approx([each.mean_abs for each in naive])
        expected = [each.mean_square for each in naive]
        assert tracked.mean_square.tolist() == pytest.approx(expected, rel=1e-4)


def make_tracker(threshold: Any) -> LossTracker:
    values = resolve_hyperparameters(EPOCHS, "paper", {"threshold": threshold})
    return LossTracker(F.PaperForm(values), GROUPS)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_a_group_without_visits_stays_unset(threshold: Any) -> None:
    tracker = make_tracker(threshold)
    start = tracker.k1.clone()
    averages = torch.tensor([1.0, 1.2, torch.nan, torch.nan, 8.0, 8.5])
    groups = torch.tensor([0, 0, 1, 1, 0, 0])
    tracker.visits_seen[0] = 4
    tracker.first_mean_abs[0] = 2.0
    tracker.first_mean_square[0] = 4.0
    tracker.end_epoch([averages], [groups])
    tracker.start_epoch(2)
    assert tracker.past_first_epoch.tolist() == [True, False, False]
    assert tracker.is_moving
    assert torch.equal(tracker.k1[1:], start[1:])
    if threshold in ("split", "bounded_split"):
        assert 1.2 < float(tracker.k1[0]) < 8.0


def test_a_tracker_with_groups_is_saved_and_loaded() -> None:
    saved, loaded = make_tracker("ema"), make_tracker("ema")
    saved.k1.copy_(torch.tensor([1.0, 2.0, 3.0]))
    saved.epoch_count.fill_(4)
    loaded.load_state_dict(saved.state_dict())
    assert loaded.k1.tolist() == [1.0, 2.0, 3.0]
    saved.start_epoch(4)
    assert torch.equal(loaded.threshold_now, saved.threshold_now)


@pytest.mark.parametrize("rows_per_chunk", [7, SAMPLES])
def test_thresholds_of_groups_are_those_of_each_group_alone(rows_per_chunk: int) -> None:
    generator = torch.Generator().manual_seed(1)
    index = torch.arange(SAMPLES)
    averages, groups = losses_of(index, 4, generator), index % GROUPS
    averages[::7] = torch.nan
    groups[groups == 1] = 3  # a group that has no samples, and one more that has
    scale = torch.tensor([2.0, 1.0, 40.0, 20.0])

    def chunks(values: Tensor) -> list[Tensor]:
        return list(values.split(rows_per_chunk))

    split = split_thresholds(chunks(averages), chunks(groups), 4)
    bounded = bounded_split_thresholds(chunks(averages), scale, chunks(groups))
    for group in (0, 2, 3):
        alone = averages[groups == group]
        assert float(split[group]) == pytest.approx(float(split_thresholds([alone])), rel=1e-5)
        expected = bounded_split_thresholds([alone], scale[group : group + 1])
        assert float(bounded[group]) == pytest.approx(float(expected), rel=1e-5)
    assert split[1].isnan()
    assert bounded[1].isnan()


def test_ten_thousand_groups_need_little_memory() -> None:
    groups = torch.arange(40_000) % 10_000
    averages = torch.where(torch.arange(40_000) < 20_000, 1.0, 5.0) + groups / 10_000
    split = split_thresholds([averages], [groups], 10_000)
    assert bool(((split > 1.0 + groups[:10_000] / 10_000) & (split < 6.0)).all())


@pytest.mark.parametrize("weight_lr", [None, 0.1])
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_a_loss_with_groups_is_one_loss_for_each_group(threshold: Any, weight_lr: Any) -> None:
    options = {"threshold": threshold, "weight_lr": weight_lr, "weight_range": (0.2, 20.0)}
    grouped = DiscrimLoss(SAMPLES, EPOCHS, num_classes=GROUPS, reduction="none", **options)  # type: ignore[arg-type]
    grouped.tracker.smallest_group = 0
    alone = [
        DiscrimLoss(SAMPLES, EPOCHS, reduction="none", **options)  # type: ignore[arg-type]
        for _ in range(GROUPS)
    ]
    generator = torch.Generator().manual_seed(2)
    for epoch in range(1, EPOCHS + 1):
        for criterion in (grouped, *alone):
            criterion.set_epoch(epoch)
        assert grouped.labels is not None
        grouped.labels.correction._set_phase(MIXING)  # the weights act
        for _ in range(5):
            index = torch.randint(SAMPLES, (16,), generator=generator)
            if epoch == 1:
                index = index - index % GROUPS + index % 2  # the last group appears later
            losses = losses_of(index, epoch, generator)
            together = losses.clone().requires_grad_()
            value = grouped(together, index, target=index % GROUPS)
            value.sum().backward()
            assert together.grad is not None
            for group, criterion in enumerate(alone):
                rows = index % GROUPS == group
                own = losses[rows].requires_grad_()
                own_value = criterion(own, index[rows])
                own_value.sum().backward()
                assert own.grad is not None
                torch.testing.assert_close(value[rows], own_value, rtol=1e-4, atol=1e-4)
                torch.testing.assert_close(together.grad[rows], own.grad, rtol=1e-4, atol=1e-5)
    for group, criterion in enumerate(alone):
        rows = torch.arange(SAMPLES) % GROUPS == group
        torch.testing.assert_close(grouped.tracker.k1[group], criterion.k1, rtol=1e-4, atol=1e-5)
        weights = grouped.sample_weights[rows], criterion.sample_weights[rows]
        torch.testing.assert_close(*weights, rtol=1e-3, atol=1e-4)
        early = grouped.table.learned_early[rows], criterion.table.learned_early[rows]
        assert torch.equal(*early)
    assert grouped.sample_weights.max() > 1.5
