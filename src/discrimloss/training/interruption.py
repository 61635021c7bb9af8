"""Handles Ctrl-C and SIGTERM: a run stops between two steps, with a checkpoint."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """The run was stopped by a signal, and has saved its state.

    It is a `KeyboardInterrupt`, which scripts and notebooks handle, not an `Exception`, so that no
    error handler catches it.
    """

    def __init__(self, signal_number: int, where: str) -> None:
        super().__init__(where)
        self.signal_number = signal_number


class StopRequest:
    """Whether a signal has requested the run to stop. A second signal stops it at once."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self.may_wait = False
        """Whether the run checks this request between steps. If not, a signal stops it at once."""

    def __bool__(self) -> bool:
        return self.signal_number is not None

    def note(self, signal_number: int, frame: FrameType | None) -> None:
        """Handle a signal: record it, or stop at once."""
        if not self.may_wait or self.signal_number is not None:
            raise Interrupted(signal_number, "at once")
        self.signal_number = signal_number


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn Ctrl-C and SIGTERM into a `StopRequest` while the block runs."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread receives signals
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, request.note) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
