"""What a person sees of a run: a bar while it goes, a table at the end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from discrimloss.cli.terminal_bar import TerminalBar

SMOOTHING_SECONDS = 5.0


class TrainDisplay(TerminalBar):
    """A progress bar with the rate and the time left; nothing where there is no terminal."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        super().__init__(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(bar_width=12),  # all of it fits into 80 columns
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[rate]}"),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
        )
        self._task = self._progress.add_task(
            "train", total=float(epochs), epoch=1, epochs=epochs, rate="", figures=""
        )
        self._samples = 0
        self._since = time.monotonic()

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        """Move the bar."""
        if self._progress.disable:
            return
        self._samples += samples
        done = epoch - 1 + step / steps
        now = time.monotonic()
        passed = now - self._since
        if passed < 0.2 and step < steps:
            return
        rate = f"{self._samples / passed:,.0f} samples/s" if passed > 0 else ""
        self._progress.update(self._task, completed=done, epoch=epoch, rate=rate)
        if passed > SMOOTHING_SECONDS:
            self._samples, self._since = 0, now

    def on_epoch(self, row: dict[str, Any]) -> None:
        """Show the figures of an epoch."""
        shown = next(name for part in ("test", "train") for name in row if _is_score(name, part))
        figures = f"{shown.partition('_')[0]} {row[shown]:.2f}"
        self._progress.update(self._task, completed=float(row["epoch"]), figures=figures)


def _is_score(name: str, part: str) -> bool:
    return name in (f"{part}_accuracy", f"{part}_mae")


def print_summary(summary: dict[str, Any], out: Path) -> None:
    """The figures of a run, as a table, and where the rest is."""
    console = Console(highlight=False)
    title = f"{summary['recipe']}, {summary['method']}"
    table = Table(title=title, title_style="bold", show_header=False)
    table.add_column("")
    table.add_column("", justify="right", no_wrap=True)
    for name, value in summary_rows(summary):
        table.add_row(name, value)
    console.print(table)
    for note in summary.get("notes", []):
        console.print(f"Note: {note}", markup=False, soft_wrap=True)
    console.print(f"Results: {out}", markup=False, soft_wrap=True)


def summary_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """What to show of a summary, in words."""
    is_regression = summary["metric"] == "mae"
    name, unit = ("mean absolute error", "") if is_regression else ("accuracy", " %")
    test, fit = summary["test"], summary[f"train_{summary['metric']}_noisy"]
    rows = [
        (f"test {name}, last epoch", f"{test['last']:.2f}{unit}"),
        (f"test {name}, best epoch ({test['best_epoch']})", f"{test['best']:.2f}{unit}"),
        (f"train {name} on the given labels", f"{fit:.2f}{unit}"),
    ]
    shares = {
        "noise_true": "wrong labels, true",
        "noise_estimated": "wrong labels, estimated",
        "precision": "precision of the verdict `incorrect`",
        "recall": "recall of the verdict `incorrect`",
    }
    for key, words in shares.items():
        if summary.get(key) is not None:
            rows.append((words, f"{100 * summary[key]:.1f} %"))
    for key, words in (("auroc", "AUROC"), ("average_precision", "average precision")):
        if key in summary:
            rows.append((f"{words} of the average loss", f"{summary[key]:.3f}"))
    rows.append(("seconds", f"{summary['seconds']:.0f}"))
    return rows
