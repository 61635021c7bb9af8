"""Each kind of training script among the examples runs, and finds what is wrong in its data."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from example_runs import EXAMPLES

import discrimloss


def found_by(name: str, *arguments: str) -> tuple[int, str]:
    """Run an example: percent of wrong samples among the most suspicious, and all it printed."""
    source = str(Path(discrimloss.__file__).parents[1])
    ended = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:discrimloss", str(EXAMPLES / name), *arguments],
        env={
            "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",  # some machines claim more than they can do
            **os.environ,
            "PYTHONPATH": source,
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    (percent,) = re.findall(r"wrong \w+ among the \d+ most suspicious: (\d+)%", ended.stdout)
    return int(percent), ended.stdout


@pytest.mark.parametrize(
    ("name", "size", "at_least"),
    [
        ("mixup.py", "8", 80),
        ("language_model.py", "300", 80),
        ("segmentation.py", "5", 80),
        ("recommender.py", "12", 60),
        ("graph.py", "30", 80),
        ("tabular_regression.py", "15", 50),
    ],
)
def test_it_finds_what_is_wrong(name: str, size: str, at_least: int) -> None:
    assert found_by(name, size)[0] >= at_least


def test_a_loop_of_transformers() -> None:
    pytest.importorskip("transformers")
    assert found_by("text_without_trainer.py", "5")[0] >= 80


def test_amp_and_resume_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = str(tmp_path / "checkpoint.pt")
    _, first = found_by("amp_and_resume.py", file, "2")
    percent, second = found_by("amp_and_resume.py", file, "4")
    assert re.findall(r"^epoch (\d+):", first, re.M) == ["1", "2"]
    assert re.findall(r"^epoch (\d+):", second, re.M) == ["3", "4"]
    assert percent >= 80
