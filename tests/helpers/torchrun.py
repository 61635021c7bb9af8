"""Programs in several processes that know each other, as torchrun starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

GLOO = dist.is_available() and dist.is_gloo_available()
needs_gloo = pytest.mark.skipif(not GLOO, reason="this PyTorch cannot exchange between processes")


def run_in_processes(number: int, program: Path, *arguments: object) -> str:
    """Run a program in so many processes, wait, and give what they printed."""
    tests = str(Path(__file__).parent)
    path = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(number)]
    ended = subprocess.run(
        [sys.executable, *launcher, str(program), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    return ended.stdout
