"""Denormal numbers, which make a processor slow, count as 0 while a network learns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Compute with 0 in place of numbers below 1e-38, where the processor can.

    The gradients of saturated units are that small. They change no weight, but Digit Sum with the
    paper's learning rate takes ten times as long with them.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
