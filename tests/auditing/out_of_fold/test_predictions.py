from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from discrimloss.auditing.out_of_fold import predictions
from discrimloss.auditing.out_of_fold.candidates import Candidate, table_candidates
from discrimloss.auditing.out_of_fold.folds import stratified_folds
from discrimloss.auditing.out_of_fold.predictions import PRIOR_WEIGHT, blend, out_of_fold


class Memory:
    """Knows the labels of its training samples, and says so."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def fit(self, inputs: Any, target: Any, sample_weight: Any = None) -> Memory:
        self.classes_ = np.unique(target)
        self.learned = dict(zip(inputs[:, 0].tolist(), target.tolist(), strict=True))
        self.seen.append((sorted(self.learned), sample_weight))
        return self

    def predict_proba(self, inputs: Any) -> Any:
        known = np.array([[value in self.learned for value in inputs[:, 0].tolist()]]).T
        return np.where(known, 1.0, 1.0 / len(self.classes_)) * np.ones(len(self.classes_))


def test_no_sample_is_predicted_by_a_model_that_saw_it() -> None:
    seen: list[Any] = []
    target = np.arange(40) % 2
    folds = stratified_folds(target, 0)
    candidate = Candidate("memory", np.arange(40.0)[:, None], lambda: Memory(seen))
    weights = np.linspace(0.1, 1.0, 40)
    [found] = out_of_fold([candidate], target, folds, 2, weights)
    torch.testing.assert_close(found.exp(), torch.full((40, 2), 0.5))
    assert len(seen) == folds.max() + 1
    for rows, given in seen:
        np.testing.assert_array_equal(given, weights[np.array(rows, dtype=int)])


def test_a_class_that_is_missing_in_training_is_not_ruled_out() -> None:
    target = np.repeat([0, 1, 2], [50, 49, 1])
    candidate = Candidate("memory", np.arange(100.0)[:, None], lambda: Memory([]))
    [found] = out_of_fold([candidate], target, stratified_folds(target, 0), 3)
    assert found.isfinite().all()
    assert float(found[99, 2].exp()) == pytest.approx(PRIOR_WEIGHT / 100)


def test_many_samples_are_fitted_in_part_with_all_of_a_small_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(predictions, "MOST_FITTED", 100)
    seen: list[Any] = []
    target = np.repeat([0, 1], [970, 30])
    folds = stratified_folds(target, 0)
    candidate = Candidate("memory", np.arange(1000.0)[:, None], lambda: Memory(seen))
    out_of_fold([candidate], target, folds, 2)
    for rows, _ in seen:
        assert 100 <= len(rows) <= 200
        assert sum(row >= 970 for row in rows) == 24


def test_the_blend_follows_the_model_that_knows_the_labels() -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, 3, (400,), generator=generator)
    knows = torch.full((400, 3), 0.1)
    knows[torch.arange(400), target] = 0.8
    guess = torch.rand(400, 3, generator=generator).log_softmax(1)
    blended, weights = blend([guess, knows.log()], target)
    assert weights[1] > 20 * weights[0]
    torch.testing.assert_close(blended.exp().sum(1), torch.ones(400))
    assert (blended.argmax(1) == target).all()


def test_tables_with_many_classes_are_not_boosted() -> None:
    values = np.zeros((10, 3), np.float32)
    few, many = (
        {candidate.name for candidate in table_candidates(values, values, classes)}
        for classes in (5, 200)
    )
    assert few - many == {"gradient boosting"}
