"""Out-of-fold predictions find wrong regression targets, or a note says that they cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.datasets import load_diabetes
from sklearn.metrics import average_precision_score

from discrimloss.auditing.audit import audit
from discrimloss.auditing.out_of_fold.gaussian_process import GaussianProcess, _covariance
from discrimloss.auditing.out_of_fold.regression import (
    OutOfFoldRegression,
    out_of_fold_regression,
)

Array = npt.NDArray[np.float64]
SAMPLES = 300


def made(skewed: bool = False, seed: int = 0) -> tuple[Array, Array]:
    """Features, and targets that they predict with errors which grow with the third feature."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(SAMPLES, 5))
    error = 0.2 * np.exp(0.5 * features[:, 2]) * rng.normal(size=SAMPLES)
    target = 2.0 * features[:, 0] + np.sin(2.0 * features[:, 1]) + error
    return features, np.exp(target) if skewed else target


def exchanged(target: Array, seed: int = 1) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Targets of which a tenth are those of other samples, and which those are."""
    rng = np.random.default_rng(seed)
    given = target.copy()
    rows = rng.permutation(len(target))[: len(target) // 10]
    given[rows] = target[rng.permutation(len(target))[: len(rows)]]
    return given, given != target


@pytest.mark.parametrize("skewed", [False, True])
def test_exchanged_targets_are_found(skewed: bool) -> None:
    features, target = made(skewed)
    given, is_wrong = exchanged(target)
    found = out_of_fold_regression(features, given)
    assert found.can_judge
    assert average_precision_score(is_wrong, found.score) > 0.8
    called = found.score > 0.0
    assert is_wrong[called].mean() > 0.8
    assert called[is_wrong].mean() > 0.5
    assert found.noise_interval is not None
    low, high = found.noise_interval
    assert low <= is_wrong.mean() <= high
    assert "ranks of the targets" in found.models or not skewed
    # Predictions are in the unit of the targets, and better than the wrong ones.
    off = np.abs(np.log(found.prediction / target) if skewed else found.prediction - target)
    assert np.median(off[is_wrong]) < 0.5


@pytest.fixture(scope="module")
def of_clean_targets() -> OutOfFoldRegression:
    return out_of_fold_regression(*made())


def test_clean_targets_are_left_alone(of_clean_targets: OutOfFoldRegression) -> None:
    found = of_clean_targets
    assert (found.score > 0.0).mean() <= 0.01
    assert found.noise_interval is not None
    assert found.noise_interval[0] < 0.01


def test_the_size_of_errors_is_predicted(of_clean_targets: OutOfFoldRegression) -> None:
    features, _ = made()
    scale = np.log(of_clean_targets.error_scale)
    assert np.corrcoef(scale, features[:, 2])[0, 1] > 0.3


def test_targets_that_the_inputs_do_not_predict_are_not_judged() -> None:
    rng = np.random.default_rng(0)
    found = out_of_fold_regression(rng.normal(size=(SAMPLES, 4)), rng.normal(size=SAMPLES))
    assert not found.can_judge
    assert (found.score < 0.0).all()


def test_leave_one_out_is_what_training_without_the_sample_predicts() -> None:
    features, target = made()
    features, target = features[:40], target[:40]
    process = GaussianProcess(features, seed=0)
    weight = np.linspace(0.1, 1.0, 40)
    predicted = process.leave_one_out(target, weight)
    parameters = process._parameters
    assert parameters is not None
    covariance = _covariance(torch.tensor(features), torch.tensor(weight), parameters).numpy()
    for left_out in (0, 7, 39):
        others = np.arange(40) != left_out
        solved = np.linalg.solve(covariance[np.ix_(others, others)], target[others])
        expected = covariance[left_out, others] @ solved
        assert predicted[left_out] == pytest.approx(expected, abs=1e-8)


def frame_of(features: Array, target: Array):  # type: ignore[no-untyped-def]
    import pandas as pd

    frame = pd.DataFrame(features, columns=[f"x{number}" for number in range(features.shape[1])])
    return frame.assign(target=target)


def test_an_audit_uses_them(tmp_path: Path) -> None:
    features, target = made()
    given, is_wrong = exchanged(target)
    path = tmp_path / "table.csv"
    frame_of(features, given).to_csv(path, index=False)
    result = audit(path, label="target", out=tmp_path / "audit", progress=False)
    assert average_precision_score(is_wrong, result.verdicts.score) > 0.8
    assert any("predicted out of fold by" in note for note in result.notes)
    assert result.noise_rate == pytest.approx(is_wrong.mean(), abs=0.04)
    assert not (tmp_path / "audit" / "runs").exists()
    for name in ("report.html", "verdicts.csv", "cleaned.csv", "summary.json"):
        assert (tmp_path / "audit" / name).is_file()
    incorrect = result.verdicts.verdict == "incorrect"
    assert result.verdicts.given_label is not None
    assert result.verdicts.suggested_label is not None
    assert (result.verdicts.given_label != result.verdicts.suggested_label)[incorrect].all()


def test_whole_numbers_get_whole_suggestions() -> None:
    features, target = made()
    whole = np.round(20.0 * target)
    result = audit((features, whole), regression=True, progress=False)
    suggested = result.verdicts.suggested_label
    assert suggested is not None
    assert (suggested == np.round(suggested)).all()


def test_diabetes_targets_cannot_be_judged() -> None:
    features, target = load_diabetes(return_X_y=True)
    given, _ = exchanged(target)
    result = audit((features, given), regression=True, progress=False)
    assert result.noise_rate is None
    assert any("do not predict the target well enough" in note for note in result.notes)
    assert result.verdicts.counts["incorrect"] == 0


def test_eight_targets_are_too_few() -> None:
    features, target = made()
    result = audit((features[:8], target[:8]), regression=True, progress=False)
    assert result.noise_rate is None
    assert "8 targets are too few for an audit: 30 are needed." in result.notes
    assert result.verdicts.counts["incorrect"] == 0
