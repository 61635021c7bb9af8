"""Identifies the process of a trial, and checks whether it is alive."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

PROCESS = "process"
"""Name of the attribute for the number of a trial and the process that runs it."""


def own_process() -> list[str | int]:
    """Return the identity of this process: its machine, its id and its start time."""
    return [_machine(), os.getpid(), _start_time(os.getpid())]


def has_died(process: object) -> bool:
    """Return whether a process, as returned by `own_process`, ran on this machine and has ended.

    The result is False for a process of another machine or container: only its heartbeat can show
    that it has ended.
    """
    if not isinstance(process, list) or len(process) != 3 or process[0] != _machine():
        return False
    number, started = process[1:]
    if not isinstance(number, int) or number < 1:
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it exists, but belongs to another user
        return False
    return bool(_start_time(number) != started)  # its number now belongs to another process


def _machine() -> str:
    """Return a name that is unique to this machine or container, and to its boot."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return f"{uuid.getnode():x}"


def _start_time(number: int) -> str:
    """Return the start time of a process, as the system reports it. Empty if unknown."""
    try:
        text = Path(f"/proc/{number}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""
