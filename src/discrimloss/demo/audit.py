"""The demo's digits as a person has them, for an audit: pictures with labels, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from discrimloss.auditing.audit import audit
from discrimloss.auditing.progress import ObserverOfRun
from discrimloss.demo.digits import NoisyDigits
from discrimloss.files.atomic_write import atomic_write

SOURCE = "digits.npz"
AUDIT = "audit"
SIDE = 8


def audit_digits(
    digits: NoisyDigits, directory: Path, overwrite: bool, progress: bool | ObserverOfRun = True
) -> dict[str, Any]:
    """Write the digits into a directory, and audit them there; returns the summary."""
    source = directory / SOURCE
    pixels = (digits.images * 255).round().to("cpu").numpy().astype(np.uint8)
    with atomic_write(source) as unfinished, unfinished.open("wb") as file:
        np.savez(
            file,
            images=pixels.reshape(-1, SIDE, SIDE),
            labels=digits.target.numpy(),
            ids=np.array([f"digit {index}" for index in digits.index.tolist()]),
        )
    result = audit(
        source,
        "labels",
        id="ids",
        threads=1,
        out=directory / AUDIT,
        overwrite=overwrite,
        progress=progress,
    )
    return result.summary
