"""The contract, last line: every method learns clean digits as well as the plain loss does.

With the real calibration: who estimates the noise rate must find that there is none.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from discrimloss.recipes import load_recipe
from discrimloss.training.methods.base import methods
from discrimloss.training.run import RunRequest, run_training

# More than the recipe's 40 epochs: some methods, GCE most of all, take longer to the same accuracy.
SETTINGS = ("noise.kind=none", "noise.rate=0", "epochs=60", "seed=2", "tensorboard=false")


@cache
def accuracy(name: str, directory: Path) -> float:
    """Of the last epoch, with the method's defaults."""
    config = load_recipe("digits", [*SETTINGS, f"method={name}"])
    last: float = run_training(RunRequest(config, Path(), directory / name))["test"]["last"]
    return last


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clean")


# A third of a minute each: most of them run with the slow tests.
FAST = {"plain", "discrimloss", "elr"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
        for name in methods.names()
    ],
)
def test_clean_digits_are_learned_as_well_as_with_the_plain_loss(
    name: str, directory: Path
) -> None:
    plain = accuracy("plain", directory)
    assert plain > 95.0
    assert accuracy(name, directory) > plain - 1.0
