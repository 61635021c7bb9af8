"""What the tests of training share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lively_task
import pytest
from run_host import RunHost


@pytest.fixture
def lively() -> Iterator[None]:
    """The lively task is known by name, in this process."""
    with lively_task.registered():
        yield


class WholeRuns:
    """Runs that nobody interrupts, each made once."""

    def __init__(self, host: RunHost, directory: Path) -> None:
        self._host, self._directory = host, directory
        self._made: dict[tuple[str, ...], Path] = {}

    def with_settings(self, *settings: str) -> Path:
        """The directory of a finished run."""
        if settings not in self._made:
            out = self._directory / str(len(self._made))
            assert self._host.run(out, *settings)["ended"] == "finished"
            self._made[settings] = out
        return self._made[settings]


@pytest.fixture(scope="session")
def whole_runs(run_host: RunHost, tmp_path_factory: pytest.TempPathFactory) -> WholeRuns:
    """For comparison."""
    return WholeRuns(run_host, tmp_path_factory.mktemp("whole"))
