"""What a person sees of an audit: a bar while it trains, and at the end what was found."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from discrimloss.auditing.directory import CLEANED, LEFT_OUT, REPORT, VERDICTS_CSV
from discrimloss.cli.displays import TerminalBar
from discrimloss.training.records import Row

LONGEST_CELL = 40


class AuditDisplay(TerminalBar):
    """One bar over all runs; nothing where there is no terminal."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("passed"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._task = self._progress.add_task("reading", total=None)

    def observe(self, run: int, epochs: int) -> _RunObserver:
        """Who watches one of the runs."""
        return _RunObserver(self._progress, self._task, run, self.runs, epochs)


class _RunObserver:
    """Moves the bar of an audit by one run."""

    def __init__(self, progress: Progress, task: Any, run: int, runs: int, epochs: int) -> None:
        self.progress, self.task = progress, task
        self.run, self.runs, self.epochs = run, runs, epochs

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        """Move the bar."""
        if self.progress.disable:
            return
        of_runs = f"run {self.run}/{self.runs}, " if self.runs > 1 else ""
        self.progress.update(
            self.task,
            description=f"{of_runs}epoch {epoch}/{self.epochs}",
            total=float(self.runs * self.epochs),
            completed=(self.run - 1) * self.epochs + epoch - 1 + step / steps,
        )

    def on_epoch(self, row: Row) -> None:
        """The bar says enough."""


def print_audit(summary: dict[str, Any], out: Path) -> None:
    """What was found, the worst of it, and what to do next."""
    console = Console(highlight=False)
    verdicts, samples = summary["verdicts"], summary["samples"]
    figures = Table(title="Audit", title_style="bold", show_header=False)
    figures.add_column("")
    figures.add_column("", justify="right", no_wrap=True)
    for words, value in (
        ("samples", f"{samples:,}"),
        ("wrong labels, estimated", f"{100 * summary['noise_estimated']:.1f} %"),
        ("called incorrect", _counted(verdicts["incorrect"], samples)),
        ("called hard", _counted(verdicts["hard"], samples)),
        ("seconds", f"{summary['seconds']:.0f}"),
    ):
        figures.add_row(words, value)
    console.print(figures)
    if summary["worst"]:
        console.print(_worst_table(summary["worst"]))
    for note in (*_left_out(summary, out), *summary["notes"]):
        console.print(f"Note: {note}", markup=False, soft_wrap=True)
    place = shlex.quote(str(out))
    for line in (
        f"Look at it:   {out / REPORT}",
        f"All samples:  {out / VERDICTS_CSV} (worst first)",
        f"Rows to keep: {out / CLEANED}",
        f"Next: discrimloss review {place}   goes through the suspicious samples, then",
        f"      discrimloss apply {place}    writes the corrected data.",
    ):
        console.print(line, markup=False, soft_wrap=True)


def _counted(number: int, samples: int) -> str:
    return f"{number:,} ({100 * number / max(samples, 1):.1f} %)"


def _worst_table(worst: list[dict[str, Any]]) -> Table:
    table = Table(title=f"The {len(worst)} most suspicious", title_style="bold")
    for heading in ("id", "given label", "suggested label"):
        table.add_column(heading, overflow="fold")
    table.add_column("p incorrect", justify="right", no_wrap=True)
    for row in worst:
        cells = (_shown(row[name]) for name in ("id", "given_label", "suggested_label"))
        table.add_row(*cells, f"{row['p_incorrect']:.3f}")
    return table


def _shown(value: Any) -> Any:
    from rich.text import Text

    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text = " ".join(text.split())
    return Text(text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…")


def _left_out(summary: dict[str, Any], out: Path) -> list[str]:
    if not summary["left_out"]:
        return []
    why = "; ".join(f"{number:,}: {why}" for why, number in summary["left_out_why"].items())
    return [f"{summary['left_out']:,} were not judged ({why}): see {out / LEFT_OUT}"]
