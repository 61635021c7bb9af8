from __future__ import annotations

import numpy as np
import pytest

from discrimloss.auditing.out_of_fold.folds import FOLDS, FOLDS_OF_FEW, stratified_folds


@pytest.mark.parametrize(("samples", "number"), [(600, FOLDS), (100, FOLDS_OF_FEW), (4, 4)])
def test_few_samples_get_more_folds(samples: int, number: int) -> None:
    folds = stratified_folds(np.arange(samples) % 3, seed=0)
    assert len(np.unique(folds)) == number


def test_every_class_is_in_the_training_data_of_every_fold() -> None:
    target = np.repeat([0, 1, 2, 3], [500, 80, 7, 2])
    folds = stratified_folds(target, seed=3)
    for fold in np.unique(folds):
        assert set(target[folds != fold]) == {0, 1, 2, 3}
        assert (target[folds == fold] == 0).sum() == 100
    assert np.bincount(folds).max() - np.bincount(folds).min() <= 1


def test_the_seed_decides_who_is_together() -> None:
    target = np.zeros(200, dtype=np.int64)
    first, again, other = (stratified_folds(target, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
