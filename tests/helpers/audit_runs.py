"""Small sources of features, and audits of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from discrimloss import AuditResult, audit
from discrimloss.auditing.directory import AuditDirectory

SAMPLES, CLASSES, WRONG = 300, 3, 30


def write_blobs(path: Path, samples: int = SAMPLES, **more: Any) -> Path:
    """Three clouds of points; the labels of the first `WRONG` samples are the next class."""
    rng = np.random.default_rng(0)
    true = np.arange(samples) % CLASSES
    points = 4.0 * np.array([[0, 0], [1, 0], [0, 1]])[true] + rng.normal(0, 0.6, (samples, 2))
    label = (true + (np.arange(samples) < WRONG)) % CLASSES
    names = np.array(["ant", "bee", "cow"])
    np.savez(path, **{"x": points.astype(np.float32), "y": names[label], **more})
    return path


def write_numbers(path: Path, samples: int = SAMPLES) -> Path:
    """Years of birth that follow from two features; those of the first `WRONG` are shuffled."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(samples, 2)).astype(np.float32)
    years = 1960.0 + 15.0 * points[:, 0] + 5.0 * points[:, 1] + rng.normal(0, 1, samples)
    years[:WRONG] = rng.permutation(years)[:WRONG]
    np.savez(path, x=points, y=years)
    return path


def run_audit(
    source: Path, out: Path | None, epochs: int | None = 8, observe: Any = None, **changes: Any
) -> AuditResult:
    """An audit of a few epochs."""
    return audit(source, out=out, epochs=epochs, progress=observe or False, **changes)


def audited(source: Path, out: Path, **changes: Any) -> AuditDirectory:
    """The directory of an audit that ended."""
    run_audit(source, out, **changes)
    return AuditDirectory(out)


def frame_of(audit: AuditDirectory) -> pd.DataFrame:
    """The verdicts of an audit, worst first, with the position of each sample as ``index``."""
    frame = AuditResult.load(audit.path).to_pandas()
    return frame.rename_axis("index").reset_index()


class PressesCtrlC:
    """Watches a run, and asks it to stop at a step."""

    def __init__(self, epoch: int, step: int, run: int = 1) -> None:
        self.place, self.run = (epoch, step), run
        self.is_its_run = False

    def __call__(self, number: int, epochs: int) -> PressesCtrlC:
        self.is_its_run = number == self.run
        return self

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        if self.is_its_run and (epoch, step) == self.place:
            os.kill(os.getpid(), signal.SIGINT)

    def on_epoch(self, row: dict[str, Any]) -> None:
        pass
