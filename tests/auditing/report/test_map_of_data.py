"""The map: similar samples lie close to each other, and there are not too many of them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from discrimloss.auditing.report import map_of_data
from discrimloss.auditing.report.map_of_data import chosen_rows, make_map
from discrimloss.auditing.report.projection import plane
from discrimloss.auditing.sources.base import SourceOptions
from discrimloss.auditing.sources.open_source import open_data


def blobs(number: int, classes: int, noise: int = 20, seed: int = 0) -> tuple[Any, Any]:
    """Clusters, in few of many directions; the others have a larger spread."""
    generator = np.random.default_rng(seed)
    target = generator.integers(0, classes, number)
    centres = generator.normal(0.0, 4.0, (classes, 4))
    inside = centres[target] + generator.normal(size=(number, 4))
    return np.hstack([inside, generator.normal(0.0, 6.0, (number, noise))]), target


def nearest_class(placed: Any, target: Any) -> float:
    """How often the nearest other sample has the same class."""
    distance = ((placed[:, None] - placed[None]) ** 2).sum(2)
    np.fill_diagonal(distance, np.inf)
    return float((target[distance.argmin(1)] == target).mean())


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_classes_lie_apart_even_if_other_directions_spread_more(classes: int) -> None:
    features, target = blobs(300, classes)
    placed = plane(features, target, False)
    assert placed.shape == (300, 2)
    assert np.allclose(placed.std(0), 1.0)
    assert nearest_class(placed, target) > 0.75
    sparse = pytest.importorskip("scipy.sparse")
    same = plane(sparse.csr_matrix(features), target, False)
    assert nearest_class(same, target) > 0.75


def test_high_targets_lie_opposite_to_low_ones() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 10))
    target = 3.0 * features[:, 2] + generator.normal(size=200)
    placed = plane(features, target, True)
    assert abs(np.corrcoef(placed[:, 0], target)[0, 1]) > 0.9


@pytest.mark.parametrize("features", [np.ones((5, 1)), np.zeros((3, 4)), np.eye(2)])
def test_degenerate_features_have_a_place(features: Any) -> None:
    for target in (np.zeros(len(features), int), np.arange(len(features))):
        for is_regression in (False, True):
            placed = plane(features, target, is_regression)
            assert placed.shape == (len(features), 2)
            assert np.isfinite(placed).all()


def samples_of(target: Any) -> pd.DataFrame:
    number = len(target)
    return pd.DataFrame(
        {
            "id": [str(row) for row in range(number)],
            "given": [f"class {place}" for place in target],
            "suggested": None,
            "verdict": ["incorrect" if row % 10 == 0 else "easy" for row in range(number)],
            "p_incorrect": 0.5,
            "average_loss": 1.0,
        }
    )


def test_a_map_has_bounded_columns_of_equal_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_of_data, "MOST_POINTS", 60)
    features, target = blobs(200, 15)
    source = open_data((features, target), SourceOptions())
    found = make_map(samples_of(target), source)
    assert found is not None
    assert (found.points, found.samples) == (60, 200)
    columns = found.columns
    for name in ("index", "x", "y", "id", "given", "suggested", "verdict", "p", "text"):
        assert len(columns[name]) == 60
    assert all(0 <= place <= 1000 for place in columns["x"] + columns["y"])
    assert len(columns["classes"]) == len({colour for _, colour in columns["classes"]}) == 12
    assert columns["verdict"].count("incorrect") >= 15


def test_few_samples_have_no_map_and_all_are_taken_if_they_fit() -> None:
    features, target = blobs(9, 2)
    source = open_data((features, target), SourceOptions())
    assert make_map(samples_of(target), source) is None
    assert chosen_rows(samples_of(np.arange(30)), 30).tolist() == list(range(30))
