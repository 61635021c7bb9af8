"""`discrimloss demo`: train on wrong labels, and find them in images and texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from discrimloss.cli.failures import if_stopped
from discrimloss.cli.output_directory import OutputDirectory
from discrimloss.errors import DiscrimLossError, needs_extra

if TYPE_CHECKING:
    from discrimloss.demo.experiment import Experiment, NoisyDigits

COMMAND = "discrimloss demo"
HIGHEST_NOISE = 0.9  # with ten classes: above it, the true class is the least likely label
HIGHEST_SEED = 2**32 - 1


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="New directory for the results.")] = Path(
        "runs/demo"
    ),
    seed: Annotated[int, typer.Option(metavar="N", help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(metavar="N", help="Number of seeds, 1 or more.")] = 5,
    noise: Annotated[
        float, typer.Option(metavar="RATE", help="Fraction of wrong labels, from 0 to 0.9.")
    ] = 0.4,
    epochs: Annotated[int, typer.Option(metavar="N", help="Number of epochs, 2 or more.")] = 40,
    audit: Annotated[
        bool, typer.Option("--audit/--no-audit", help="Whether to audit the digits and texts.")
    ] = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the results of an earlier demo.")
    ] = False,
) -> None:
    """Train on wrong labels and find them, in about a minute.

    The demo trains a small network on handwritten digits, some of which have wrong labels, with
    cross-entropy and with DiscrimLoss, and compares both. It writes an image of the most suspicious
    digits (suspicious.png), the verdicts of DiscrimLoss (verdicts.csv), and all values (table.md,
    summary.json).

    It then audits the digits as images (digits.npz), and docstrings of installed libraries as texts
    (docstrings.csv), and compares the verdicts with the labels that were made wrong. Open
    audit-images/report.html and audit-texts/report.html.
    """
    _check_options(seed, seeds, noise, epochs)
    output = OutputDirectory(out, COMMAND, overwrite)
    output.check()
    with if_stopped(lambda _: "stopped; nothing was written"):
        experiment = _run(output, seed, seeds, noise, epochs)
    _print(experiment, output.path)
    if audit:
        _audit(experiment.first.digits, seed, output.path, overwrite)


def _check_options(seed: int, seeds: int, noise: float, epochs: int) -> None:
    if not 0 <= seed <= HIGHEST_SEED:
        raise DiscrimLossError(f"--seed must be a number from 0 to {HIGHEST_SEED}, not {seed}")
    if seeds < 1:
        raise DiscrimLossError(f"--seeds must be 1 or more, not {seeds}")
    if not 0 <= noise <= HIGHEST_NOISE:
        raise DiscrimLossError(f"--noise must be a fraction from 0 to {HIGHEST_NOISE}, not {noise}")
    if epochs < 2:
        raise DiscrimLossError(f"--epochs must be 2 or more, not {epochs}")


def _run(output: OutputDirectory, seed: int, seeds: int, noise: float, epochs: int) -> Experiment:
    with needs_extra("demo", "the demo"):  # here, so that --help is fast and needs no extra
        import sklearn.datasets  # noqa: F401

        from discrimloss.demo.experiment import METHODS, run_experiment
        from discrimloss.demo.results import write_results

    command = f"{COMMAND} --noise {noise} --epochs {epochs} --seed {seed} --seeds {seeds}"
    progress = _progress_bar()
    with progress:
        task = progress.add_task("training", total=len(METHODS) * seeds)
        experiment = run_experiment(
            noise, epochs, range(seed, seed + seeds), on_run=lambda: progress.advance(task)
        )
    output.publish(lambda directory: write_results(experiment, command, directory))
    return experiment


def _print(experiment: Experiment, directory: Path) -> None:
    from discrimloss.demo.results import PICTURE, table_head, table_rows, title

    heading = f"Training. {title(experiment)}"
    _print_table(heading, table_head(experiment), table_rows(experiment))
    _print_line(f"Picture: {directory / PICTURE}")


@needs_extra("audit", "the audits of the demo")
def _audit(digits: NoisyDigits, seed: int, directory: Path, overwrite: bool) -> None:
    from discrimloss.demo.audits import audit_digits, audit_docstrings, audit_rows

    unfinished = f"stopped; the results of the demo are in {directory}, but an audit is unfinished"
    with if_stopped(lambda _: unfinished):
        scores = [
            audit_digits(digits, directory, overwrite),
            audit_docstrings(directory, seed, overwrite),
        ]
    heading = "Audits: which labels are wrong?"
    _print_table(heading, ("", *(score.title for score in scores)), audit_rows(scores))
    for score in scores:
        _print_line(f"Report: {score.directory / 'report.html'}")
    _print_line(f"Next: discrimloss review {scores[-1].directory}")


def _print_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(title=title, title_style="bold")
    table.add_column(head[0])
    for heading in head[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table)


def _print_line(line: str) -> None:
    Console(highlight=False).print(line, markup=False, soft_wrap=True)


def _progress_bar() -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
