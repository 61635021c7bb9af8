"""The example of robust losses runs, and the losses do what they are for."""

from __future__ import annotations

import re

from example_runs import run_example


def test_robust_losses() -> None:
    printed = run_example("robust_losses.py", "8")
    lines = printed.splitlines()
    accuracy = {
        name: float(value)
        for name, value in re.findall(r"^(\w+): test accuracy ([\d.]+)%", printed, re.M)
    }
    losses = ["GeneralizedCrossEntropy", "EarlyLearningRegularization", "SuperLoss"]
    assert list(accuracy) == ["CrossEntropy", *losses]
    assert len(lines) == 4
    assert min(accuracy.values()) > 80
    found = [float(value) for value in re.findall(r"([\d.]+)% of the wrong labels", printed)]
    assert len(found) == 3
    assert min(found) > 70  # chance is 40
