"""`CONTRIBUTING.md` says how to add a method: these tests follow it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import refused
from loss_contract import LossContract
from method_contract import MethodContract

import discrimloss.losses
from discrimloss.cli import main
from discrimloss.losses.base import loss_classes
from discrimloss.training.methods.base import methods

GUIDE = Path(__file__).parents[3] / "CONTRIBUTING.md"
NAME, MODULE, CLASS = "tempered", "tempered_cross_entropy", "TemperedCrossEntropy"


def code_blocks() -> list[str]:
    section = GUIDE.read_text(encoding="utf-8").partition("## Adding a method")[2]
    section = section.partition("\n## ")[0]
    blocks = re.findall(r"^ *```python\n(.*?)^ *```", section, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for block in blocks]


@pytest.fixture
def walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The guide's loss, as one more file among the losses; gone afterwards."""
    loss_file, _ = code_blocks()
    folder = tmp_path / "losses"
    folder.mkdir()
    (folder / f"{MODULE}.py").write_text(loss_file, encoding="utf-8")
    path = [*discrimloss.losses.__path__, str(folder)]
    monkeypatch.setattr(discrimloss.losses, "__path__", path)
    assert NAME in methods.names()
    yield NAME
    del sys.modules[f"discrimloss.losses.{MODULE}"]
    delattr(discrimloss.losses, MODULE)
    del loss_classes.registered[NAME]


def test_it_is_found_and_described(walked: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert methods.summary(walked) == (
        "Cross-entropy of predictions softened by a temperature (authors, year)."
    )
    assert list(methods.options(walked)) == ["temperature"]
    assert main(["ls"]) == 0
    assert walked in capsys.readouterr().out
    assert CLASS in discrimloss.losses.__all__


def test_it_trains_with_its_option(walked: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    settings = [f"method={walked}", "options.temperature=3", "epochs=2", "tensorboard=false"]
    assert main(["train", "digits", *settings, "--out", str(out)]) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["method"] == walked
    assert summary["score_auroc"] > 0.6  # its own score found its way into the figures


@pytest.mark.parametrize(
    ("recipe", "setting", "sentence"),
    [
        ("digits", "options.temperature=0", "temperature must be above 0, not 0.0"),
        ("digits", "options.temprature=3", "did you mean 'options.temperature'?"),
        ("digitsum", "epochs=2", "method 'tempered' does not support regression: it softens class"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    recipe: str,
    setting: str,
    sentence: str,
    walked: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "run"
    said = refused(capsys, "train", recipe, f"method={walked}", setting, "--out", str(out))
    assert sentence in said
    assert not out.exists()


@pytest.mark.parametrize(
    ("number", "place"),
    [
        (0, f"src/discrimloss/losses/{MODULE}.py"),
        (1, f"tests/losses/test_{MODULE}.py"),
    ],
)
def test_it_passes_the_linter(number: int, place: str) -> None:
    for command in (["check"], ["format", "--check"]):
        linted = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", place, "-"],
            input=code_blocks()[number],
            cwd=GUIDE.parent,
            capture_output=True,
            text=True,
        )
        assert linted.returncode == 0, linted.stdout + linted.stderr


def test_its_test_passes(walked: str) -> None:
    _, test_file = code_blocks()
    names: dict[str, object] = {}
    exec(compile(test_file, f"test_{MODULE}.py", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        assert callable(test)
        test()


@pytest.mark.parametrize("name", [NAME])
@pytest.mark.usefixtures("walked")
class TestContractOfTheWalk(MethodContract):
    """What the contract test does by itself, once the file is there."""


@pytest.mark.parametrize("name", [NAME])
@pytest.mark.usefixtures("walked")
class TestContractOfTheLoss(LossContract):
    """The same, in a plain loop."""
