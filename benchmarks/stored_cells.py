"""Runs benchmarks of many cells. A cell is stored when its job ends, and is not run again."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from discrimloss.files.atomic_write import atomic_write
from discrimloss.files.locks import LockedError, exclusive_lock
from discrimloss.training.grid import Job, JobResult, run_jobs
from discrimloss.training.interruption import Interrupted

RESULTS = Path(__file__).parent / "results"
Line = dict[str, Any]
Command = Callable[[argparse.Namespace], None]


class DataSet(Protocol):
    """A dataset of a row."""

    @property
    def is_cifar(self) -> bool:
        """Whether it is in the directory of CIFAR-10."""

    def file(self, data: Path) -> Path:
        """Where it is otherwise."""


class Row(Protocol):
    """A row of a design."""

    @property
    def title(self) -> str:
        """For `--only`."""

    @property
    def data_set(self) -> DataSet:
        """What it is about."""


AnyRow = TypeVar("AnyRow", bound=Row)


@dataclass(frozen=True)
class Waiting:
    """A job of cells that are not stored yet."""

    job: Job
    seconds: float = 1.0
    """About how long it takes, relative to the others."""


def read_lines(path: Path) -> list[Line]:
    """Return the stored cells, without the unfinished last line of a killed program."""
    if not path.is_file():
        return []
    complete = path.read_text("utf-8").rpartition("\n")[0]
    return [json.loads(line) for line in complete.splitlines()]


def append_lines(path: Path, lines: Iterable[Line]) -> None:
    """Add cells at the end of the file, in place of an unfinished line if there is one."""
    with path.open("ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write("".join(json.dumps(line) + "\n" for line in lines).encode())


class Progress:
    """Stores the lines of each job that ends, and prints how far the program is.

    Args:
        path: the file of the stored lines.
        waiting: all jobs to run. Their names must differ.
        in_words: returns the text to print for a line.
    """

    def __init__(
        self, path: Path, waiting: Sequence[Waiting], in_words: Callable[[Line], str]
    ) -> None:
        self.path, self.in_words = path, in_words
        self.seconds = {one.job.name: one.seconds for one in waiting}
        self.jobs, self.ended = len(waiting), 0
        self.estimated, self.done = sum(one.seconds for one in waiting), 0.0
        self.started = time.monotonic()

    def __call__(self, result: JobResult) -> None:
        """Store and print the lines of a job that has ended."""
        self.ended += 1
        self.done += self.seconds[result.job.name]
        if result.error is None:
            append_lines(self.path, result.value)
            words = "  ".join(self.in_words(line) for line in result.value)
        else:
            words = f"failed ({result.error})"
        left = (time.monotonic() - self.started) * (self.estimated / self.done - 1) / 60
        place = f"[{self.ended}/{self.jobs}]"
        print(f"{place} {result.job.name}: {words}  ({left:.0f} min left)", flush=True)


def run_waiting(
    waiting: Sequence[Waiting],
    path: Path,
    workers: int,
    imported_once: tuple[str, ...],
    in_words: Callable[[Line], str],
) -> bool:
    """Run the jobs and store their lines.

    Args:
        waiting: the jobs.
        path: the file of the stored lines.
        workers: number of processes, with one thread each.
        imported_once: modules that are imported before the processes start.
        in_words: returns the text to print for a line.

    Returns:
        Whether all jobs have succeeded.
    """
    progress = Progress(path, waiting, in_words)
    try:
        ended = run_jobs([one.job for one in waiting], workers, progress, imported_once)
    except Interrupted:
        raise SystemExit("stopped; the same command continues") from None
    return not any(result.error for result in ended)


def chosen_rows(design: Iterable[AnyRow], options: argparse.Namespace) -> list[AnyRow]:
    """Return the requested rows of a design, without those whose data is missing."""
    rows = [row for row in design if options.only in row.title]
    if options.cifar is None:
        print("without --cifar: the rows on CIFAR-10 are left out")
        rows = [row for row in rows if not row.data_set.is_cifar]
    files = {row.data_set.file(options.data) for row in rows if not row.data_set.is_cifar}
    missing = sorted(str(file) for file in files if not file.is_file())
    if missing:
        raise SystemExit(f"these files are missing: {', '.join(missing)}")
    if not rows:
        raise SystemExit(f"no row has {options.only!r} in its title")
    return rows


def write_results_page(
    out: Path, name: str, render: Callable[[list[Line]], str], *, must_have: str | None = None
) -> None:
    """Write the page from the stored lines.

    Args:
        out: the directory of the results.
        name: name of the benchmark.
        render: returns the page.
        must_have: the method that must have results for a page to be written.
    """
    path = out / f"{name}.jsonl"
    lines = read_lines(path)
    if not any(must_have in (None, line["method"]) for line in lines):
        raise SystemExit(f"nothing is stored in {path}: run it first")
    page = out / f"{name}.md"
    with atomic_write(page) as unfinished:
        unfinished.write_text(render(lines), encoding="utf-8")
    print(f"written: {page}")


def argument_parser(
    about: str, run: Command, write_page: Command, seeds: Sequence[int]
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Return a parser with the commands `run` and `page`, and the parser of `run`."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run", help="run what is not stored yet, then write the page")
    data = os.environ.get("DISCRIMLOSS_DATA")
    runs.add_argument(
        "--data", type=Path, default=data, required=data is None, help="or DISCRIMLOSS_DATA"
    )
    runs.add_argument("--cifar", type=Path, help="the directory of CIFAR-10 and CIFAR-10N")
    runs.add_argument("--only", default="", metavar="WORD", help="rows with this in their title")
    runs.add_argument("--seeds", type=int, choices=range(1, len(seeds) + 1), default=len(seeds))
    runs.add_argument("--workers", type=int, default=2, help="processes, one thread each")
    runs.set_defaults(command=run)
    writes = commands.add_parser("page", help="write the page from what is stored")
    writes.set_defaults(command=write_page)
    for command in (runs, writes):
        command.add_argument("--out", type=Path, default=RESULTS, help="where the results are")
    return parser, runs


def run_command(parser: argparse.ArgumentParser, name: str, arguments: list[str] | None) -> None:
    """Run a command, unless another one is using the same results."""
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    lock = options.out / f".{name}.lock"
    try:
        with exclusive_lock(lock, f"another program writes the results in {options.out}"):
            options.command(options)
    except LockedError as error:
        raise SystemExit(str(error)) from error


def made_with(lines: Iterable[Line]) -> list[str]:
    """Return a sentence for each set of versions that cells were made with."""
    found = sorted({json.dumps(line["versions"]) for line in lines})
    return [
        f"Made with {', '.join(f'{name} {version}' for name, version in json.loads(text).items())}."
        for text in found
    ]
