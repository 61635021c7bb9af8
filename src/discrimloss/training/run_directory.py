"""The directory of a run: its files, and whether a new run may start in it."""

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
PUT_BACK = "put the file back, or train again with --overwrite"


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
        """Whether a run ended here."""
        return (self / SUMMARY).is_file()

    @property
    def holds_run(self) -> bool:
        """Whether a run began here."""
        return (self / CONFIG).is_file()

    def summary(self) -> dict[str, Any]:
        """The summary of a finished run."""
        try:
            content = json.loads((self / SUMMARY).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DiscrimLossError(f"cannot read {self / SUMMARY}: {error}") from error
        if not isinstance(content, dict):
            raise DiscrimLossError(
                f"{self / SUMMARY} is damaged, it is not what a run wrote: put the file back, or "
                "train again with --overwrite"
            )
        summary: dict[str, Any] = content
        return summary

    def config(self) -> dict[str, Any]:
        """The settings of the run that began here."""
        try:
            text = (self / CONFIG).read_text(encoding="utf-8")
            return tomlkit.parse(text).unwrap()
        except (OSError, UnicodeDecodeError, tomlkit.exceptions.TOMLKitError) as error:
            raise DiscrimLossError(f"cannot read {self / CONFIG}: {error}") from error

    def check(self, resume: bool, overwrite: bool) -> None:
        """Raise a `DiscrimLossError` unless a run may start or be resumed here."""
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
        """Remove the files of an earlier run, and nothing else."""
        # The summary first, so that the rest does not look like a finished run. The config last, so
        # that the rest still looks like a run if this process is killed here.
        for name in (SUMMARY, *(name for name in FILES if name != CONFIG), CONFIG):
            for suffix in ("", UNFINISHED, OLD):
                path = self / (name + suffix)
                if path.is_dir():
                    shutil.rmtree(path)
                elif name != LOCK:
                    path.unlink(missing_ok=True)

    def write(self, name: str, text: str) -> None:
        """Write a file, completely or not at all."""
        with atomic_write(self / name) as unfinished:
            unfinished.write_bytes(text.encode())

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the checksums of all records, and then the summary, which ends the run."""
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
        """Keep other runs out of the directory until this one ends, however it ends."""
        refusal = f"another run is using {self.path}: wait for it, or choose another directory"
        with exclusive_lock(self / LOCK, refusal):
            yield


class NoDirectory(RunDirectory):
    """The directory of a run that is kept in memory: nothing is written."""

    is_kept = False

    def __init__(self) -> None:
        super().__init__(Path())

    @property
    def is_finished(self) -> bool:
        """No run ended here."""
        return False

    @property
    def holds_run(self) -> bool:
        """No run began here."""
        return False

    def check(self, resume: bool, overwrite: bool) -> None:
        """A run may always start."""

    def clear(self) -> None:
        """There is nothing to remove."""

    def write(self, name: str, text: str) -> None:
        """Write nothing."""

    def finish(self, summary: dict[str, Any]) -> None:
        """Write nothing."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """There is nothing to keep others out of."""
        yield


def why_unusable(path: Path, option: str = "--out") -> str | None:
    """Why no directory can be made or written at `path`, in one sentence; None if it can.

    `option` is the option that named it.
    """
    nearest = next(p for p in (path.absolute(), *path.absolute().parents) if os.path.lexists(p))
    if not nearest.is_dir():
        return f"{nearest} is not a directory: choose another path with {option}"
    if not os.access(nearest, os.W_OK):
        return f"cannot write to {nearest}: choose another path with {option}"
    return None


def require_same_settings(saved: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise an `OptionError` unless a run is resumed with the settings it began with."""
    if differences := changed_settings(saved, wanted):
        raise OptionError(
            f"cannot resume with other settings ({differences}): "
            "give the same ones, or choose another directory"
        )


def changed_settings(saved: dict[str, Any], wanted: dict[str, Any]) -> str:
    """The first three differences: ``"noise.rate was 0.4, now 0.2"``; empty if there is none."""
    before, now = dict(flat(as_toml(saved))), dict(flat(as_toml(wanted)))
    changed = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
    return ", ".join(f"{k} was {before.get(k)!r}, now {now.get(k)!r}" for k in changed[:3])


def flat(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by dotted keys: ``noise.rate``."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def as_toml(value: Any) -> Any:
    """Settings as TOML takes them: lists for tuples, sections last."""
    if isinstance(value, dict):
        # Plain values before sections: a section ends where the next one begins.
        ordered = sorted(value.items(), key=lambda item: isinstance(item[1], dict))
        return {key: as_toml(entry) for key, entry in ordered}
    return [as_toml(entry) for entry in value] if isinstance(value, (list, tuple)) else value
