"""One cell at work: a `discrimloss train` in a process of its own, and what is kept of it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from benchmarks.paper.cells import Cell
from benchmarks.paper.sample_figures import sample_figures
from benchmarks.paper.store import Content, ResultsStore, machine
from discrimloss.errors import DiscrimLossError
from discrimloss.files.atomic_write import atomic_write
from discrimloss.training.run_directory import HISTORY_LINES, RunDirectory

PROGRAM = (sys.executable, "-m", "discrimloss.cli")
LEFT_OUT_OF_HISTORY = ("seconds",)


class AlreadyDoneError(DiscrimLossError):
    """Another process has put the result of this cell into the store."""


class CellFailedError(DiscrimLossError):
    """A run that ended without a result: one sentence with the place of its log."""


@dataclass(frozen=True)
class Places:
    """Where a reproduction reads and writes."""

    data: Path | None
    runs: Path
    keep_runs: bool = False

    def run_directory(self, cell: Cell) -> Path:
        """The --out of the cell's run."""
        return self.runs / cell.table.name / cell.name

    def log(self, cell: Cell) -> Path:
        """What the run printed."""
        return self.runs / cell.table.name / f"{cell.name}.log"

    def identity(self, cell: Cell) -> Path:
        """Which experiment the run directory is of: beside it, as it may hold a run only."""
        return self.runs / cell.table.name / f"{cell.name}.experiment"


@dataclass
class CellRun:
    """A cell at work. The cell is locked until the run is closed."""

    cell: Cell
    places: Places
    store: ResultsStore
    _process: subprocess.Popen[bytes] | None = None
    _resources: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        """Start the run, or go on with it.

        Raises:
            CellLockedError: another process is at it.
            AlreadyDoneError: another process was, since the store was last looked at.
        """
        lock = self._resources.enter_context(self.store.locked(self.cell))
        stored = self.store.read(self.cell)
        if stored is not None and not stored.is_stale:
            raise AlreadyDoneError(self.cell.name)
        place = self.places.run_directory(self.cell)
        place.parent.mkdir(parents=True, exist_ok=True)
        # What an earlier run of other settings left here cannot be gone on with.
        goes_on = self._is_same_experiment()
        if not goes_on:
            with atomic_write(self.places.identity(self.cell)) as unfinished:
                unfinished.write_text(json.dumps(self.cell.identity), encoding="utf-8")
        words = train_words(self.cell)
        words += [] if self.places.data is None else ["--data", str(self.places.data)]
        words += ["--out", str(place), "--resume" if goes_on else "--overwrite"]
        # What the run said before it was stopped is of the same run: it stays.
        log: IO[bytes] = self._resources.enter_context(
            self.places.log(self.cell).open("ab" if goes_on else "wb")
        )
        self._process = subprocess.Popen(
            [*PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is ours to pass on, once
            # If we are killed the run goes on, and the cell is its own until it ends.
            pass_fds=() if lock is None else (lock,),
        )

    def _is_same_experiment(self) -> bool:
        try:
            text = self.places.identity(self.cell).read_text(encoding="utf-8")
            return bool(json.loads(text) == self.cell.identity)
        except (OSError, ValueError):
            return False

    @property
    def is_running(self) -> bool:
        """Whether the process is at work."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Ask the run to write a checkpoint and to end."""
        if self._process is not None and self.is_running:
            # As good as SIGINT for the run, and heard by a process that is still importing.
            self._process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        """Until it has ended."""
        if self._process is not None:
            self._process.wait()

    def finish(self) -> Content:
        """Put the result of the ended run into the store.

        Raises:
            CellFailedError: there is none.
        """
        assert self._process is not None
        code, log = self._process.returncode, self.places.log(self.cell)
        if code != 0:
            reason = _killed_by(-code) if code < 0 else _last_line(log)
            raise CellFailedError(f"{self.cell.name} failed ({reason}); its log is {log}")
        content = self._result()
        self.store.write(self.cell, content)
        if not self.places.keep_runs:
            shutil.rmtree(self.places.run_directory(self.cell))
            log.unlink(missing_ok=True)
            self.places.identity(self.cell).unlink(missing_ok=True)
        return content

    def close(self) -> None:
        """Let others have the cell."""
        self._resources.close()

    def _result(self) -> Content:
        cell = self.cell
        directory = RunDirectory(self.places.run_directory(cell))
        summary = directory.summary()
        made_with = summary.pop("versions")
        del summary["command"]
        lines = (directory / HISTORY_LINES).read_text(encoding="utf-8").splitlines()
        kind = cell.table.kind
        return {
            "table": cell.table.name,
            "row": cell.row.name,
            "column": cell.column.name,
            "seed": cell.seed,
            "small": cell.is_small,
            "command": shlex.join(["discrimloss", *train_words(cell)]),
            **cell.identity,
            "versions": made_with,
            "machine": machine(),
            "summary": summary,
            "history": history_columns([json.loads(line) for line in lines]),
            "samples": sample_figures(directory.path, summary, kind) or None,
        }


def train_words(cell: Cell) -> list[str]:
    """What follows ``discrimloss`` in the command of a cell's run, places left out."""
    return ["train", cell.recipe, *cell.settings]


def history_columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Rows of epochs as a list for each figure, five digits each; None where a row lacks it."""
    names = dict.fromkeys(name for row in rows for name in row if name not in LEFT_OUT_OF_HISTORY)
    return {name: [_short(row.get(name)) for row in rows] for name in names}


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _killed_by(number: int) -> str:
    """A run that a signal ended had no time to say why."""
    try:
        name = signal.Signals(number).name
    except ValueError:  # not every signal has a name
        name = f"signal {number}"
    cause = ", as a system does that runs out of memory" if name == "SIGKILL" else ""
    return f"it was killed by {name}{cause}"


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1].strip().removeprefix("discrimloss: ") if lines else "it printed nothing"
