"""The directory of a run: reads and writes its files, and checks if a run may start in it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomlkit
import tomlkit.exceptions

from discrimloss.errors import DiscrimLossError
from discrimloss.files.atomic_write import atomic_write
from discrimloss.files.checksums import CHECKSUMS, require_intact, write_checksums
from discrimloss.files.locks import exclusive_lock
from discrimloss.options import OptionError

CONFIG = "config.toml"
ENVIRONMENT = "environment.json"
HISTORY = "history.csv"
HISTORY_LINES = "history.jsonl"
SUMMARY = "summary.json"
VERDICTS = "verdicts.parquet"
CHECKPOINT = "checkpoint"
TENSORBOARD = "tensorboard"
TRACES = "samples"
LOCK = ".lock"
UNFINISHED = ".unfinished"
OLD = ".old"
FILES = (
    CONFIG,
    ENVIRONMENT,
    HISTORY,
    HISTORY_LINES,
    SUMMARY,
    VERDICTS,
    CHECKPOINT,
    TENSORBOARD,
    TRACES,
    CHECKSUMS,
    LOCK,
)
PUT_BACK = "restore the file, or train again with --overwrite"


class RunDirectory:
    """The files of a run. Every file is complete or absent."""

    is_kept = True
    """Whether anything is written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def is_finished(self) -> bool:
        """Whether the directory has a finished run."""
        return (self / SUMMARY).is_file()

    @property
    def holds_run(self) -> bool:
        """Whether a run has begun in the directory."""
        return (self / CONFIG).is_file()

    def summary(self) -> dict[str, Any]:
        """Return the summary of a finished run."""
        try:
            content = json.loads((self / SUMMARY).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DiscrimLossError(f"cannot read {self / SUMMARY}: {error}") from error
        if not isinstance(content, dict):
            raise DiscrimLossError(
                f"{self / SUMMARY} is damaged or was not written by a run: restore the file, or "
                "train again with --overwrite"
            )
        summary: dict[str, Any] = content
        return summary

    def config(self) -> dict[str, Any]:
        """Return the settings of the run in the directory."""
        try:
            text = (self / CONFIG).read_text(encoding="utf-8")
            return tomlkit.parse(text).unwrap()
        except (OSError, UnicodeDecodeError, tomlkit.exceptions.TOMLKitError) as error:
            raise DiscrimLossError(f"cannot read {self / CONFIG}: {error}") from error

    def check(self, resume: bool, overwrite: bool) -> None:
        """Raise a `DiscrimLossError` unless a run may start or resume in the directory."""
        if objection := why_unusable(self.path):
            raise DiscrimLossError(objection)
        if not self.path.exists():
            return
        if not self.holds_run:
            if any(entry.name not in (LOCK, CONFIG + UNFINISHED) for entry in self.path.iterdir()):
                raise DiscrimLossError(
                    f"--out {self.path} holds other files: choose a new or an empty directory"
                )
        elif self.is_finished and not (resume or overwrite):
            raise DiscrimLossError(
                f"--out {self.path} holds a finished run: "
                "pass --overwrite to replace it, or choose another directory"
            )
        elif not (resume or overwrite):
            raise DiscrimLossError(
                f"--out {self.path} holds an unfinished run: "
                "pass --resume to continue it, or --overwrite to start over"
            )

    def clear(self) -> None:
        """Remove the files of an earlier run. Other files are kept."""
        # The summary first, so that the rest does not look like a finished run. The config last, so
        # that the rest still looks like a run if this process is killed.
        for name in (SUMMARY, *(name for name in FILES if name != CONFIG), CONFIG):
            for suffix in ("", UNFINISHED, OLD):
                path = self / (name + suffix)
                if path.is_dir():
                    shutil.rmtree(path)
                elif name != LOCK:
                    path.unlink(missing_ok=True)

    def write(self, name: str, text: str) -> None:
        """Write a file atomically."""
        with atomic_write(self / name) as unfinished:
            unfinished.write_bytes(text.encode())

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the checksums of all records, then the summary, which marks the run as finished."""
        text = json.dumps(summary, indent=1, allow_nan=False) + "\n"
        names = [CONFIG, ENVIRONMENT, HISTORY, HISTORY_LINES, VERDICTS]
        folder = self / TRACES
        names += [f"{TRACES}/{file.name}" for file in folder.iterdir()] if folder.is_dir() else []
        write_checksums(self.path, names, {SUMMARY: text})
        self.write(SUMMARY, text)

    def require_intact(self) -> None:
        """Raise a `DiscrimLossError` if a record of a finished run is damaged or missing."""
        if self.is_finished:
            require_intact(self.path, PUT_BACK)

    def write_config(self, settings: dict[str, Any]) -> None:
        """Write the settings of the run."""
        self.write(CONFIG, tomlkit.dumps(as_toml(settings)))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory until this run ends in any way."""
        refusal = f"another run is using {self.path}: wait for it, or choose another directory"
        with exclusive_lock(self / LOCK, refusal):
            yield


class NoDirectory(RunDirectory):
    """The directory of a run in memory. Nothing is written."""

    is_kept = False

    def __init__(self) -> None:
        super().__init__(Path())

    @property
    def is_finished(self) -> bool:
        """Always False: there is no finished run."""
        return False

    @property
    def holds_run(self) -> bool:
        """Always False: no run has begun."""
        return False

    def check(self, resume: bool, overwrite: bool) -> None:
        """Do nothing: a run may always start."""

    def clear(self) -> None:
        """Do nothing: there are no files."""

    def write(self, name: str, text: str) -> None:
        """Write nothing."""

    def finish(self, summary: dict[str, Any]) -> None:
        """Write nothing."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Do nothing: there is no directory to lock."""
        yield


def why_unusable(path: Path, option: str = "--out") -> str | None:
    """Return why no directory can be created or written at `path`, or None if it can.

    `option` is the option with the path.
    """
    nearest = next(p for p in (path.absolute(), *path.absolute().parents) if os.path.lexists(p))
    if not nearest.is_dir():
        return f"{nearest} is not a directory: choose another path with {option}"
    if not os.access(nearest, os.W_OK):
        return f"cannot write to {nearest}: choose another path with {option}"
    return None


def require_same_settings(saved: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise an `OptionError` unless a run is resumed with its original settings."""
    if differences := changed_settings(saved, wanted):
        raise OptionError(
            f"cannot resume with other settings ({differences}): "
            "pass the same ones, or choose another directory"
        )


def changed_settings(saved: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Return the first three differences: ``"noise.rate was 0.4, now 0.2"``. May be empty."""
    before, now = dict(flat(as_toml(saved))), dict(flat(as_toml(wanted)))
    changed = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
    return ", ".join(f"{k} was {before.get(k)!r}, now {now.get(k)!r}" for k in changed[:3])


def flat(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Return settings by dotted keys: ``noise.rate``."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def as_toml(value: Any) -> Any:
    """Return settings in the form of TOML: lists instead of tuples, sections last."""
    if isinstance(value, dict):
        # Plain values before sections, because a section ends where the next one begins.
        ordered = sorted(value.items(), key=lambda item: isinstance(item[1], dict))
        return {key: as_toml(entry) for key, entry in ordered}
    return [as_toml(entry) for entry in value] if isinstance(value, (list, tuple)) else value
