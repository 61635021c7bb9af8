"""What tests of commands that train share."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory, and no data directory unless a test names one."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("DISCRIMLOSS_DATA", raising=False)


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if anything is trained: bad input must be refused before."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("trained")

    monkeypatch.setattr("discrimloss.training.loop.TrainingLoop.run", refuse)
