"""Whether something fits into memory, asked before it is read."""

from __future__ import annotations

import os
from pathlib import Path

from discrimloss.auditing.sources.base import SourceError

GIGABYTE = 1 << 30
_MEMINFO = Path("/proc/meminfo")


def free_memory() -> int | None:
    """How many bytes can be taken without swapping; None where the system does not say."""
    try:
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def require_memory(needed: float, what: str) -> None:
    """Raise a `SourceError` if there is clearly not enough memory.

    Args:
        needed: an estimate, in bytes.
        what: what it is for, as the beginning of a sentence.
    """
    free = free_memory()
    if free is not None and needed > free:
        raise SourceError(
            f"{what} needs about {needed / GIGABYTE:.1f} GB of memory, and {free / GIGABYTE:.1f} GB"
            " are free: audit a part of it, leave out columns, or use a larger machine"
        )
