"""Self-paced learning: thresholds and weights by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from discrimloss.losses import SelfPacedLearning


def absolute(prediction: Tensor, target: Tensor) -> Tensor:
    return (prediction - target).abs()


def visit(criterion: SelfPacedLearning, losses: list[float]) -> list[float]:
    values = criterion(torch.tensor(losses), torch.zeros(len(losses)), torch.arange(len(losses)))
    result: list[float] = values.tolist()
    return result


def test_the_threshold_by_hand() -> None:
    criterion = SelfPacedLearning(
        4, epochs=10, growth=2.0, task_loss=absolute, reduction="none"
    )  # the warm-up is one epoch
    assert visit(criterion, [1.0, 2.0, 3.0, 9.0]) == [1.0, 2.0, 3.0, 9.0]
    criterion.set_epoch(2)  # half of the samples: losses of 1 and 2
    assert visit(criterion, [1.0, 2.0, 3.0, 9.0]) == [1.0, 2.0, 0.0, 0.0]
    criterion.set_epoch(2)  # resumed: nothing changes
    assert visit(criterion, [1.0, 2.0, 3.0, 9.0]) == [1.0, 2.0, 0.0, 0.0]
    criterion.set_epoch(3)  # losses below 4
    assert visit(criterion, [1.0, 2.0, 3.9, 9.0]) == pytest.approx([1.0, 2.0, 3.9, 0.0])
    for epoch in (4, 5):  # below 8, below 16
        criterion.set_epoch(epoch)
    assert visit(criterion, [1.0, 2.0, 3.0, 9.0]) == [1.0, 2.0, 3.0, 9.0]
    assert criterion.sample_scores().tolist() == pytest.approx([0.0, 0.0, 2 / 5, 3 / 5])


def test_the_largest_fraction() -> None:
    criterion = SelfPacedLearning(
        4, epochs=10, growth=100.0, largest_fraction=0.75, task_loss=absolute, reduction="none"
    )
    for epoch in range(1, 6):
        criterion.set_epoch(epoch)
        counted = visit(criterion, [1.0, 2.0, 3.0, 9.0])
    assert counted == [1.0, 2.0, 3.0, 0.0]


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="growth must be a finite factor above 1, not 1"):
        SelfPacedLearning(4, 10, growth=1.0)
    with pytest.raises(ValueError, match="first_fraction and largest_fraction must be fractions"):
        SelfPacedLearning(4, 10, largest_fraction=0.3)
    with pytest.raises(ValueError, match="warmup must be a fraction of the run"):
        SelfPacedLearning(4, 10, warmup=2.0)
