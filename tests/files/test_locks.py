"""One process at a time."""

import subprocess
import sys
from pathlib import Path

import pytest

from discrimloss.files.locks import LockedError, exclusive_lock

HOLD = """
import sys
from pathlib import Path
from discrimloss.files.locks import exclusive_lock
with exclusive_lock(Path(sys.argv[1]), ""):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_second_holder_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "new" / ".lock"
    with (
        exclusive_lock(file, "the first"),
        pytest.raises(LockedError, match="wait for it"),
        exclusive_lock(file, "wait for it"),
    ):
        raise AssertionError("two hold the lock")
    with exclusive_lock(file, "free again"):
        pass


def test_a_lock_is_released_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyError), exclusive_lock(tmp_path / ".lock", ""):
        raise KeyError
    with exclusive_lock(tmp_path / ".lock", "free again"):
        pass


def test_the_lock_of_a_killed_process_is_released(tmp_path: Path) -> None:
    file = tmp_path / ".lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == b"locked"
        with pytest.raises(LockedError), exclusive_lock(file, "another process"):
            pass
        holder.kill()
        holder.wait()
        with exclusive_lock(file, "free again"):
            pass
