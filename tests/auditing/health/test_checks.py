"""Each check of the health of the data, on points and texts whose problems are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from discrimloss.auditing.health import neighbours as search
from discrimloss.auditing.health.broken import (
    broken_features,
    broken_pictures,
    broken_rows,
    broken_texts,
)
from discrimloss.auditing.health.duplicates import (
    exact_duplicates,
    near_duplicates,
    rows_confirm,
    texts_confirm,
)
from discrimloss.auditing.health.features import MOST_COMPONENTS, comparable_points
from discrimloss.auditing.health.neighbours import find_neighbours
from discrimloss.auditing.health.order import find_row_order
from discrimloss.auditing.health.outliers import find_outliers, strange_texts


def points(samples: int = 300, width: int = 8) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(samples, width)).astype(np.float32)


# Neighbours.


def naive_neighbours(values: np.ndarray, number: int) -> np.ndarray:
    distances = np.linalg.norm(values[:, None] - values[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    return np.sort(distances, axis=1)[:, :number]


def test_neighbours_are_the_nearest_others() -> None:
    values = points(60)
    values[7] = values[3]  # a copy: neither is its own neighbour
    found = find_neighbours(values, 5)
    np.testing.assert_allclose(found.distance, naive_neighbours(values, 5), atol=1e-2)
    assert not (found.index == np.arange(60)[:, None]).any()
    assert found.index[7, 0] == 3
    assert found.index[3, 0] == 7


def test_a_sample_alone_has_no_neighbours() -> None:
    assert find_neighbours(points(1)).number == 0
    assert find_neighbours(points(4)).number == 3


def test_many_samples_are_searched_by_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    values = points(2000)
    exact = find_neighbours(values, 5)
    monkeypatch.setattr(search, "MOST_EXACT", 100)
    found = find_neighbours(values, 5)
    same = [len(set(a) & set(b)) for a, b in zip(exact.index, found.index, strict=True)]
    assert np.mean(same) > 4.0
    assert not (found.index == np.arange(2000)[:, None]).any()
    assert found.notes == ()


def test_without_faiss_many_samples_are_searched_among_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "MOST_EXACT", 100)
    monkeypatch.setattr(search.importlib.util, "find_spec", lambda name: None)
    found = find_neighbours(points(300), 5)
    assert len(np.unique(found.index)) <= 100
    assert "discrimloss[neighbours]" in found.notes[0]


def test_points_of_every_kind_of_input() -> None:
    from scipy import sparse

    assert comparable_points(points(50, 8)).values.shape == (50, 8)
    wide = comparable_points(points(200, 400))
    assert wide.values.shape == (200, MOST_COMPONENTS)
    assert wide.unexplained is not None
    pictures = np.zeros((5, 3, 33, 40), np.uint8)
    assert comparable_points(pictures).values.shape[0] == 5
    rows = comparable_points(sparse.random(40, 90, 0.2, format="csr", random_state=0), True)
    np.testing.assert_allclose(np.linalg.norm(rows.values, axis=1), 1.0, rtol=1e-5)


# Duplicates.


def test_exact_duplicates_in_the_order_of_their_first_samples() -> None:
    found = exact_duplicates(np.array([5, 3, 9, 3, 5, 5, 1]))
    assert found.group.tolist() == [0, 1, -1, 1, 0, 0, -1]
    assert found.samples.tolist() == [0, 4, 5, 1, 3]
    differs = found.only(np.array(["a", "b", "c", "b", "a", "x", "y"], dtype=object))
    assert differs.samples.tolist() == [0, 4, 5]
    nothing = np.array(["a", "b", "c", None, "a", None, "y"], dtype=object)
    assert found.only(nothing).number == 0


def test_near_duplicates_are_close_and_not_exact() -> None:
    values = points()
    values[10] = values[20] + 0.001
    values[30] = values[40]
    exact = exact_duplicates(np.array([*range(30), 40, *range(31, 300)]))
    near = near_duplicates(find_neighbours(values), exact)
    assert near.samples.tolist() == [10, 20]
    assert exact.samples.tolist() == [30, 40]


def test_a_near_duplicate_of_a_copied_sample_joins_all_of_them() -> None:
    values = points()
    values[1] = values[0]
    values[2] = values[0] + 0.001
    exact = exact_duplicates(np.array([0, 0, *range(2, 300)]))
    assert near_duplicates(find_neighbours(values), exact).samples.tolist() == [0, 1, 2]


def test_texts_and_rows_are_looked_at_once_more() -> None:
    confirm = texts_confirm(
        [
            "The parcel arrived two days late and the box was open",
            "the parcel arrived two days late, and the box was open!",
            "The parcel arrived early and nothing was broken at all",
        ]
    )
    assert confirm(0, 1)
    assert not confirm(0, 2)
    rows = rows_confirm(np.array([[0.0, 1.0], [0.02, 1.0], [0.0, 0.0]]))
    assert rows(0, 1)
    assert not rows(0, 2)


def test_equal_samples_have_no_near_duplicates() -> None:
    values = np.zeros((20, 3), np.float32)
    exact = exact_duplicates(np.zeros(20))
    assert near_duplicates(find_neighbours(values), exact).number == 0


@pytest.mark.parametrize("width", [1, 2, 3, 6])
def test_samples_that_are_close_by_chance_are_no_near_duplicates(width: int) -> None:
    values = np.random.default_rng(0).normal(size=(2000, width)).astype(np.float32)
    exact = exact_duplicates(np.arange(2000))
    neighbours = find_neighbours(values)
    for confirm in (None, rows_confirm(values)):
        assert len(near_duplicates(neighbours, exact, confirm).samples) <= 16
    if width == 1:  # a copy that is rounded is no closer than others
        return
    copied = values.copy()
    copied[:100] = values[100:200] * 1.00001
    found = near_duplicates(find_neighbours(copied), exact, rows_confirm(copied)).samples
    assert len(set(found.tolist()) & set(range(100))) >= 90


# Outliers, broken samples, order.


def test_outliers_are_far_from_all_others() -> None:
    values = points()
    values[5] += 40.0
    found = find_outliers(find_neighbours(values))
    assert list(found) == [5]
    assert "times as far" in found[5]
    assert find_outliers(find_neighbours(points())) == {}
    assert find_outliers(find_neighbours(points(20))) == {}
    assert find_outliers(find_neighbours(np.zeros((100, 3), np.float32))) == {}


def test_a_pattern_that_components_do_not_explain() -> None:
    unexplained = np.random.default_rng(0).uniform(1.0, 1.2, 300).astype(np.float32)
    unexplained[7] = 9.0
    assert list(find_outliers(find_neighbours(points()), unexplained)) == [7]


def test_texts_in_another_language() -> None:
    usual = ["the boat sails over the sea with the wind"] * 30
    strange = "der Hund schläft unter einem alten Baum"
    assert list(strange_texts([*usual, strange])) == [30]
    assert strange_texts([f"w{n}a w{n}b w{n}c w{n}d" for n in range(50)]) == {}


def test_broken_texts() -> None:
    texts = ["fine", "...", "NaN", "cafÃ© au lait", "❤❤", ":-)", "123", "[deleted]"]
    found = broken_texts(texts)
    assert sorted(found) == [1, 2, 3, 7]
    assert found[3] == "characters that were decoded wrongly"


def test_broken_rows_lack_more_than_others() -> None:
    frame = pd.DataFrame({name: [1.0, 2.0, None, None] for name in "abcd"})
    frame.loc[3, "a"] = 1.0
    frame = pd.concat([frame, pd.DataFrame(np.ones((5, 4)), columns=list("abcd"))])
    found = broken_rows(frame.reset_index(drop=True))
    assert found == {2: "all values are missing", 3: "3 of 4 values are missing"}


def test_broken_pictures_and_features() -> None:
    pictures = np.random.default_rng(0).integers(0, 255, (4, 3, 8, 8), dtype=np.uint8)
    pictures[2] = np.array([200, 10, 30], np.uint8)[:, None, None]
    assert list(broken_pictures(pictures)) == [2]
    features = points(5)
    features[1] = 0.0
    assert list(broken_features(features)) == [1]


def test_an_order_of_the_rows() -> None:
    values = points(400, 4)
    assert find_row_order(find_neighbours(values)) is None
    values[:200] += 6.0  # sorted by class
    found = find_row_order(find_neighbours(values))
    assert found is not None
    assert found.close_neighbours > found.by_chance + 0.1
    assert find_row_order(find_neighbours(values[:50])) is None
