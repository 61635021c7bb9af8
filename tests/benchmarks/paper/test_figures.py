"""Figures about samples: the few numbers that are kept, and the tables of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paper_tables import TINY, cell_of, result, tiny_table

from benchmarks.paper.grids import grids
from benchmarks.paper.pages import render
from benchmarks.paper.results import collect
from benchmarks.paper.sample_figures import (
    BINS,
    importance_fluctuation,
    importances,
    loss_histograms,
)
from benchmarks.paper.store import ResultsStore
from benchmarks.paper.table_file import PaperTable
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


def grid_lines(table: PaperTable, store: ResultsStore) -> list[str]:
    return list(grids(collect(table, store, is_small=False)))


def test_generalization_is_drawn(tmp_path: Path) -> None:
    table, store = table_of(tmp_path, "generalization"), ResultsStore(tmp_path / "results")
    cell = cell_of(table, "discrimloss")
    store.write(cell, result(cell, 90.0, 90.5, train_accuracy_noisy=61.5, noise_true=0.4))
    assert "tiny-40.png" in {path.name for path in render(table, store)}


def test_histograms_have_a_table_of_medians_and_overlap(tmp_path: Path) -> None:
    table, store = table_of(tmp_path, "histograms"), ResultsStore(tmp_path / "results")
    for row, overlap in (("plain", 0.5), ("discrimloss", 0.1)):
        cell = cell_of(table, row)
        step = {"epoch": 7, "overlap": overlap, "medians": {"clean": 0.0, "wrong": 1.0}}
        step["counts"] = {"clean": [1] * BINS, "wrong": [2] * BINS}
        store.write(cell, result(cell, 90.0) | {"samples": {"histograms": [step]}})
    assert grid_lines(table, store)[-3:] == [
        "| Plain | 0.000 / 1.000 (7) | 50.00 | 1 |",
        "| DiscrimLoss | 0.000 / 1.000 (7) | 10.00 | 1 |",
        "",
    ]
    assert "tiny-losses.png" in {path.name for path in render(table, store)}


def test_fluctuation_has_a_table_of_jumps_and_jumps_back(tmp_path: Path) -> None:
    """An importance that sinks step by step jumps more often, and never back."""
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
    assert grid_lines(table, store)[-3:] == [
        "| Plain | 0.00 | 2.00 | 0.00 | 1.00 | 1 |",
        "| DiscrimLoss | 0.00 | 4.00 | 0.00 | 0.00 | 1 |",
        "",
    ]
    assert {"tiny-jumps.png", "tiny-traces.png"} <= {path.name for path in render(table, store)}
