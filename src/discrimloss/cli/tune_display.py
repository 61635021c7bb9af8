"""What a person sees of a search: a bar while it goes, a table at the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from discrimloss.cli.terminal_bar import TerminalBar
from discrimloss.training.config import RunConfig
from discrimloss.tuning.outcome import Outcome
from discrimloss.tuning.study import TEST, Standing


class TuneDisplay(TerminalBar):
    """A progress bar over the trials of all workers; nothing where there is no terminal.

    Args:
        trials: how many are wanted.
        is_regression: whether a score is an error with a minus.
    """

    def __init__(self, trials: int, is_regression: bool) -> None:
        self.is_regression = is_regression
        self.settled = 0
        super().__init__(
            TextColumn("{task.completed:.0f}/{task.total:.0f} trials"),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[ended]}"),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[best]}"),
        )
        self._task = self._progress.add_task("tune", total=trials, ended="", best="")

    def show(self, now: Standing) -> None:
        """Show how far the study is."""
        self.settled = now.settled
        ended = f"{now.pruned} pruned, {now.failed} failed"
        best = ""
        if now.best is not None and now.best.value is not None:
            best = f"best {-now.best.value if self.is_regression else now.best.value:.2f}"
        self._progress.update(self._task, completed=now.settled, ended=ended, best=best)


def print_outcome(
    outcome: Outcome, config: RunConfig, files: Mapping[str, Path], train: str
) -> None:
    """What was found, how an oracle sees it, and where the rest is."""
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
            table.add_row(name, *figures_of(outcome, trial))
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


def figures_of(outcome: Outcome, trial: FrozenTrial) -> tuple[str, str, str]:
    """A trial's number, its validation figure and its test figure."""
    test = trial.user_attrs.get(TEST)
    validation = outcome.validation(trial.value)
    return str(trial.number), f"{validation:.2f}", "" if test is None else f"{test:.2f}"
