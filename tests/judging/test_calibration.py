"""Probabilities of incorrect labels, against losses whose truth is known."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from discrimloss.judging.calibration import calibrate

Losses = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Losses]

NUM_SAMPLES, SCALE = 4000, 2.5

# Losses of correct labels late in training, most of them well below the scale.
CORRECT: dict[str, Draw] = {
    "exponential": lambda random, size: random.exponential(0.2, size),
    "gamma": lambda random, size: random.gamma(0.5, 0.4, size),
    "log-normal": lambda random, size: random.lognormal(-2.5, 1.0, size),
    "squared normal": lambda random, size: (0.4 * random.standard_normal(size)) ** 2,
    "squared Student-t": lambda random, size: (0.3 * random.standard_t(4, size)) ** 2,
}
INCORRECT: dict[str, Draw] = {
    "normal": lambda random, size: random.normal(5.0, 1.0, size),
    "gamma(4)": lambda random, size: random.gamma(4.0, 1.0, size),
}


def probabilities(losses: Losses | list[float], scale: float = SCALE) -> Losses:
    table = torch.tensor(losses, dtype=torch.float32)
    answer: Losses = calibrate(lambda: [table], scale)(table).double().numpy()
    return answer


def noisy_losses(
    correct: str, incorrect: str, noise: float
) -> tuple[Losses, npt.NDArray[np.bool_]]:
    """Losses, and whether each belongs to an incorrect label."""
    random = np.random.default_rng(0)
    number = round(noise * NUM_SAMPLES)
    parts = CORRECT[correct](random, NUM_SAMPLES - number), INCORRECT[incorrect](random, number)
    return np.concatenate(parts), np.arange(NUM_SAMPLES) >= NUM_SAMPLES - number


def expected_calibration_error(probability: Losses, truth: npt.NDArray[np.bool_]) -> float:
    group = np.minimum((10 * probability).astype(int), 9)
    predicted, actual = (np.bincount(group, values, 10) for values in (probability, truth))
    return float(np.abs(predicted - actual).sum() / len(truth))


# Clean data.


@pytest.mark.parametrize("correct", CORRECT)
def test_clean_data_stay_quiet(correct: str) -> None:
    losses = CORRECT[correct](np.random.default_rng(0), NUM_SAMPLES)
    probability = probabilities(losses)
    assert probability.mean() <= 0.01
    assert np.mean(probability > 0.5) <= 0.01


@pytest.mark.parametrize("mean", [0.2, 0.4])  # of the scale
@pytest.mark.parametrize(
    "draw",
    [
        lambda random, mean: random.exponential(mean, NUM_SAMPLES),
        lambda random, mean: random.gamma(0.5, 2.0 * mean, NUM_SAMPLES),
        lambda random, mean: mean * random.standard_normal(NUM_SAMPLES) ** 2,
        lambda random, mean: mean * random.standard_t(4, NUM_SAMPLES) ** 2 / 2.0,
    ],
    ids=["exponential", "gamma", "squared normal", "squared Student-t"],
)
def test_clean_data_that_are_hard_to_learn_stay_quiet(
    draw: Callable[[np.random.Generator, float], Losses], mean: float
) -> None:
    probability = probabilities(draw(np.random.default_rng(0), mean * SCALE))
    assert probability.mean() <= 0.01
    assert np.mean(probability > 0.5) <= 0.01


# Noisy data.

# Where precision or recall is below 0.9. With 200 incorrect labels among 4,000 the estimate is
# cautious: knowing the true distributions one would find 84 to 97 % of them. Squared Student-t
# losses have a tail among the incorrect ones, and even the truth gives a precision of 0.83 there.
LOWEST_PRECISION = {("squared Student-t", "gamma(4)", 0.05): 0.80}
LOWEST_RECALL = {
    ("exponential", "gamma(4)", 0.05): 0.70,
    ("gamma", "gamma(4)", 0.05): 0.60,
    ("log-normal", "gamma(4)", 0.05): 0.78,
    ("squared normal", "gamma(4)", 0.05): 0.65,
    ("squared Student-t", "gamma(4)", 0.05): 0.78,
}


@pytest.mark.parametrize("noise", [0.05, 0.2, 0.4, 0.6])
@pytest.mark.parametrize("incorrect", INCORRECT)
@pytest.mark.parametrize("correct", CORRECT)
def test_noisy_data_are_recognised(correct: str, incorrect: str, noise: float) -> None:
    losses, truth = noisy_losses(correct, incorrect, noise)
    probability = probabilities(losses)
    assert probability.mean() == pytest.approx(noise, abs=0.04)
    assert expected_calibration_error(probability, truth) < 0.05

    flagged = probability > 0.5
    found = np.sum(flagged & truth)
    combination = (correct, incorrect, noise)
    assert found / flagged.sum() > LOWEST_PRECISION.get(combination, 0.9)
    assert found / truth.sum() > LOWEST_RECALL.get(combination, 0.9)


@pytest.mark.parametrize(
    "mean_of_correct",
    [
        0.02,
        0.001,
    ],
)
def test_incorrect_labels_are_found_where_all_others_are_learned(mean_of_correct: float) -> None:
    random = np.random.default_rng(0)
    correct = random.exponential(mean_of_correct * SCALE, 2400)
    probability = probabilities(np.concatenate([correct, random.normal(5.0, 1.0, 1600)]))
    assert probability.mean() == pytest.approx(0.4, abs=0.04)
    assert np.mean(probability[2400:] > 0.5) > 0.9


# What never depends on the shape of the losses.

SAMPLE_LOSSES, _ = noisy_losses("gamma", "gamma(4)", 0.2)


def test_the_result_is_deterministic() -> None:
    np.testing.assert_array_equal(probabilities(SAMPLE_LOSSES), probabilities(SAMPLE_LOSSES))


def test_the_fit_leaves_the_random_generator_alone() -> None:
    before = torch.get_rng_state()
    probabilities(SAMPLE_LOSSES)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("unit", [1000.0, 1e-3])
@pytest.mark.parametrize("incorrect", INCORRECT)
def test_the_unit_of_the_loss_does_not_matter(unit: float, incorrect: str) -> None:
    losses, _ = noisy_losses("exponential", incorrect, 0.2)
    expected = probabilities(losses)
    scaled = probabilities(unit * losses, unit * SCALE)
    assert expected.max() > 0.9
    # Rounding may move a sample at the edge of a bin to the next one.
    np.testing.assert_allclose(scaled, expected, atol=1e-4)


def test_the_order_of_the_samples_does_not_matter() -> None:
    order = np.random.default_rng(1).permutation(NUM_SAMPLES)
    shuffled = probabilities(SAMPLE_LOSSES[order])
    np.testing.assert_allclose(shuffled, probabilities(SAMPLE_LOSSES)[order], atol=1e-6)


@pytest.mark.parametrize("rows", [7, 1000])
def test_chunks_do_not_matter(rows: int) -> None:
    table = torch.tensor(SAMPLE_LOSSES, dtype=torch.float32)
    in_chunks = calibrate(lambda: table.split(rows), SCALE)(table)
    np.testing.assert_allclose(in_chunks, probabilities(SAMPLE_LOSSES), atol=1e-6)


def test_a_generator_of_chunks_is_enough_and_a_chunk_may_be_empty() -> None:
    table = torch.tensor(SAMPLE_LOSSES, dtype=torch.float32)
    unseen = torch.full((5,), math.nan)

    def chunks() -> Iterator[Tensor]:
        yield from (unseen, table[:2000], torch.tensor([]), table[2000:])

    np.testing.assert_allclose(
        calibrate(chunks, SCALE)(table), probabilities(SAMPLE_LOSSES), atol=1e-6
    )


def test_nan_stays_nan_and_takes_no_part() -> None:
    with_nan = np.insert(SAMPLE_LOSSES, [0, 1700, NUM_SAMPLES], math.nan)
    probability = probabilities(with_nan)
    np.testing.assert_array_equal(np.isnan(probability), np.isnan(with_nan))
    np.testing.assert_allclose(
        probability[~np.isnan(probability)], probabilities(SAMPLE_LOSSES), atol=1e-6
    )


def test_the_shape_and_the_precision_of_the_losses_are_kept() -> None:
    table = torch.tensor(SAMPLE_LOSSES, dtype=torch.float32)
    calibration = calibrate(lambda: [table], SCALE)
    grid = torch.tensor([[0.1, 2.0], [5.0, 9.0]])
    assert calibration(grid).shape == (2, 2)
    assert calibration(grid).dtype == torch.float32
    torch.testing.assert_close(
        calibration(grid.double()).float(), calibration(grid), rtol=0, atol=1e-5
    )


def test_a_larger_loss_is_never_less_suspicious() -> None:
    # Over a fine grid that reaches far beyond all losses, where two fitted tails may cross again.
    table = torch.tensor(SAMPLE_LOSSES, dtype=torch.float32)
    grid = torch.logspace(-12, 12, 20_000)
    probability = calibrate(lambda: [table], SCALE)(grid)
    assert probability[0] == 0.0
    assert probability[-1] > 0.9
    assert probability.diff().min() > -1e-6


@st.composite
def loss_tables(draw: st.DrawFn) -> list[float]:
    """From one loss to a few hundred, of one kind or two, and some that are out of place."""
    size = draw(st.integers(1, 200))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    low, high = (draw(st.sampled_from([-30.0, 0.0, 0.01, 0.2, 2.0, 5.0, 1e4])) for _ in range(2))
    spread = draw(st.sampled_from([0.0, 0.1, 1.0]))
    center = np.where(random.random(size) < draw(st.floats(0.0, 1.0)), low, high)
    losses = (center + spread * random.standard_exponential(size)).tolist()
    odd = st.sampled_from([0.0, -1.0, -1e15, 1e-15, 1e15, math.nan])
    return losses + draw(st.lists(odd, max_size=3))


@settings(max_examples=30)
@given(loss_tables(), st.sampled_from([2.5, 1.0, 100.0, 1e-15, 1e15]))
@example([0.0], 2.5)
@example([5.0], 2.5)
@example([0.1, 5.0], 2.5)
@example([-3.0, -2.0], 2.5)
@example([0.0] * 100, 1e-15)
@example([7.0] * 100, 2.5)
@example([1e15] * 3 + [1e-15] * 3, 2.5)
@example([-1e15, 1e15, 1.0], 1e-15)
@example([math.nan], 2.5)
def test_probabilities_of_any_table(losses: list[float], scale: float) -> None:
    table = np.array(losses)
    probability = probabilities(table, scale)
    np.testing.assert_array_equal(np.isnan(probability), np.isnan(table))
    in_order = probability[np.argsort(table)]
    in_order = in_order[~np.isnan(in_order)]
    assert ((in_order >= 0.0) & (in_order <= 1.0)).all()
    assert (np.diff(in_order) >= -1e-6).all()


@pytest.mark.parametrize("loss", [0.0, 0.1, 2.5, 5.0, 1e15])
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_losses_that_are_all_alike_are_not_suspicious(loss: float, size: int) -> None:
    assert probabilities([loss] * size).max() == 0.0
