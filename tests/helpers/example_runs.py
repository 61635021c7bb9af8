"""Runs a program under examples/ and reads the report that most of them print.

In this process, as its `__main__`: to import torch in a process of its own takes seconds.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

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


def run_example(name: str, *arguments: str) -> str:
    """What ``python examples/NAME`` prints."""
    program, printed = EXAMPLES / name, io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", [str(program), *arguments])
        patch.setattr(sys, "path", [str(program.parent), *sys.path])
        runpy.run_path(str(program), run_name="__main__")
    return printed.getvalue()


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
