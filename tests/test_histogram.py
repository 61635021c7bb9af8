"""The cut that splits a table of losses, against an exact search over sorted values."""

import math

import pytest
import torch
from torch import Tensor

from discrimloss.histogram import best_split, loss_histogram, separability

SIZE = 3000


def normal(size: int, mean: float, spread: float) -> Tensor:
    generator = torch.Generator().manual_seed(size)
    return mean + spread * torch.randn(size, generator=generator)


def exponential(size: int) -> Tensor:
    generator = torch.Generator().manual_seed(size)
    return -torch.rand(size, generator=generator).clamp(min=1e-6).log()


SHAPES = {
    "two separate groups": torch.cat([normal(2000, 0.3, 0.1), normal(1000, 4.0, 0.5)]),
    "two overlapping groups": torch.cat([normal(1500, 1.0, 0.7), normal(1500, 2.5, 0.7)]),
    "a small group far away": torch.cat([normal(2970, 0.5, 0.2), normal(30, 6.0, 0.5)]),
    "one group": normal(SIZE, 2.0, 0.5),
    "exponential, as losses late in training": exponential(SIZE),
    "log-normal, a heavy tail": normal(SIZE, 0.0, 2.0).exp(),
    "Cauchy, a heavier tail on both sides": normal(SIZE, 0.0, 1.0) / normal(SIZE + 1, 0, 1)[1:],
    "negative": torch.cat([normal(1000, -7.0, 0.4), normal(2000, -2.0, 0.8)]),
    "on both sides of zero": torch.cat([normal(1000, -2.0, 0.5), normal(2000, 1.0, 0.5)]),
    "a tiny unit": 1e-6 * torch.cat([normal(1500, 1.0, 0.3), normal(1500, 4.0, 0.3)]),
    "a large unit": 1e6 * torch.cat([normal(1500, 1.0, 0.3), normal(1500, 4.0, 0.3)]),
    "a spread that is small beside the mean": normal(SIZE, 100.0, 0.01),
    "one absurd outlier": torch.cat([normal(SIZE, 1.0, 0.5), torch.tensor([1e6])]),
    "one absurd outlier below": torch.cat([normal(SIZE, 1.0, 0.5), torch.tensor([-1e6])]),
    "two values": torch.tensor([1.0] * 10 + [5.0] * 3),
}


def split_at(losses: Tensor) -> float:
    return float(best_split(loss_histogram([losses])))


def between_group_variance(losses: Tensor, cut: float) -> float:
    losses = losses.double()
    below, above = losses[losses <= cut], losses[losses > cut]
    if not (len(below) and len(above)):
        return 0.0
    share_below, share_above = len(below) / len(losses), len(above) / len(losses)
    return share_below * share_above * float(below.mean() - above.mean()) ** 2


def best_between_group_variance(losses: Tensor) -> float:
    """Otsu, exactly: every cut of the sorted values is tried."""
    ordered = losses.double().sort().values
    number = torch.arange(1, len(ordered), dtype=torch.float64)
    below = ordered.cumsum(0)[:-1] / number
    above = ordered.flip(0).cumsum(0).flip(0)[1:] / (len(ordered) - number)
    share = number / len(ordered)
    return float((share * (1 - share) * (below - above).square()).max())


@pytest.mark.parametrize("shape", SHAPES)
def test_the_split_is_as_good_as_an_exact_search(shape: str) -> None:
    losses = SHAPES[shape]
    reached = between_group_variance(losses, split_at(losses))
    assert reached >= 0.995 * best_between_group_variance(losses)


def test_the_cut_stands_in_the_middle_of_a_gap() -> None:
    cut = split_at(torch.tensor([0.9, 1.0, 1.1, 4.9, 5.0, 5.1]))
    assert 2.0 < cut < 4.0


def test_values_that_are_not_finite_do_not_take_part() -> None:
    losses = SHAPES["two separate groups"]
    broken = torch.tensor([math.nan, math.inf, -math.inf])
    assert split_at(torch.cat([broken, losses])) == split_at(losses)


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [torch.tensor([])],
        [torch.tensor([1.5])],
        [torch.full((100,), 0.1)],
        [torch.full((7,), 0.3), torch.full((5,), 0.3)],
        [torch.tensor([math.nan, math.inf, 2.0])],
    ],
    ids=["no chunk", "empty", "one value", "constant", "constant in chunks", "one finite value"],
)
def test_there_is_nothing_to_split(chunks: list[Tensor]) -> None:
    assert best_split(loss_histogram(chunks)).isnan().tolist() == [True]


@pytest.mark.parametrize("shape", SHAPES)
def test_chunks_give_the_same_split_as_the_whole(shape: str) -> None:
    losses = SHAPES[shape]
    whole = split_at(losses)
    for rows in (1000, 7):
        # The mean that sets the bins' width is a sum of floats, so the last digits may differ.
        split = float(best_split(loss_histogram(losses.split(rows))))
        assert split == pytest.approx(whole, rel=1e-6)


def test_the_order_of_the_samples_does_not_matter() -> None:
    losses = SHAPES["two overlapping groups"]
    assert split_at(losses.flip(0)) == pytest.approx(split_at(losses), rel=1e-6)


def test_a_generator_of_chunks_is_enough() -> None:
    losses = SHAPES["negative"]
    histogram = loss_histogram(chunk for chunk in losses.split(500))
    assert int(histogram.counts.sum()) == len(losses)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (torch.tensor([1.0] * 30 + [2.0] * 70), 1.0),
        (torch.linspace(0.0, 1.0, 20_001), 0.75),
        (normal(200_000, 0.0, 1.0), 2 / torch.pi),
    ],
    ids=["two points", "uniform", "normal"],
)
def test_separability_of_known_distributions(values: Tensor, expected: float) -> None:
    assert float(separability(loss_histogram([values]))) == pytest.approx(expected, abs=0.01)
