"""`discrimloss demo`: find wrong labels in handwritten digits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from discrimloss.cli.errors import CommandError
from discrimloss.cli.failures import if_stopped
from discrimloss.cli.output_directory import OutputDirectory
from discrimloss.errors import needs_extra

if TYPE_CHECKING:
    from discrimloss.demo.digits import NoisyDigits

COMMAND = "discrimloss demo"
HIGHEST_NOISE = 0.9  # of ten labels: beyond it, a wrong label is likelier than each other one
HIGHEST_SEED = 2**32 - 1


def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the results go: a new directory.")
    ] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(metavar="N", help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(metavar="N", help="How many seeds, 1 or more.")] = 5,
    noise: Annotated[
        float, typer.Option(metavar="RATE", help="Share of wrong labels, from 0 to 0.9.")
    ] = 0.4,
    epochs: Annotated[
        int, typer.Option(metavar="N", help="Length of each training, 2 or more.")
    ] = 40,
    audit: Annotated[
        bool, typer.Option("--audit/--no-audit", help="Whether to end with an audit of the digits.")
    ] = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the results of an earlier demo.")
    ] = False,
) -> None:
    """Find wrong labels in handwritten digits, in about a minute.

    Trains a small network with cross-entropy and with DiscrimLoss on the same digits, some of
    whose labels were made wrong, and compares what each has learned. Writes a picture of the most
    suspicious digits (suspicious.png), what DiscrimLoss says of every label (verdicts.csv), and
    all figures (table.md, summary.json). Then audits the same digits (digits.npz) as a person would
    their own data: audit/report.html is the page to look at.
    """
    try:
        _check_options(seed, seeds, noise, epochs)
        output = OutputDirectory(out, COMMAND, overwrite)
        output.check()
        digits = _run(output, seed, seeds, noise, epochs)
        if audit:
            _audit(digits, output.path, overwrite)
    except KeyboardInterrupt:
        raise CommandError("stopped; nothing was written", exit_code=130) from None


def _check_options(seed: int, seeds: int, noise: float, epochs: int) -> None:
    if not 0 <= seed <= HIGHEST_SEED:
        raise CommandError(f"--seed must be a number from 0 to {HIGHEST_SEED}, not {seed}")
    if seeds < 1:
        raise CommandError(f"--seeds must be 1 or more, not {seeds}")
    if not 0 <= noise <= HIGHEST_NOISE:
        raise CommandError(f"--noise must be a share from 0 to {HIGHEST_NOISE}, not {noise}")
    if epochs < 2:
        raise CommandError(f"--epochs must be 2 or more, not {epochs}")


def _run(output: OutputDirectory, seed: int, seeds: int, noise: float, epochs: int) -> NoisyDigits:
    try:  # late: --help and bad options should not wait for, or need, what only the demo needs
        from discrimloss.demo.experiment import run_experiment
        from discrimloss.demo.results import PICTURE, table_head, table_rows, title, write_results
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("matplotlib", "sklearn"):
            raise
        raise CommandError("the demo needs an extra: pip install 'discrimloss[demo]'") from error

    command = f"{COMMAND} --noise {noise} --epochs {epochs} --seed {seed} --seeds {seeds}"
    progress = _progress_bar()
    with progress:
        task = progress.add_task("training", total=2 * seeds * epochs)
        experiment = run_experiment(
            noise, epochs, range(seed, seed + seeds), on_epoch=lambda: progress.advance(task)
        )
    output.publish(lambda directory: write_results(experiment, command, directory))

    table = Table(title=title(experiment), title_style="bold")
    first, *others = table_head(experiment)
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in table_rows(experiment):
        table.add_row(*row)
    console = Console(highlight=False)
    console.print(table)
    for line in (
        f"Picture: {output.path / PICTURE}",
        "Next: wrap your own data in IndexedDataset and pass its losses to DiscrimLoss (README).",
    ):
        console.print(line, markup=False, soft_wrap=True)
    return experiment.first.digits


@needs_extra("audit", "the audit of the demo")
def _audit(digits: NoisyDigits, directory: Path, overwrite: bool) -> None:
    from discrimloss.cli.audit_display import print_audit
    from discrimloss.demo.audit import AUDIT, audit_digits

    results = f"the results of the demo are in {directory}, its audit is not finished"
    with if_stopped(lambda stopped: f"stopped; {results}"):
        summary = audit_digits(digits, directory, overwrite)
    print_audit(summary, directory / AUDIT)


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
