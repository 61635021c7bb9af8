"""A small run that the tests of reports share."""

from pathlib import Path

import pytest
from quick_verdicts import make_verdicts_quick

from discrimloss.cli import main

SMALL = ("digits", "epochs=3", "train_size=48", "batch_size=16", "tensorboard=false", "threads=1")


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 digits, three epochs."""
    directory = tmp_path_factory.mktemp("runs") / "small"
    with pytest.MonkeyPatch.context() as patch:
        make_verdicts_quick(patch.setattr)
        assert main(["train", *SMALL, "--out", str(directory)]) == 0
    return directory
