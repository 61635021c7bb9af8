"""Where the real data is, for tests that use it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def real_data(*needed: str) -> Path:
    """The directory in ``DISCRIMLOSS_DATA``; skips the test where it or a needed path is absent."""
    directory = os.environ.get("DISCRIMLOSS_DATA")
    if not directory:
        pytest.skip("DISCRIMLOSS_DATA is not set")
    for path in needed:
        if not (Path(directory) / path).exists():
            pytest.skip(f"DISCRIMLOSS_DATA has no {path}")
    return Path(directory)
