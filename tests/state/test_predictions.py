"""Averaged predictions against a loop over all classes."""

import pytest
import torch
from torch import Tensor

from discrimloss.state.predictions import (
    KEPT_CLASSES,
    MOMENTUM,
    TopPredictions,
    average_predictions,
    kept_classes,
    top_predictions,
)

HALF = 2.0**-10  # relative rounding of a float16, with room for a few roundings


def visits_of(classes: int, rows: int, number: int, spread: float) -> list[Tensor]:
    """Logits of the same samples at several visits, which change from visit to visit."""
    generator = torch.Generator().manual_seed(classes)
    base = spread * torch.randn(rows, classes, generator=generator)
    return [base + torch.randn(rows, classes, generator=generator) for _ in range(number)]


def averaged(logits_of_visits: list[Tensor], classes: int) -> TopPredictions:
    """As the table keeps them: 16-bit masses, columns that start at class 0 with no mass."""
    rows, kept = len(logits_of_visits[0]), kept_classes(classes)
    average = TopPredictions(torch.zeros(rows, kept).long(), torch.zeros(rows, kept))
    for visit, logits in enumerate(logits_of_visits, start=1):
        visits = torch.full((rows,), float(visit))
        average = average_predictions(average, top_predictions(logits), visits, classes)
        average = average._replace(mass=average.mass.half().float())
    return average


def dense_average(logits_of_visits: list[Tensor]) -> Tensor:
    """A moving average of the probabilities of all classes, corrected for its start at zero."""
    total, mass = torch.zeros_like(logits_of_visits[0]), 0.0
    for logits in logits_of_visits:
        total = MOMENTUM * total + (1.0 - MOMENTUM) * logits.softmax(1)
        mass = MOMENTUM * mass + (1.0 - MOMENTUM)
    return total / mass


def test_the_momentum() -> None:
    assert MOMENTUM == 0.6


@pytest.mark.parametrize("number", [1, 2, 7])
@pytest.mark.parametrize("classes", [2, 3, 10, 14])
def test_few_classes_are_averaged_without_loss(classes: int, number: int) -> None:
    logits = visits_of(classes, 20, number, spread=2.0)
    average = averaged(logits, classes)
    assert all(len(set(row)) == classes for row in average.classes.tolist())
    expected = dense_average(logits)
    torch.testing.assert_close(average.dense(classes), expected, rtol=3 * HALF, atol=1e-6)


@pytest.mark.parametrize("number", [1, 2, 7])
def test_of_many_classes_the_likeliest_are_close(number: int) -> None:
    logits = visits_of(50, 40, number, spread=3.0)
    average, expected = averaged(logits, 50), dense_average(logits)
    dense = average.dense(50)
    assert torch.equal(dense.argmax(1), expected.argmax(1))
    assert float((dense - expected).abs().max()) < 0.025
    torch.testing.assert_close(dense.sum(1), torch.ones(40), rtol=0, atol=0.01)
    # A class that is not kept has the mean of the rest.
    kept = torch.zeros_like(dense).scatter_(1, average.classes, 1.0).bool()
    assert torch.equal(kept.sum(1), torch.full((40,), KEPT_CLASSES))
    rest = (1.0 - average.mass.sum(1)) / (50 - KEPT_CLASSES)
    torch.testing.assert_close(dense[0][~kept[0]], rest[0].expand(50 - KEPT_CLASSES))


def test_a_class_that_was_not_kept_can_come_in() -> None:
    first, later = torch.zeros(1, 50), torch.zeros(1, 50)
    first[0, :14], later[0, 49] = 9.0, 12.0
    average = averaged([first, later, later], 50)
    assert int(average.classes[0, 0]) == 49
    # Two of three visits: (0.4 + 0.24) / (0.4 + 0.24 + 0.144).
    assert float(average.mass[0, 0]) == pytest.approx(0.816, abs=0.01)
    assert len(set(average.classes[0].tolist())) == KEPT_CLASSES


def test_the_first_visit_ignores_what_is_stored() -> None:
    logits = torch.randn(5, 20, generator=torch.Generator().manual_seed(0))
    stored = TopPredictions(torch.full((5, 14), 19), torch.full((5, 14), 0.5))
    found = average_predictions(stored, top_predictions(logits), torch.ones(5), 20)
    expected = top_predictions(logits)
    assert torch.equal(found.classes, expected.classes)
    assert torch.equal(found.mass, expected.mass)


def test_the_probability_of_single_classes() -> None:
    top = TopPredictions(torch.tensor([[3, 1], [0, 2]]), torch.tensor([[0.6, 0.2], [0.5, 0.5]]))
    wanted = torch.tensor([[1, 0], [0, 4]])
    expected = torch.tensor([[0.2, 0.2 / 3], [0.5, 0.0]])
    torch.testing.assert_close(top.of_class(wanted, 5), expected)
    torch.testing.assert_close(top.dense(5).gather(1, wanted), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_precision_is_stored_alike(dtype: torch.dtype) -> None:
    logits = torch.tensor([[4.0, -2.0, 0.5], [60.0, 0.0, -60.0]])
    found = top_predictions(logits.to(dtype))
    assert found.mass.dtype == torch.float32
    torch.testing.assert_close(found.mass, top_predictions(logits).mass)
