"""Curriculum loss: the selection against all others, and against the paper's loop."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from discrimloss.losses import CurriculumLoss
from discrimloss.losses.curriculum_loss import hard_hinge, margins, selection, soft_hinge

LOGITS = torch.tensor([[3.0, 0.0, 1.0], [0.5, 0.0, 0.2], [0.0, 1.0, 0.0], [2.0, -1.0, 5.0]])
TARGET = torch.tensor([0, 0, 2, 0])
MARGINS = [2.0, 0.3, -1.0, -3.0]
HARD = [0.0, 0.7, 2.0, 4.0]
# 1 + cross-entropy where the prediction is wrong:
# log(1 + e + 1) - 0, and log(e^2 + e^-1 + e^5) - 2
SOFT = [0.0, 0.7, 1.0 + 1.5514447140, 1.0 + 3.0509457307]


def test_margins_and_hinges_by_hand() -> None:
    margin = margins(LOGITS, TARGET)
    torch.testing.assert_close(margin, torch.tensor(MARGINS))
    torch.testing.assert_close(hard_hinge(margin), torch.tensor(HARD))
    torch.testing.assert_close(soft_hinge(LOGITS, TARGET), torch.tensor(SOFT))


def threshold(margin: list[float], noise_rate: float) -> float:
    errors = sum(u < 0 for u in margin)
    return (1 - noise_rate) ** 2 * len(margin) + (1 - noise_rate) * errors


def bound(margin: list[float], chosen: tuple[int, ...], noise_rate: float) -> float:
    """``max(sum of v l(u), C - sum of v)``."""
    total = sum(v * max(0.0, 1 - u) for u, v in zip(margin, chosen, strict=True))
    return max(total, threshold(margin, noise_rate) - sum(chosen))


def papers_loop(margin: list[float], noise_rate: float) -> list[float]:
    """Sort the losses; sample i is taken if their sum up to it is at most ``C + 1 - i``."""
    losses = [max(0.0, 1 - u) for u in margin]
    chosen, total = [0.0] * len(margin), 0.0
    for i, sample in enumerate(sorted(range(len(margin)), key=losses.__getitem__), start=1):
        total += losses[sample]
        if total <= threshold(margin, noise_rate) + 1 - i:
            chosen[sample] = 1.0
    return chosen


@pytest.mark.parametrize("noise_rate", [0.0, 0.2, 0.5, 0.85])
@pytest.mark.parametrize("seed", range(6))
def test_no_other_selection_has_a_tighter_bound(noise_rate: float, seed: int) -> None:
    margin = 2.5 * torch.randn(8, generator=torch.Generator().manual_seed(seed))
    chosen = selection(margin, noise_rate).tolist()
    assert chosen == papers_loop(margin.tolist(), noise_rate)
    all_of_them = itertools.product((0, 1), repeat=len(margin))
    best = min(bound(margin.tolist(), other, noise_rate) for other in all_of_them)
    ours = bound(margin.tolist(), tuple(int(v) for v in chosen), noise_rate)
    assert ours == pytest.approx(best)
    if noise_rate == 0.0:  # the paper's theorem: between the 0-1 loss and the sum of hinges
        assert int((margin < 0).sum()) <= ours <= float(hard_hinge(margin).sum()) + 1e-5


def test_the_selection_by_hand() -> None:
    # Losses 0, 0.7, 2, 4 and two errors. C = 4 + 2 = 6: sums 0, 0.7, 2.7, 6.7 against 6, 5, 4, 3.
    assert selection(torch.tensor(MARGINS), 0.0).tolist() == [1.0, 1.0, 1.0, 0.0]
    # C = 0.25 * 4 + 0.5 * 2 = 2: against 2, 1, 0, -1.
    assert selection(torch.tensor(MARGINS), 0.5).tolist() == [1.0, 1.0, 0.0, 0.0]
    # C = 0.04 * 4 + 0.2 * 2 = 0.56: against 0.56, -0.44.
    assert selection(torch.tensor(MARGINS), 0.8).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_one_more_sample_where_the_bound_has_room() -> None:
    def more(margin: list[float], rate: float) -> list[float]:
        return selection(torch.tensor(margin), rate, one_more=True).tolist()

    # Three of 0, 0.7, 2, 4 are selected: 2.7 is at most 6 - 3, so that the fourth is as well.
    assert more(MARGINS, 0.0) == [1.0, 1.0, 1.0, 1.0]
    # Two are selected: 0.7 is above 2 - 2.
    assert more(MARGINS, 0.5) == [1.0, 1.0, 0.0, 0.0]
    # One is selected, and 0 is above 0.56 - 1; with nothing selected there is nothing to add to.
    assert more(MARGINS, 0.8) == [1.0, 0.0, 0.0, 0.0]
    assert more([-3.0], 0.0) == [0.0]
    # All are selected: no other one is left.
    assert more([2.0, 3.0], 0.0) == [1.0, 1.0]
    criterion = curriculum_loss(noise_rate=0.0, warmup=0.1, one_more=True)
    criterion.set_epoch(3)
    assert float(criterion(LOGITS, TARGET, torch.arange(4))) == pytest.approx(sum(SOFT) / 4)


def curriculum_loss(**options: Any) -> CurriculumLoss:
    return CurriculumLoss(num_samples=4, epochs=20, **options)


@pytest.mark.parametrize("average", ["selected", "batch"])
@pytest.mark.parametrize(
    ("options", "rows", "values"),
    [
        ({"noise_rate": 0.0}, [0, 1, 2], SOFT),
        ({"noise_rate": 0.5}, [0, 1], SOFT),
        ({"noise_rate": 0.0, "hinge": "hard"}, [0, 1, 2], HARD),
        ({}, [0, 1, 2, 3], SOFT),  # no estimate yet: all of them
    ],
)
def test_the_loss_is_the_mean_over_the_selected_or_over_the_batch(
    options: dict[str, Any], rows: list[int], values: list[float], average: str
) -> None:
    criterion = curriculum_loss(**options, warmup=0.1, average=average)
    number = len(rows) if average == "selected" else 4
    criterion.set_epoch(3)
    logits, reference = LOGITS.clone().requires_grad_(), LOGITS.clone().requires_grad_()
    loss = criterion(logits, TARGET, torch.arange(4))
    assert float(loss.detach()) == pytest.approx(sum(values[row] for row in rows) / number)
    loss.backward()
    if values is SOFT:
        hinges = soft_hinge(reference[rows], TARGET[rows])
    else:
        hinges = hard_hinge(margins(reference[rows], TARGET[rows]))
    (hinges.sum() / number).backward()
    torch.testing.assert_close(logits.grad, reference.grad)


def test_at_first_all_are_selected_then_the_score_tells_the_worst() -> None:
    criterion = curriculum_loss(noise_rate=0.5, warmup=0.1)
    assert criterion.hyperparameters()["warmup_epochs"] == 2
    for epoch in (1, 2):
        criterion.set_epoch(epoch)
        loss = criterion(LOGITS[1:], TARGET[1:], torch.tensor([1, 2, 3]))
        assert float(loss) == pytest.approx(sum(SOFT[1:]) / 3)
    for _ in range(2):
        criterion.set_epoch(3)
        # C = 0.25 * 3 + 0.5 * 2 = 1.75: sums 0.7, 2.7, 6.7 against 1.75, 0.75, -0.25
        loss = criterion(LOGITS[1:], TARGET[1:], torch.tensor([1, 2, 3]))
        assert float(loss) == pytest.approx(SOFT[1])
    scores = criterion.sample_scores()
    assert scores is not None
    assert scores[1:].tolist() == [0.0, 0.5, 0.5]
    assert math.isnan(scores[0])


def test_where_nothing_is_selected_nothing_moves() -> None:
    criterion = curriculum_loss(noise_rate=0.0)
    criterion.set_epoch(4)
    # C = 1 + 1, below the loss of 4
    logits = LOGITS[3:].clone().requires_grad_()
    loss = criterion(logits, TARGET[3:], torch.tensor([3]))
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert logits.grad is not None
    assert not logits.grad.any()


@pytest.mark.parametrize(
    ("warmup", "expected"),
    [
        (0.05, [0.0, 0.4, 0.5, 0.6, 0.6]),  # due in epochs 4 to 6
        (0.5, [0.0, 0.4, 0.5, 0.6, 0.6]),
    ],
)
def test_the_rate_is_estimated_until_the_selection_follows_it(
    warmup: float, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    criterion = curriculum_loss(warmup=warmup)
    rates = []
    for epoch in range(3, 8):
        estimate = SimpleNamespace(noise_rate=epoch / 10)
        monkeypatch.setattr(criterion.hinge_history, "verdicts", lambda said=estimate: said)
        criterion.set_epoch(epoch)
        rates.append(criterion.log_values()["noise_rate"])
    assert rates == expected
    # All are learned from until the last estimate.
    assert criterion.hyperparameters()["warmup_epochs"] == max(5, 20 * warmup)
    assert criterion.hyperparameters()["noise_rate_source"] == "estimated"


def test_what_is_estimated_from_are_the_hinge_losses() -> None:
    criterion = curriculum_loss()
    criterion.set_epoch(1)
    criterion(LOGITS[1:], TARGET[1:], torch.tensor([1, 2, 3]))
    assert criterion.hinge_history is not None
    torch.testing.assert_close(criterion.hinge_history.average_losses[1:], torch.tensor(SOFT[1:]))
    assert criterion.hinge_history.average_losses[0].isnan()
    assert curriculum_loss(noise_rate=0.2).hinge_history is None


def test_a_rate_that_was_estimated_before_a_resume_counts() -> None:
    criterion = curriculum_loss()
    criterion.noise_rate.value.fill_(0.5)
    criterion.noise_rate.estimated_in.fill_(6)
    resumed = curriculum_loss()
    resumed.load_state_dict(criterion.state_dict())
    resumed.set_epoch(6)
    loss = resumed(LOGITS, TARGET, torch.arange(4))
    assert float(loss) == pytest.approx((SOFT[0] + SOFT[1]) / 2)


def test_losses_of_half_precision_are_taken_in_single() -> None:
    criterion = curriculum_loss(noise_rate=0.0).to(torch.bfloat16)
    criterion.set_epoch(4)
    loss = criterion(LOGITS.bfloat16(), TARGET, torch.arange(4))
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(sum(SOFT[:3]) / 3, rel=1e-2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_rate": 1.0}, "noise_rate must be"),
        ({"warmup": -0.1}, "warmup must be a fraction"),
        ({"warmup": 1.1}, "warmup must be a fraction"),
        ({"average": "all"}, "average must be 'selected' or 'batch', not 'all'"),
        ({"hinge": "square"}, "hinge must be 'soft' or 'hard'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        curriculum_loss(**options)
