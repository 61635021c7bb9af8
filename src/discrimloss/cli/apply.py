"""`discrimloss apply`: write the corrected data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discrimloss.cli.failures import if_stopped
from discrimloss.cli.review import AuditArgument
from discrimloss.errors import DiscrimLossError, needs_extra

if TYPE_CHECKING:
    from discrimloss.auditing.apply import Applied


@needs_extra("audit", "corrected data")
def apply(
    directory: AuditArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="New directory, or a file with the ending of the source. [default: DIR/corrected]",
        ),
    ] = None,
    accept_suggestions: Annotated[
        float | None,
        typer.Option(
            metavar="MIN_P",
            help="Also accept the suggested label of samples that were not reviewed, if their "
            "p_incorrect is at least this.",
        ),
    ] = None,
    drop_incorrect: Annotated[
        bool,
        typer.Option(
            "--drop-incorrect", help="Also drop incorrect samples that were not reviewed."
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier result.")
    ] = False,
) -> None:
    """Write the corrected data with all decisions of the review.

    The result has the format of the source. A file changes.csv next to it lists every decision with
    its labels, reason and time. The source itself does not change.
    """
    from discrimloss.auditing.apply import Automatic
    from discrimloss.auditing.result import AuditResult

    try:
        Automatic(accept_suggestions, drop_incorrect)
    except ValueError as error:
        raise DiscrimLossError(f"--{error}".replace("_", "-", 1)) from error
    with if_stopped(lambda stopped: f"{stopped}; nothing was written"):
        applied = AuditResult.load(directory).apply(
            out,
            accept_suggestions=accept_suggestions,
            drop_incorrect=drop_incorrect,
            overwrite=overwrite,
        )
    _print(applied)


def _print(applied: Applied) -> None:
    typer.echo(
        f"{applied.relabelled} relabelled, {applied.dropped} dropped, {applied.kept} reviewed and "
        "kept."
    )
    if applied.undecided:
        typer.echo(
            f"{applied.undecided} more are called incorrect without a decision: they stay as they "
            "were."
        )
    if applied.disagreements:
        typer.echo(
            f"Reviewers disagree on {applied.disagreements}: the last decision counts. See the "
            "column disagreement of changes.csv."
        )
    for path in applied.written:
        typer.echo(f"Corrected data: {path}")
    if applied.note:
        typer.echo(applied.note)
    if applied.log:
        typer.echo(f"Every change:   {applied.log}")
