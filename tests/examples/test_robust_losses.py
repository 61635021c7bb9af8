"""The example of robust losses runs, and the losses do what they are for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from example_runs import EXAMPLES

import discrimloss


def test_robust_losses() -> None:
    source = str(Path(discrimloss.__file__).parents[1])
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / "robust_losses.py"), "8"],
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    lines = ended.stdout.splitlines()
    accuracy = {
        name: float(value)
        for name, value in re.findall(r"^(\w+): test accuracy ([\d.]+)%", ended.stdout, re.M)
    }
    losses = ["GeneralizedCrossEntropy", "EarlyLearningRegularization", "SuperLoss"]
    assert list(accuracy) == ["CrossEntropy", *losses]
    assert len(lines) == 4
    assert min(accuracy.values()) > 80
    found = [float(value) for value in re.findall(r"([\d.]+)% of the wrong labels", ended.stdout)]
    assert len(found) == 3
    assert min(found) > 70  # chance is 40
