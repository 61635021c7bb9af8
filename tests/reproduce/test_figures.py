"""Figures about samples: the few numbers that are kept, and what is said of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reproduce_fixtures import TINY, cell_of, result, tiny_table

from discrimloss.reproduce.figure_claims import (
    fluctuation_claims,
    generalization_claims,
    histogram_claims,
)
from discrimloss.reproduce.render import render
from discrimloss.reproduce.results import collect
from discrimloss.reproduce.sample_figures import (
    BINS,
    importance_fluctuation,
    importances,
    loss_histograms,
)
from discrimloss.reproduce.store import ResultsStore
from discrimloss.reproduce.table_file import PaperTable
from discrimloss.training.sample_traces import Traces

IS_WRONG = np.array([False, False, True, True])


def traces_of(loss: Any, weight: Any = None) -> Traces:
    values = np.array(loss, dtype=np.float32)
    weights = None if weight is None else np.array(weight, dtype=np.float32)
    return Traces(np.arange(1, len(values) + 1), values, weights, values)


def table_of(tmp_path: Path, kind: str) -> PaperTable:
    return tiny_table(tmp_path, f'kind = "{kind}"\n{TINY}')


def test_histograms_at_a_third_two_thirds_and_the_end() -> None:
    losses = [[1.0, 1.0, 1.0, 1.0]] * 5 + [[0.0, 0.0, 2.0, 2.0]] * 4
    found = loss_histograms(traces_of(losses), IS_WRONG)["histograms"]
    assert [step["epoch"] for step in found] == [3, 6, 9]
    assert found[0]["overlap"] == 1.0  # all alike
    assert found[2]["overlap"] == 0.0
    assert found[2]["counts"]["clean"] == [2] + [0] * (BINS - 1)
    assert found[2]["counts"]["wrong"] == [0] * (BINS - 1) + [2]
    assert found[2]["medians"] == {"clean": 0.0, "wrong": 1.0}


def test_jumps_are_counted_by_kind_and_one_of_each_is_traced() -> None:
    importance = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
    found = importance_fluctuation(importance, np.array([1, 2, 3]), IS_WRONG)
    assert found["threshold"] == pytest.approx(0.1)
    assert found["fluctuation"]["clean"]["mean"] == 0.0
    assert found["fluctuation"]["wrong"]["mean"] == 1.5
    assert found["fluctuation"]["wrong"]["turns"] == 0.5  # one falls and rises, one falls
    assert found["fluctuation"]["wrong"]["traced"]["importance"] == [1.0, 0.0, 1.0]


def test_the_importance_is_what_multiplies_the_gradient(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text('{"confidence_threshold": 1.0}\n')
    used = {"confidence_regularization": 1.0}
    traces = traces_of([[0.0, 1.0]], [[1.0, 4.0]])
    superloss = importances(
        traces, {"method": "superloss", "method_hyperparameters": used}, tmp_path
    )
    assert superloss is not None
    # beta = (l - tau) / lambda is -1, below -2 / e, where sigma is e; and 0, where it is 1.
    assert superloss[0].tolist() == pytest.approx([np.e, 1.0], rel=1e-3)
    ours = importances(traces, {"method": "discrimloss", "method_hyperparameters": {}}, tmp_path)
    assert ours is not None
    assert ours[0].tolist() == [1.0, 0.25]
    assert importances(traces, {"method": "plain", "method_hyperparameters": {}}, tmp_path) is None


@pytest.mark.parametrize(("fit", "verdict"), [(61.5, "**Holds:**"), (75.0, "**Does not hold:**")])
def test_the_claim_of_generalization(tmp_path: Path, fit: float, verdict: str) -> None:
    table, store = table_of(tmp_path, "generalization"), ResultsStore(tmp_path / "results")
    cell = cell_of(table, "discrimloss")
    store.write(cell, result(cell, 90.0, 90.5, train_accuracy_noisy=fit, noise_true=0.4))
    (told,) = generalization_claims(collect(table, store, is_small=False))
    assert told.startswith(f"{verdict} the fit stays within 2 points of the clean share. 40 %: ")
    assert f"{fit - 60:+.2f} points from the share of right ones" in told
    assert "0.50 points below its best epoch" in told
    if fit < 70:  # drawn once
        assert "tiny-40.png" in {path.name for path in render(table, store)}


@pytest.mark.parametrize(("ours", "verdict"), [(0.1, "**Holds:**"), (0.6, "**Does not hold:**")])
def test_the_claim_of_the_histograms(tmp_path: Path, ours: float, verdict: str) -> None:
    table, store = table_of(tmp_path, "histograms"), ResultsStore(tmp_path / "results")
    for row, shared in (("plain", 0.5), ("discrimloss", ours)):
        cell = cell_of(table, row)
        step = {"epoch": 1, "overlap": shared, "medians": {"clean": 0.0, "wrong": 1.0}}
        step["counts"] = {"clean": [1] * BINS, "wrong": [2] * BINS}
        store.write(cell, result(cell, 90.0) | {"samples": {"histograms": [step]}})
    told = list(histogram_claims(collect(table, store, is_small=False)))
    assert any(
        line == f"{verdict} DiscrimLoss divides clean from wrong samples better than Plain "
        f"({100 * ours:.1f} % overlap against 50.0 %)."
        for line in told
    )
    if ours < 0.5:  # drawn once
        assert "tiny-losses.png" in {path.name for path in render(table, store)}


def test_what_sinks_step_by_step_jumps_more_and_turns_back_less(tmp_path: Path) -> None:
    """The two measures may say the opposite, and both are told."""
    table, store = table_of(tmp_path, "fluctuation"), ResultsStore(tmp_path / "results")
    for row, wrong in (
        ("plain", [1.0, 0.0, 1.0, 1.0, 1.0]),
        ("discrimloss", [1, 0.7, 0.5, 0.3, 0]),
    ):
        clean = np.ones(len(wrong))
        importance = np.stack([clean, clean, np.array(wrong), np.array(wrong)], axis=1)
        samples = importance_fluctuation(importance, np.arange(1, 6), IS_WRONG)
        cell = cell_of(table, row)
        store.write(cell, result(cell, 90.0) | {"samples": samples})
    told = list(fluctuation_claims(collect(table, store, is_small=False)))
    assert told[3].startswith(
        "**Does not hold:** by the number of jumps, as the paper counts, wrong"
    )
    assert told[3].endswith("(4.00 against 2.00).")
    assert told[5].startswith("**Holds:** by jumps back, a measure of our own, wrong")
    assert told[5].endswith("(0.00 against 1.00).")


def test_the_claims_of_the_fluctuation(tmp_path: Path) -> None:
    table, store = table_of(tmp_path, "fluctuation"), ResultsStore(tmp_path / "results")
    generator = np.random.default_rng(0)
    for row, scale in (("plain", [0.01, 1.0]), ("discrimloss", [0.0, 0.0])):
        steps = generator.normal(size=(9, 40)) * np.repeat(scale, 20)
        samples = importance_fluctuation(steps, np.arange(1, 10), np.repeat([False, True], 20))
        cell = cell_of(table, row)
        store.write(cell, result(cell, 90.0) | {"samples": samples})
    told = list(fluctuation_claims(collect(table, store, is_small=False)))
    assert told[0].startswith("**Holds:** wrong samples jump more than clean ones. Plain: ")
    quiet = (
        "0.00 jumps of a wrong sample, 0.00 of them back; 0.00 of a clean one, 0.00 of them back"
    )
    assert told[1] == f"DiscrimLoss: {quiet}."
    end = "samples fluctuate less with DiscrimLoss than with Plain (0.00 against "
    by_jumps, by_turns = "by the number of jumps, as the paper counts,", "by jumps back, a measure"
    assert told[2].startswith(f"**Does not hold:** {by_jumps} clean {end}0.00)")
    assert told[3].startswith(f"**Holds:** {by_jumps} wrong {end}")
    assert told[4].startswith(f"**Does not hold:** {by_turns} of our own, clean {end}0.00)")
    assert told[5].startswith(f"**Holds:** {by_turns} of our own, wrong {end}")
    written = {path.name for path in render(table, store)}
    assert {"tiny-jumps.png", "tiny-traces.png"} <= written
