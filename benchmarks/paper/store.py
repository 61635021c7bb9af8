"""The results store: a JSON file for each cell, complete or not there."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.paper.cells import Cell, settings_with_effect
from benchmarks.paper.stored_shape import DamagedError, require_shape
from discrimloss.errors import DiscrimLossError
from discrimloss.files.atomic_write import atomic_write
from discrimloss.options import OptionError
from discrimloss.training.config import read_config
from discrimloss.training.run_directory import why_unusable

Content = dict[str, Any]


class StoreError(DiscrimLossError):
    """A store that cannot be used: one sentence that says what to do."""


class CellLockedError(DiscrimLossError):
    """Another process is at work on this cell."""


@dataclass(frozen=True)
class StoredCell:
    """A result, and whether it is of the experiment that the table asks for now."""

    cell: Cell
    content: Content
    differences: tuple[str, ...] = ()
    """What was set otherwise, in words; a cell with any is stale."""

    @property
    def is_stale(self) -> bool:
        """Whether it is of another experiment than the table's."""
        return bool(self.differences)


class ResultsStore:
    """Where results are kept: ``RESULTS/TABLE/ROW-COLUMN-SEED[-small].json``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, cell: Cell) -> Path:
        """Where the result of a cell belongs."""
        return self.path / cell.table.name / f"{cell.name}.json"

    def read(self, cell: Cell) -> StoredCell | None:
        """The result of a cell, or None if there is none.

        Raises:
            StoreError: the file cannot be read, or is damaged.
        """
        found = self._content_and_experiment(cell)
        if found is None:
            return None
        content, experiment = found
        return StoredCell(cell, content, tuple(differences(experiment, cell.identity)))

    def has(self, cell: Cell) -> bool:
        """Whether there is a result that counts: neither stale nor damaged."""
        try:
            stored = self.read(cell)
        except StoreError:
            return False
        return stored is not None and not stored.is_stale

    def _content_and_experiment(self, cell: Cell) -> tuple[Content, Content] | None:
        path = self.file(cell)
        try:
            content: Content = json.loads(path.read_text(encoding="utf-8"))
            require_shape(content)
            settings = _completed(content["config"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            name = "" if isinstance(error, DamagedError) else f"{type(error).__name__}: "
            raise StoreError(f"cannot read the result {path} ({name}{error}): remove it") from error
        return content, {"config": settings, "method_defaults": content["method_defaults"]}

    def write(self, cell: Cell, content: Content) -> None:
        """Keep a result, in place of an earlier one."""
        # A line for each part: a history of figures in a column each would be pages long.
        lines = [f" {json.dumps(key)}: {json.dumps(part)}" for key, part in content.items()]
        path = self.file(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as unfinished:
            unfinished.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")

    def require_writable(self) -> None:
        """Raise a `StoreError` unless results can be kept here."""
        if objection := why_unusable(self.path, "--results"):
            raise StoreError(objection)

    @contextmanager
    def locked(self, cell: Cell) -> Iterator[int | None]:
        """Keep other processes off a cell until the block ends, however it ends.

        Gives the descriptor of the lock, None where there are no locks. A child that inherits it
        keeps the cell as long as it lives, also if this process is killed.

        Raises:
            CellLockedError: another one has it.
        """
        path = self.path / cell.table.name / f".{cell.name}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            import fcntl
        except ImportError:  # not every system has it
            yield None
            return
        with path.open("a") as file:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise CellLockedError(cell.name) from error
            if not _is_still_there(path, file.fileno()):  # its last owner removed it
                raise CellLockedError(cell.name)
            try:
                yield file.fileno()
            finally:
                path.unlink(missing_ok=True)  # while it is still locked: nobody else holds it


def _is_still_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _completed(settings: Content) -> Content:
    """Settings with those that did not exist when they were stored: the defaults did what they do.

    Settings that do not exist any more stay as they are, and make a result stale.
    """
    try:
        completed = settings_with_effect(read_config(settings, settings["recipe"]))
    except OptionError:
        return settings
    content: Content = json.loads(json.dumps(completed))
    return content


def differences(made: Content, wanted: Content) -> Iterator[str]:
    """What two experiments differ in, in words: ``epochs was 10, is 20``."""
    before, now = dict(_flat(made)), dict(_flat(wanted))
    # Settings first: a default may have changed only because it follows from one.
    for key in sorted({*before, *now}, key=lambda key: (key.startswith("default "), key)):
        if before.get(key) != now.get(key):
            yield f"{key} was {_word(before, key)}, is {_word(now, key)}"


def _flat(table: Content, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = key if prefix in ("", "config.", "method_defaults.") else f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.")
        else:
            yield ("default " * (prefix == "method_defaults.")) + name, value


def _word(table: Content, key: str) -> str:
    return json.dumps(table[key]) if key in table else "not set"


def machine() -> dict[str, Any]:
    """What the runs of this process are made on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "threads_per_run": 1,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):  # not every system tells
        return None
