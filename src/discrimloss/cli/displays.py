"""Progress bars and result tables of commands.

Bars are written to standard error, and only if it is a terminal.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text
from typing_extensions import Self

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from discrimloss.training.config import RunConfig
    from discrimloss.tuning.outcome import Outcome
    from discrimloss.tuning.study import Standing

SMOOTHING_SECONDS = 5.0
LONGEST_CELL = 40
IDS_SHOWN = 3
CLASSES_SHOWN = 5


class TerminalBar:
    """A progress bar that is shown while its block runs.

    Args:
        columns: the columns of the bar, from left to right.
    """

    def __init__(self, *columns: str | ProgressColumn) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()


class DownloadBar:
    """A progress bar for downloads. It appears on the first call and disappears with `stop`."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._shown: tuple[Progress, TaskID] | None = None

    def __call__(self, name: str, done: int, total: int | None) -> None:
        """Show the progress of a download.

        Args:
            name: name of the file.
            done: number of bytes that are already downloaded.
            total: size of the whole file in bytes; None if unknown.
        """
        if not self._console.is_terminal:
            return
        if self._shown is None:
            bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            # The rate excludes bytes of an earlier, interrupted download.
            self._shown = bar, bar.add_task(name, total=total, completed=done)
            bar.start()
        bar, task = self._shown
        bar.update(task, description=name, completed=done, total=total)

    def stop(self) -> None:
        """Remove the bar until the next call, so that lines can be printed."""
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None


class TrainDisplay(TerminalBar):
    """A bar over the epochs of a run, with the rate, the time left and the last score."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        super().__init__(
            "epoch {task.fields[epoch]}/{task.fields[epochs]}",
            BarColumn(bar_width=12),  # narrow, so that the whole line fits into 80 columns
            "{task.percentage:>3.0f} %",
            "{task.fields[rate]}",
            "left",
            TimeRemainingColumn(),
            "{task.fields[score]}",
        )
        self._task = self._progress.add_task(
            "train", total=float(epochs), epoch=1, epochs=epochs, rate="", score=""
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
        """Show the score of an epoch, on the test split if there is one."""
        split, score = next(
            (split, row[name])
            for split in ("test", "train")
            for name in (f"{split}_accuracy", f"{split}_mae")
            if name in row
        )
        self._progress.update(
            self._task, completed=float(row["epoch"]), score=f"{split} {score:.2f}"
        )


def print_summary(summary: dict[str, Any], out: Path) -> None:
    """Print the metrics of a run and the directory of its files."""
    console = Console(highlight=False)
    title = f"{summary['recipe']}, {summary['method']}"
    table = Table(title=title, title_style="bold", show_header=False)
    table.add_column("")
    table.add_column("", justify="right", no_wrap=True)
    for name, value in _summary_rows(summary):
        table.add_row(name, value)
    console.print(table)
    for note in summary.get("notes", []):
        console.print(f"Note: {note}", markup=False, soft_wrap=True)
    console.print(f"Results: {out}", markup=False, soft_wrap=True)


def _summary_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the names and values of the metrics of a run."""
    is_regression = summary["metric"] == "mae"
    name, unit = ("mean absolute error", "") if is_regression else ("accuracy", " %")
    test, fit = summary["test"], summary[f"train_{summary['metric']}_noisy"]
    rows = [
        (f"test {name}, last epoch", f"{test['last']:.2f}{unit}"),
        (f"test {name}, best epoch ({test['best_epoch']})", f"{test['best']:.2f}{unit}"),
        (f"train {name} on the given labels", f"{fit:.2f}{unit}"),
    ]
    fractions = {
        "noise_true": "wrong labels, true",
        "noise_estimated": "wrong labels, estimated",
        "precision": "precision of the verdict `incorrect`",
        "recall": "recall of the verdict `incorrect`",
    }
    for key, words in fractions.items():
        if summary.get(key) is not None:
            rows.append((words, f"{100 * summary[key]:.1f} %"))
    for key, words in (("auroc", "AUROC"), ("average_precision", "average precision")):
        if key in summary:
            rows.append((f"{words} of the average loss", f"{summary[key]:.3f}"))
    rows.append(("seconds", f"{summary['seconds']:.0f}"))
    return rows


class TuneDisplay(TerminalBar):
    """A bar over the trials of all workers.

    Args:
        trials: the requested number of trials.
        is_regression: whether the task is a regression. Its scores are negated errors.
    """

    def __init__(self, trials: int, is_regression: bool) -> None:
        self.is_regression = is_regression
        self.settled = 0
        super().__init__(
            "{task.completed:.0f}/{task.total:.0f} trials",
            BarColumn(bar_width=12),
            "{task.fields[ended]}",
            "left",
            TimeRemainingColumn(),
            "{task.fields[best]}",
        )
        self._task = self._progress.add_task("tune", total=trials, ended="", best="")

    def show(self, now: Standing) -> None:
        """Show the progress of the study."""
        self.settled = now.settled
        ended = f"{now.pruned} pruned, {now.failed} failed"
        best = ""
        if now.best is not None and now.best.value is not None:
            best = f"best {-now.best.value if self.is_regression else now.best.value:.2f}"
        self._progress.update(self._task, completed=now.settled, ended=ended, best=best)


def print_outcome(
    outcome: Outcome, config: RunConfig, files: Mapping[str, Path], train: str
) -> None:
    """Print the trials with the best validation and test scores, and the paths of the files."""
    from optuna.trial import TrialState

    console = Console(highlight=False)
    table = Table(title=f"{config.recipe}, {config.method}", title_style="bold")
    unit = "" if outcome.is_regression else ", %"
    table.add_column(f"{outcome.metric}{unit}", no_wrap=True)
    table.add_column("trial", justify="right")
    table.add_column("noisy validation", justify="right")
    table.add_column("clean test", justify="right")
    for name, trial in (
        ("recipe as it is", outcome.as_it_is),
        ("best by noisy validation", outcome.best),
        ("best by clean test (oracle)", outcome.oracle),
    ):
        if trial is not None:
            table.add_row(name, *_trial_cells(outcome, trial))
    console.print(table)
    states = [trial.state for trial in outcome.trials]
    counts = (
        f"{states.count(TrialState.COMPLETE)} trials complete, "
        f"{states.count(TrialState.PRUNED)} pruned, {states.count(TrialState.FAIL)} failed"
    )
    console.print(counts)
    if outcome.rank_correlation is not None:
        console.print(f"Rank correlation of validation and test: {outcome.rank_correlation:.2f}")
    for key, value in outcome.best_settings().items():
        console.print(f"  {key} = {value}", markup=False, soft_wrap=True)
    for name, path in files.items():
        console.print(f"{name}: {path}", markup=False, soft_wrap=True)
    console.print(f"Train it: {train}", markup=False, soft_wrap=True)


def _trial_cells(outcome: Outcome, trial: FrozenTrial) -> tuple[str, str, str]:
    """Return a trial's number, its validation score and its test score."""
    from discrimloss.tuning.study import TEST

    test = trial.user_attrs.get(TEST)
    validation = outcome.validation(trial.value)
    return str(trial.number), f"{validation:.2f}", "" if test is None else f"{test:.2f}"


def print_audit(summary: dict[str, Any], out: Path) -> None:
    """Print the results of an audit, the most suspicious samples, and the next commands."""
    from discrimloss.auditing.directory import (
        CLEANED,
        HEALTH,
        LEFT_OUT,
        REPORT,
        VERDICTS_CSV,
    )
    from discrimloss.auditing.health.data_health import HEALTHY
    from discrimloss.auditing.report.wording import (
        columns_text,
        counted_percent,
        duration,
        rate_text,
    )

    console = Console(highlight=False)
    verdicts, samples = summary["verdicts"], summary["samples"]
    undecided = verdicts.get("undecided", 0)
    noise = rate_text(summary["noise_estimated"], summary.get("noise_interval"))
    values = Table(title="Audit", title_style="bold", show_header=False)
    values.add_column("")
    values.add_column("", justify="right", no_wrap=True)
    for words, value in (
        ("samples", f"{samples:,}"),
        (f"wrong labels, {'given' if 'noise_given' in summary else 'estimated'}", _plain(noise)),
        ("called incorrect", _plain(counted_percent(verdicts["incorrect"], samples))),
        ("undecided, wrong or hard", _plain(counted_percent(undecided, samples))),
        ("called hard", _plain(counted_percent(verdicts["hard"], samples))),
        ("time", duration(float(summary["seconds"]))),
    ):
        values.add_row(words, value)
    console.print(values)
    if "model" in summary:
        console.print(f"Predicted by: {summary['model']}", markup=False, soft_wrap=True)
    if summary.get("learned_from"):
        learned_from = columns_text(summary["learned_from"])
        console.print(f"Learned from: {learned_from}", markup=False, soft_wrap=True)
    if summary["worst"]:
        console.print(_worst_table(summary["worst"]))
    if noisy := _noisy_classes(summary):
        console.print(_class_table(noisy))
    warnings = summary.get("warnings", [])
    for warning in warnings:
        console.print(f"WARNING: {warning}", markup=False, soft_wrap=True, style="bold red")
    if summary.get("health"):
        console.print(_health_table(summary["health"]))
    elif "health" in summary:
        console.print(f"Health of the data: {HEALTHY}", markup=False)
    for note in summary["notes"]:
        if note not in warnings:
            console.print(f"Note: {note}", markup=False, soft_wrap=True)
    place = shlex.quote(str(out))
    for line in (
        f"Report:       {out / REPORT}",
        f"All samples:  {out / VERDICTS_CSV} (most suspicious first)",
        f"Rows to keep: {out / CLEANED}",
        *([f"Left out:     {out / LEFT_OUT}"] if summary["left_out"] else []),
        *([f"Problems:     {out / HEALTH} (their samples)"] if summary.get("health") else []),
        f"Next: discrimloss review {place}   shows the suspicious samples, then",
        f"      discrimloss apply {place}    writes the corrected data.",
    ):
        console.print(line, markup=False, soft_wrap=True)


def _plain(text: str) -> str:
    """Replace no-break spaces, which some terminals cannot show."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


def _worst_table(worst: list[dict[str, Any]]) -> Table:
    table = Table(title=f"The {len(worst)} most suspicious", title_style="bold")
    for heading in ("id", "given label", "suggested label"):
        table.add_column(heading, overflow="fold")
    table.add_column("p incorrect", justify="right", no_wrap=True)
    for row in worst:
        cells = (_shown(row[name]) for name in ("id", "given_label", "suggested_label"))
        table.add_row(*cells, f"{row['p_incorrect']:.3f}")
    return table


def _noisy_classes(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the classes with the most wrong labels, without classes that have none."""
    found = [
        one
        for one in summary.get("class_noise", [])
        if one["samples"] * one["noise_estimated"] >= 1.0
    ]
    found.sort(key=lambda one: -one["samples"] * one["noise_estimated"])
    return found[:CLASSES_SHOWN]


def _class_table(classes: list[dict[str, Any]]) -> Table:
    from discrimloss.auditing.report.wording import rate_text

    table = Table(title="Classes with the most wrong labels", title_style="bold")
    table.add_column("given label", overflow="fold")
    table.add_column("samples", justify="right", no_wrap=True)
    table.add_column("wrong, estimated", justify="right", no_wrap=True)
    for one in classes:
        rate = _plain(rate_text(one["noise_estimated"], one["noise_interval"]))
        table.add_row(_shown(one["class"]), f"{one['samples']:,}", rate)
    return table


def _health_table(entries: list[dict[str, Any]]) -> Table:
    table = Table(title="Health of the data", title_style="bold")
    table.add_column("problem")
    table.add_column("samples", justify="right", no_wrap=True)
    table.add_column("what was found", overflow="fold")
    for entry in entries:
        named = ", ".join(entry["ids"][:IDS_SHOWN])
        ids = f" Samples {named}{' …' if entry['samples'] > IDS_SHOWN else '.'}" if named else ""
        table.add_row(
            Text(entry["title"]), f"{entry['samples']:,}", Text(f"{entry['detail']}{ids}")
        )
    return table


def _shown(value: Any) -> Text:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text = " ".join(text.split())
    return Text(text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…")
