"""Real data with known noise: scikit-learn's digits, with the default settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from audit_runs import audited, frame_of
from judged_labels import calibration_error, f1_score
from sklearn.datasets import load_digits

from discrimloss.data.noise import symmetric

pytestmark = pytest.mark.usefixtures("quick_verdicts")


def test_clean_features_stay_quiet(tmp_path: Path) -> None:
    digits = load_digits()
    np.savez(tmp_path / "digits.npz", x=digits.data.astype(np.float32), y=digits.target)
    audit = audited(tmp_path / "digits.npz", tmp_path / "out", epochs=None)
    summary = audit.summary()
    assert summary["kind"] == "features"
    assert summary["verdicts"]["incorrect"] <= 0.02 * summary["samples"]
    assert summary["noise_estimated"] < 0.03


@pytest.mark.slow
def test_clean_images_stay_quiet(tmp_path: Path) -> None:
    digits = load_digits()
    pixels = (digits.images * 15.9375).astype(np.uint8)
    np.savez(tmp_path / "digits.npz", x=pixels, y=digits.target)
    summary = audited(tmp_path / "digits.npz", tmp_path / "out", epochs=None).summary()
    assert summary["kind"] == "images"
    assert summary["verdicts"]["incorrect"] <= 0.02 * summary["samples"]
    assert summary["noise_estimated"] < 0.03


@pytest.mark.parametrize("rate", [0.2, pytest.param(0.4, marks=pytest.mark.slow)])
def test_noise_is_estimated_and_found(rate: float, tmp_path: Path) -> None:
    digits = load_digits()
    true = torch.from_numpy(digits.target)
    noisy = symmetric(true, rate, torch.Generator().manual_seed(1), 10)
    np.savez(tmp_path / "a.npz", x=digits.data.astype(np.float32), y=noisy.target.numpy())
    audit = audited(tmp_path / "a.npz", tmp_path / "out", epochs=None)
    frame = frame_of(audit).sort_values("index")
    actual = float(noisy.is_wrong.double().mean())
    assert audit.summary()["noise_estimated"] == pytest.approx(actual, abs=0.03)
    called = torch.from_numpy((frame["verdict"] == "incorrect").to_numpy())
    assert f1_score(called, noisy.is_wrong) > 0.93
    probability = torch.from_numpy(frame["p_incorrect"].to_numpy())
    assert calibration_error(probability, noisy.is_wrong) < 0.05
