"""The results store: a file of JSON lines for each table, a line for each cell."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from benchmarks.paper.cells import Cell, settings_with_effect
from benchmarks.paper.stored_shape import DamagedError, require_shape
from discrimloss.errors import DiscrimLossError
from discrimloss.files.atomic_write import atomic_write
from discrimloss.files.locks import exclusive_lock
from discrimloss.options import OptionError
from discrimloss.training.config import read_config
from discrimloss.training.run_directory import why_unusable

Content = dict[str, Any]
Key = tuple[bool, str, str, int]
"""Which cell of its table a line is: size, row, column and seed."""


class StoreError(DiscrimLossError):
    """The store cannot be used: the message says what to do."""


@dataclass(frozen=True)
class StoredCell:
    """A result, and how its settings differ from those of the table now."""

    cell: Cell
    content: Content
    differences: tuple[str, ...] = ()
    """Settings that were other ones, in words: ``epochs was 10, is 20``."""

    @property
    def is_stale(self) -> bool:
        """Whether any setting was another one: then the result does not count."""
        return bool(self.differences)


@dataclass(frozen=True)
class _Line:
    place: str
    """For messages: ``line 3 of mnist.jsonl``."""
    text: str
    content: Content | None
    """None if the line is no result at all."""

    @property
    def key(self) -> Key | None:
        if self.content is None:
            return None
        return (
            bool(self.content["small"]),
            str(self.content["row"]),
            str(self.content["column"]),
            int(self.content["seed"]),
        )


class ResultsStore:
    """Results in a directory: ``TABLE.jsonl`` for each table, with its lines sorted.

    Several processes may add results at the same time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cached: dict[str, tuple[tuple[int, int], list[_Line]]] = {}

    def file(self, table: str) -> Path:
        """Where the results of a table are."""
        return self.path / f"{table}.jsonl"

    def seeds(self, table: str) -> list[int]:
        """All seeds of which a table has results."""
        return sorted({line.key[3] for line in self._lines(table) if line.key is not None})

    def damaged_lines(self, table: str) -> list[str]:
        """A sentence for each line that is no result of any cell."""
        return [
            f"cannot read {line.place}: remove the line"
            for line in self._lines(table)
            if line.key is None
        ]

    def require_readable(self, table: str) -> None:
        """Raise a `StoreError` for the first line that is no result."""
        for sentence in self.damaged_lines(table):
            raise StoreError(sentence)

    def read(self, cell: Cell) -> StoredCell | None:
        """The result of a cell, or None if there is none.

        Raises:
            StoreError: the result is damaged.
        """
        line = next((ln for ln in self._lines(cell.table.name) if ln.key == _key(cell)), None)
        if line is None or line.content is None:
            return None
        try:
            require_shape(line.content)
            settings = _completed(line.content["config"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            kind = "" if isinstance(error, DamagedError) else f"{type(error).__name__}: "
            raise StoreError(
                f"cannot read the result of {cell.name} in {line.place} ({kind}{error}): "
                "remove the line"
            ) from error
        experiment = {"config": settings, "method_defaults": line.content["method_defaults"]}
        return StoredCell(cell, line.content, tuple(differences(experiment, cell.identity)))

    def has(self, cell: Cell) -> bool:
        """Whether there is a result that counts: neither stale nor damaged."""
        try:
            stored = self.read(cell)
        except StoreError:
            return False
        return stored is not None and not stored.is_stale

    def write(self, cell: Cell, content: Content) -> None:
        """Keep a result, in place of an earlier one of the same cell."""
        small, row, column, seed = _key(cell)
        place = {"row": row, "column": column, "seed": seed, "small": small}
        text = json.dumps(place | content)
        table = cell.table.name
        self.path.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path / f".{table}.lock"):
            self._cached.pop(table, None)
            kept = [line for line in self._lines(table) if line.key != _key(cell)]
            damaged = [line.text for line in kept if line.key is None]
            lines = {line.key: line.text for line in kept if line.key is not None}
            lines[_key(cell)] = text
            ordered = [lines[key] for key in sorted(lines)]
            with atomic_write(self.file(table)) as unfinished:
                unfinished.write_text("\n".join([*ordered, *damaged]) + "\n", encoding="utf-8")

    def _lines(self, table: str) -> list[_Line]:
        """The lines of a table's file, read again when it has changed."""
        path = self.file(table)
        try:
            state = path.stat()
            version = (state.st_mtime_ns, state.st_size)
            if table not in self._cached or self._cached[table][0] != version:
                texts = path.read_text(encoding="utf-8").splitlines()
                lines = [_read_line(f"line {n} of {path}", t) for n, t in enumerate(texts, 1)]
                self._cached[table] = (version, lines)
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"cannot read {path}: {error}") from error
        return self._cached[table][1]

    def require_writable(self) -> None:
        """Raise a `StoreError` unless results can be kept here."""
        if objection := why_unusable(self.path, "--results"):
            raise StoreError(objection)

    @contextmanager
    def locked(self, cell: Cell) -> Iterator[None]:
        """Keep other processes off a cell until the block ends.

        Raises:
            LockedError: another process has the cell.
        """
        path = self.path / f".{cell.table.name}-{cell.name}.lock"
        with exclusive_lock(path, f"another process runs {cell.name}"):
            yield
            if self.has(cell):  # whoever gets the lock from now on sees the result first
                with suppress(OSError):
                    path.unlink()


def _key(cell: Cell) -> Key:
    return (cell.is_small, cell.row.name, cell.column.name, cell.seed)


def _read_line(place: str, text: str) -> _Line:
    try:
        content = json.loads(text)
        line = _Line(place, text, content if isinstance(content, dict) else None)
        line.key  # noqa: B018 -- raises an error if the line does not name its cell
    except (ValueError, KeyError, TypeError):
        return _Line(place, text, None)
    return line


def _completed(settings: Content) -> Content:
    """Settings with the defaults of those that did not exist when the result was stored.

    Settings that do not exist any more stay as they are, and make a result stale.
    """
    try:
        completed = settings_with_effect(read_config(settings, settings["recipe"]))
    except OptionError:
        return settings
    content: Content = json.loads(json.dumps(completed))
    return content


def differences(made: Content, wanted: Content) -> Iterator[str]:
    """How two experiments differ, in words: ``epochs was 10, is 20``."""
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
    """The machine that the runs are made on."""
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
    except (AttributeError, ValueError, OSError):  # not every system reports it
        return None
