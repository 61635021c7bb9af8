"""The numbers behind the charts, against plain loops."""

import math

import numpy as np
import pandas as pd
import pytest

from discrimloss.auditing.report.statistics import (
    box_of,
    chosen_epochs,
    class_noise,
    confusion,
    data_map,
    fluctuation_threshold,
    fluctuations,
    loss_bin_edges,
    loss_histogram,
    sampled,
    spread_out,
)


def test_epochs_are_chosen_evenly_with_first_and_last() -> None:
    assert chosen_epochs(5, 60) == [0, 1, 2, 3, 4]
    assert chosen_epochs(101, 5) == [0, 25, 50, 75, 100]
    assert chosen_epochs(1, 1) == [0]


def test_a_histogram_counts_each_loss_once() -> None:
    generator = np.random.default_rng(0)
    loss = generator.lognormal(0.0, 2.0, 500)
    loss[:3] = [0.0, 1e9, np.nan]
    edges = loss_bin_edges(loss)
    counts = [0] * (len(edges) - 1)
    for value in loss:
        if math.isnan(value):
            continue
        place = 0
        while place < len(counts) - 1 and value > 0 and math.log10(value) >= edges[place + 1]:
            place += 1
        counts[place] += 1
    assert loss_histogram(loss, edges).tolist() == counts
    assert sum(counts) == 499


def test_one_huge_loss_does_not_push_all_others_into_one_bin() -> None:
    loss = np.append(np.linspace(0.1, 5.0, 5000), 1e12)
    counts = loss_histogram(loss, loss_bin_edges(loss))
    assert counts.max() < 0.2 * counts.sum()


@pytest.mark.parametrize("loss", [np.zeros(4), np.full(4, 2.0), np.full(4, np.nan)])
def test_losses_without_any_spread_have_bins(loss: np.ndarray) -> None:
    edges = loss_bin_edges(loss)
    assert (np.diff(edges) > 0).all()
    assert loss_histogram(loss, edges).sum() == (~np.isnan(loss)).sum()


def test_fluctuation_counts_jumps_between_neighbours() -> None:
    weight = np.random.default_rng(1).normal(size=(9, 40))
    weight[3, 5] = np.nan
    expected = []
    for sample in range(40):
        jumps = 0
        for epoch in range(1, 9):
            change = abs(weight[epoch, sample] - weight[epoch - 1, sample])
            jumps += bool(change > 0.7)
        expected.append(jumps)
    assert fluctuations(weight, 0.7).tolist() == expected


def test_the_threshold_follows_the_scale_of_the_weights() -> None:
    weight = np.random.default_rng(2).random((5, 300))
    assert fluctuation_threshold(weight) == pytest.approx(0.09, abs=0.01)
    assert fluctuation_threshold(100 * weight) == pytest.approx(100 * fluctuation_threshold(weight))
    assert fluctuation_threshold(np.ones((5, 300))) == 0.0


def test_a_box_ends_at_values_within_reach() -> None:
    values = np.array([0, 1, 2, 3, 4, 100])
    box = box_of(values)
    assert (box.low, box.median, box.high) == (0.0, 2.5, 4.0)
    assert (box.first_quartile, box.third_quartile) == (1.25, 3.75)


def test_the_data_map_is_mean_and_deviation_over_visits() -> None:
    loss = np.random.default_rng(3).random((4, 6)).astype(np.float32)
    loss[1, 2] = np.nan
    loss[:, 5] = np.nan
    mean, deviation = data_map(loss)
    for sample in range(5):
        visits = [float(value) for value in loss[:, sample] if not math.isnan(value)]
        average = sum(visits) / len(visits)
        assert mean[sample] == pytest.approx(average)
        variance = sum((value - average) ** 2 for value in visits) / len(visits)
        assert deviation[sample] == pytest.approx(math.sqrt(variance), abs=1e-7)
    assert math.isnan(mean[5])


def test_rows_are_sampled_without_repetition_and_spread_by_rank() -> None:
    rows = np.arange(100)
    drawn = sampled(rows, 10, np.random.default_rng(0))
    assert len(set(drawn.tolist())) == 10
    assert sampled(rows, 200, np.random.default_rng(0)).tolist() == rows.tolist()
    assert spread_out(rows, -np.arange(100.0), 3).tolist() == [99, 49, 0]


def frame(**columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_confusion_counts_incorrect_labels_with_another_suggestion() -> None:
    samples = frame(
        given=["a", "a", "a", "b", "b", "a"],
        suggested=["b", "b", "a", "a", "a", None],
        verdict=["incorrect", "incorrect", "incorrect", "incorrect", "easy", "incorrect"],
    )
    found = confusion(samples)
    pairs = zip(found.given, found.suggested, found.counts, strict=True)
    assert list(pairs) == [("a", "b", 2), ("b", "a", 1)]
    assert found.without_suggestion == 2
    assert found.matrix(["a", "b", "c"]).tolist() == [[0, 2, 0], [1, 0, 0], [0, 0, 0]]


def test_noise_of_a_class_is_the_mean_of_its_probabilities() -> None:
    samples = frame(
        given=["a", "a", "b", "b"],
        verdict=["easy", "incorrect", "easy", "unseen"],
        p_incorrect=[0.1, 0.9, 0.0, float("nan")],
        is_wrong=[False, True, False, True],
    )
    noisiest, other = class_noise(samples, is_regression=False)
    assert (noisiest.name, noisiest.count, noisiest.estimated, noisiest.true) == ("a", 2, 0.5, 0.5)
    assert (other.name, other.count, other.estimated, other.true) == ("b", 1, 0.0, 0.0)


def test_noise_of_a_class_has_the_interval_of_its_own() -> None:
    samples = frame(
        given=["a"] * 200 + ["b"] * 20,
        verdict=["easy"] * 220,
        p_incorrect=[0.1] * 200 + [0.1] * 20,
    )
    few, many = sorted(
        class_noise(samples, False, noise_rate=0.1, noise_interval=(0.08, 0.13)),
        key=lambda group: group.count,
    )
    assert few.interval is not None
    assert many.interval is not None
    assert few.interval[0] < many.interval[0] < 0.08 < 0.13 < many.interval[1] < few.interval[1]
    (a, _) = class_noise(samples, False)
    assert a.interval is None


def test_noise_of_numbers_is_by_range_in_their_order() -> None:
    given = [float(value) for value in range(100)]
    wrong = [float(value >= 90) for value in range(100)]
    samples = frame(given=given, verdict=["easy"] * 100, p_incorrect=wrong)
    ranges = class_noise(samples, is_regression=True)
    assert [entry.count for entry in ranges] == [10] * 10
    assert [entry.estimated for entry in ranges] == [0.0] * 9 + [1.0]
    assert ranges[0].name == "0 to 9.9"
