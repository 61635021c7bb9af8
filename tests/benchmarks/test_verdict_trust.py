"""The benchmark of the trust in verdicts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.robustness_sets import Samples
from benchmarks.verdict_trust import (
    Case,
    calibration_error,
    design,
    given_labels,
    outcome,
    render,
    train,
)


def test_a_run_from_training_to_the_page() -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, 3, (300,), generator=generator)
    inputs = torch.randn(300, 4, generator=generator)
    inputs[torch.arange(300), target] += 5.0
    samples = Samples(inputs, target, target, 3)
    lines = []
    for form in ("losses", "target", "predictions"):
        case = Case("digits", form, "injected", "adam", 3, "cosine", 1)
        given, is_wrong = given_labels(case, samples)
        assert int(is_wrong.sum()) == 60
        found = outcome(train(case, inputs, given, 3).verdicts(), given, is_wrong)
        assert found["wrong"] == pytest.approx(0.2)
        lines.append({"case": vars(case), **found})
    page = render(lines)
    assert "| predictions | digits | 0 of 0 | 0 |" in page


def test_the_design_has_no_run_twice() -> None:
    assert len(set(design())) == len(design())


def test_the_calibration_error_is_the_distance_from_frequencies() -> None:
    is_wrong = np.array([True, False, False, False])
    assert calibration_error(np.full(4, 0.25), is_wrong) == pytest.approx(0.0)
    assert calibration_error(np.full(4, 0.95), is_wrong) == pytest.approx(0.7)
