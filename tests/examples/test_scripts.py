"""Each kind of training script among the examples runs, and finds what is wrong in its data."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from example_runs import EXAMPLES, run_example
from torchrun import run_python


def percent_found(printed: str) -> int:
    """Percent of wrong samples among the most suspicious."""
    (percent,) = re.findall(r"wrong \w+ among the \d+ most suspicious: (\d+)%", printed)
    return int(percent)


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
    assert percent_found(run_example(name, size)) >= at_least


def test_a_loop_of_transformers() -> None:
    pytest.importorskip("transformers")
    assert percent_found(run_example("text_without_trainer.py", "5")) >= 80


def test_amp_and_resume_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some machines claim more than they can do. It has to be set before PyTorch computes anything.
    if "ONEDNN_MAX_CPU_ISA" not in os.environ:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    program, file = EXAMPLES / "amp_and_resume.py", tmp_path / "checkpoint.pt"
    first, second = run_python(program, file, 2), run_python(program, file, 4)
    assert re.findall(r"^epoch (\d+):", first, re.M) == ["1", "2"]
    assert re.findall(r"^epoch (\d+):", second, re.M) == ["3", "4"]
    assert percent_found(second) >= 80
