"""Runs a program under examples/ as a user would, and reads the report that all of them print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import discrimloss

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Report:
    """What an example found on digits with 40 % wrong labels."""

    plain_accuracy: float
    accuracy: float
    noise_rate: float
    worst_labels: list[tuple[str, str, str]]
    """Given, suggested and true label of each."""
    processes: int


def run_example(name: str, *arguments: str) -> Report:
    """Run an example as ``python examples/NAME``."""
    source = Path(discrimloss.__file__).parents[1]
    path = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return read_report(ended.stdout)


def read_report(printed: str) -> Report:
    """Fails where anything is missing, or printed twice (by two processes)."""
    ((plain, ours),) = re.findall(r"cross-entropy ([\d.]+)%, with DiscrimLoss ([\d.]+)%", printed)
    (noise_rate,) = re.findall(r"estimated noise rate ([\d.]+)%", printed)
    worst = re.findall(r"given (\d), suggested (\d), truly (\d), p_incorrect", printed)
    processes = re.findall(r"trained by (\d+) process", printed) or ["1"]
    return Report(float(plain), float(ours), float(noise_rate), worst, *map(int, processes))


def assert_found_the_noise(report: Report) -> None:
    """What ten epochs are enough for."""
    assert report.plain_accuracy > 85
    assert report.accuracy > 88
    assert 35 < report.noise_rate < 45
    assert len(report.worst_labels) == 5
    assert all(given != true for given, _, true in report.worst_labels)
