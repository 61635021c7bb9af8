"""The unit of the loss does not matter, nor do many classes."""

from typing import Any

import pytest
import torch
from labelled_batches import MEMORISED, LabelledBatches, make_criterion, phase_of
from torch import Tensor

from discrimloss import DiscrimLoss
from discrimloss.label_correction import MIXING

NUM_SAMPLES, BATCH = 40, 10


def batches() -> list[list[tuple[Tensor, Tensor]]]:
    """Four epochs: two thirds of the losses shrink, the others stay high."""
    generator = torch.Generator().manual_seed(3)
    difficulty = 1.0 + torch.rand(NUM_SAMPLES, generator=generator)
    difficulty[::3] += 3.0
    epochs = []
    for epoch in range(1, 5):
        noise = 0.2 * torch.rand(NUM_SAMPLES, generator=generator)
        losses = torch.where(difficulty > 3.0, difficulty, difficulty / epoch) + noise
        order = torch.randperm(NUM_SAMPLES, generator=generator)
        epochs.append([(losses[index], index) for index in order.split(BATCH)])
    return epochs


def train(criterion: DiscrimLoss, unit: float) -> Tensor:
    """All gradients that reached the model, one after the other."""
    gradients = []
    for epoch, epoch_batches in enumerate(batches(), start=1):
        criterion.set_epoch(epoch)
        for losses, index in epoch_batches:
            inner = (unit * losses).requires_grad_()
            criterion(inner, index).backward()
            assert inner.grad is not None
            gradients.append(inner.grad)
    return torch.cat(gradients)


@pytest.mark.parametrize("threshold", ["bounded_split", "split", "ema", "mean"])
@pytest.mark.parametrize("unit", [1e3, 1e-3])
def test_the_unit_of_the_loss_changes_neither_weights_nor_gradients(
    threshold: Any, unit: float
) -> None:
    settings = {"epochs": 4, "threshold": threshold, "weight_range": (0.05, 20.0)}
    usual, scaled = DiscrimLoss(NUM_SAMPLES, **settings), DiscrimLoss(NUM_SAMPLES, **settings)
    expected, gradients = train(usual, 1.0), train(scaled, unit)

    torch.testing.assert_close(scaled.sample_weights, usual.sample_weights, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-6)
    weights = usual.sample_weights
    assert weights.max() > 1.5  # there was something to compare
    assert weights.min() < 0.9


def test_losses_below_zero_have_a_unit_too() -> None:
    # Their mean may be zero or negative; the scale is the mean of what they measure.
    usual, scaled = (DiscrimLoss(4, epochs=4, threshold=0.0) for _ in range(2))
    for criterion, unit in ((usual, 1.0), (scaled, 1000.0)):
        criterion(unit * torch.tensor([-2.0, -1.0, 1.0, 2.0]), torch.arange(4))
    torch.testing.assert_close(scaled.sample_weights, usual.sample_weights)
    assert usual.sample_weights.max() > 1.0


def step_of_log_weight(criterion: DiscrimLoss, loss: float, sample: int) -> float:
    """How far a loss moves the weight of a fresh sample."""
    criterion(torch.tensor([loss]), torch.tensor([sample]))
    return float(criterion.sample_weights[sample].log())


def test_the_scale_is_that_of_the_first_epoch_and_then_frozen() -> None:
    criterion = DiscrimLoss(9, epochs=4, threshold=0.0, suppressed_epochs=0, relative_weight_lr=0.5)
    # First epoch: the mean of |2|, |-6| and |1|, each counted by its size, over batches of
    # different size: (4 + 36 + 1) / (2 + 6 + 1) = 41 / 9.
    criterion(torch.tensor([2.0, -6.0]), torch.tensor([0, 1]))
    assert step_of_log_weight(criterion, 1.0, sample=2) == pytest.approx(0.5 * 9 / 41)

    # From then on, losses a thousand times larger leave it where it is.
    for epoch in (2, 3, 4):
        criterion.set_epoch(epoch)
        criterion(torch.tensor([3000.0]), torch.tensor([0]))
        step = step_of_log_weight(criterion, 1.0, sample=epoch + 1)
        assert step == pytest.approx(0.5 * 9 / 41)


def test_an_explicit_weight_lr_is_absolute() -> None:
    criterion = DiscrimLoss(9, epochs=4, threshold=0.0, suppressed_epochs=0, weight_lr=0.01)
    assert step_of_log_weight(criterion, 1.0, sample=0) == pytest.approx(0.01, rel=1e-5)
    assert step_of_log_weight(criterion, 100.0, sample=1) == pytest.approx(1.0)


def test_losses_of_zero_have_no_unit_and_move_no_weight() -> None:
    criterion = DiscrimLoss(3, epochs=4, weight_range=(0.05, 20.0))
    criterion(torch.zeros(3), torch.arange(3))
    assert criterion.sample_weights.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("position", [0, 1500], ids=["in the first batch", "later"])
def test_one_absurd_target_does_not_set_the_scale_for_all(position: int) -> None:
    generator = torch.Generator().manual_seed(0)
    losses = torch.randn(4000, generator=generator).square() * 12.0
    scales = []
    for outlier in (None, 1e6):
        given = losses.clone()
        if outlier is not None:
            given[position] = outlier
        criterion = DiscrimLoss(4000, epochs=10)
        for index in torch.arange(4000).split(100):
            criterion(given[index], index)
        scales.append(float(criterion.loss_scale))
    usual, with_outlier = scales
    assert usual <= with_outlier < 1.5 * usual


# The forms that know targets.


@pytest.mark.parametrize("form", ["classes", "logits", "regression"])
@pytest.mark.parametrize("unit", [1e3, 1e-3])
def test_the_unit_of_the_loss_does_not_matter_with_targets(form: str, unit: float) -> None:
    usual, scaled = make_criterion(form), make_criterion(form)
    batches = LabelledBatches(form, MEMORISED)
    expected = batches.train(usual)
    plain = batches.losses
    batches.losses = lambda outputs, index: unit * plain(outputs, index)  # type: ignore[method-assign]
    found = batches.train(scaled)
    if form == "logits":  # beyond a factor of 100 the losses of other classes do not follow
        found, expected = found[:20], expected[:20]
    for (phase, _, gradient), (expected_phase, _, expected_gradient) in zip(
        found, expected, strict=True
    ):
        assert phase == expected_phase
        # The loss scale of a regression comes from latest losses, which are bfloat16.
        torch.testing.assert_close(gradient / unit, expected_gradient, rtol=5e-3, atol=1e-4)
    assert phase_of(usual) == phase_of(scaled) == MIXING


def test_ten_thousand_classes_with_logits() -> None:
    """Every phase, and nothing of the size of classes times classes."""
    classes, samples, rows = 10_000, 2_000, 100
    criterion = DiscrimLoss(samples, epochs=20, num_classes=classes)
    target = torch.arange(samples) % 20 * 500
    generator = torch.Generator().manual_seed(0)
    seen: list[int] = []
    for epoch in range(1, 5):
        criterion.set_epoch(epoch)
        if epoch == 4:
            assert criterion.labels is not None
            criterion.labels.correction._match_classes(criterion.table)
            criterion.labels.correction._set_phase(MIXING)
        for index in torch.randperm(samples, generator=generator).split(rows):
            logits = torch.randn(rows, classes, generator=generator)
            logits[torch.arange(rows), target[index]] += 4.0 * epoch
            logits.requires_grad_()
            losses = torch.nn.functional.cross_entropy(logits, target[index], reduction="none")
            loss = criterion(losses, index, target=target[index], logits=logits)
            (gradient,) = torch.autograd.grad(loss, logits)
            assert gradient.isfinite().all()
        seen.append(phase_of(criterion))
    assert seen[-1] == MIXING
    buffers = sum(buffer.nbytes for buffer in criterion.buffers())
    assert buffers < 100 * classes
    assert criterion.table.bytes_per_sample <= 11 + 4 + 64
