"""A cell of the audit benchmark: what one method finds in one row with one seed."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import discrimloss
from benchmarks.audit_design import Row
from benchmarks.audit_figures import Figures, judge
from benchmarks.audit_network import Training, train
from benchmarks.audit_rivals import Shared, methods_of, run_method
from benchmarks.audit_sets import Samples, load
from discrimloss.training.seeds import derived_generator

AQUA_TRAINING = Training(epochs=30, batch_size=32, dropout=0.2)
"""Epochs, batch size and dropout of AQuA's MLP."""
TEST_FRACTION = 0.2
NOTHING = "nothing"
"""Name of the method that flags no label in AQuA's protocol."""
PACKAGES = ("cleanlab", "scikit-learn", "torch", "numpy")


def cell_methods(row: Row) -> list[str]:
    """Return the methods that are run on a row, ours first."""
    return [*methods_of(row.data_set.kind), *([NOTHING] if row.part == "aqua" else [])]


def run_cells(
    row: Row, seed: int, methods: tuple[str, ...], data: Path, cifar: Path | None, cache: Path
) -> list[dict[str, Any]]:
    """Run the methods and return the lines to store.

    Args:
        row: the row of the design.
        seed: seed of everything that is drawn at random.
        methods: names from `cell_methods`.
        data: the directory of texts, tables, regression tables and images.
        cifar: the directory of CIFAR-10.
        cache: the directory in which encoder features are kept.
    """
    torch.set_num_threads(1)
    samples = load(row, seed, data, cifar, cache)
    if row.part == "aqua":
        found = aqua_figures(samples, seed, methods)
    else:
        shared = Shared(samples, seed)
        found = {name: method_figures(shared, name) for name in methods}
    about = {"samples": len(samples.target), "versions": versions()}
    if samples.kind != "regression":
        about["classes"] = len(np.unique(samples.target))
    return [
        {**row.as_dict(), "seed": seed, "method": name, **about, **rounded(figures)}
        for name, figures in found.items()
    ]


def method_figures(shared: Shared, name: str) -> Figures:
    """Return the metrics of a method, and its CPU seconds."""
    finding, seconds = run_method(methods_of(shared.samples.kind)[name], shared)
    return {**judge(finding, shared.samples.is_wrong), "seconds": seconds}


def rounded(figures: Figures) -> Figures:
    """Return the metrics, rounded to the digits that are worth storing."""
    return {
        key: None if value is None else round(float(value), 5) for key, value in figures.items()
    }


def versions() -> dict[str, str]:
    """Return the versions that a cell is made with."""
    return {
        "discrimloss": discrimloss.__version__,
        **{package: version(package) for package in PACKAGES},
        "python": platform.python_version(),
    }


# ----------------------------------------------------------------------------------------- AQuA


def aqua_figures(samples: Samples, seed: int, methods: tuple[str, ...]) -> dict[str, Figures]:
    """Drop the flagged samples, train again, and test on clean labels (Goswami et al., 2023).

    The result has two F1 scores, both weighted by class size: of the flags, and of the predictions
    for test samples, which no method saw.
    """
    from sklearn.metrics import f1_score

    order = torch.randperm(len(samples.target), generator=derived_generator(seed, "test")).numpy()
    number = round(TEST_FRACTION * len(order))
    test, trained = samples.select(order[:number]), samples.select(order[number:])
    shared = Shared(trained, seed, AQUA_TRAINING)
    found = {}
    for name in methods:
        if name == NOTHING:
            flagged = np.zeros(len(trained.target), dtype=np.bool_)
            figures: Figures = {"noise_true": float(trained.is_wrong.mean())}
        else:
            finding, seconds = run_method(methods_of(trained.kind)[name], shared)
            flagged = finding.flagged
            figures = {**judge(finding, trained.is_wrong), "seconds": seconds}
        predicted = retrained(trained, flagged, test, seed)
        figures["detection_f1"] = f1_score(trained.is_wrong, flagged, average="weighted")
        figures["downstream_f1"] = f1_score(test.clean_target, predicted, average="weighted")
        found[name] = figures
    return found


def retrained(
    samples: Samples, flagged: npt.NDArray[np.bool_], test: Samples, seed: int
) -> npt.NDArray[np.int64]:
    """Return predicted classes of the test samples, from a network trained without flagged ones."""
    kept = samples.select(np.flatnonzero(~flagged if not flagged.all() else flagged))
    network = train(kept.features, kept.target, samples.num_classes, seed, AQUA_TRAINING)
    predicted: npt.NDArray[np.int64] = network.predict(test.features).argmax(1)
    return predicted
