"""Programs in several processes that know each other, with torchrun or as it starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

GLOO = dist.is_available() and dist.is_gloo_available()
needs_gloo = pytest.mark.skipif(not GLOO, reason="this PyTorch cannot exchange between processes")


FORK = hasattr(os, "fork")


def run_with_torchrun(number: int, program: Path, *arguments: object) -> str:
    """Run a program in so many processes, wait, and give what they printed."""
    return run_python(
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        number,
        program,
        *arguments,
    )


def run_in_processes(number: int, program: Path, *arguments: object) -> str:
    """The same for a program of the tests, which is imported only once where that is possible."""
    if not FORK:
        return run_with_torchrun(number, program, *arguments)
    return run_python(Path(__file__).with_name("forked_processes.py"), number, program, *arguments)


def run_python(*command: object) -> str:
    """What Python prints with these arguments; fails if it does."""
    tests = str(Path(__file__).parent)
    path = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
    ended = subprocess.run(
        [sys.executable, *map(str, command)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    return ended.stdout
