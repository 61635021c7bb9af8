"""`discrimloss apply`: write the corrected data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discrimloss.cli.errors import CommandError
from discrimloss.cli.opened_audit import AuditArgument, told_in_a_sentence

if TYPE_CHECKING:
    from discrimloss.auditing.apply import Applied


def apply(
    directory: AuditArgument,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the result goes. [default: DIR/corrected]"),
    ] = None,
    accept_suggestions: Annotated[
        float | None,
        typer.Option(
            metavar="MIN_P",
            help="Also take the suggested label where p_incorrect is at least this, and nobody "
            "looked.",
        ),
    ] = None,
    drop_incorrect: Annotated[
        bool,
        typer.Option(
            "--drop-incorrect", help="Also drop what is called incorrect, where nobody looked."
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier result.")
    ] = False,
) -> None:
    """Write the audited data once more, with all that was decided in the review.

    The result has the format of the source, which is never touched; changes.csv beside it lists
    every change: what, from which label to which, who decided, and when. It is written whole or
    not at all.
    """
    if accept_suggestions is not None and not 0 <= accept_suggestions <= 1:
        raise CommandError(
            f"--accept-suggestions must be a probability from 0 to 1, not {accept_suggestions}"
        )
    with told_in_a_sentence():
        from discrimloss.auditing.apply import Automatic, apply_decisions
        from discrimloss.auditing.directory import AuditDirectory

        automatic = Automatic(accept_suggestions, drop_incorrect)
        try:
            applied = apply_decisions(
                AuditDirectory(directory), out, automatic, overwrite=overwrite
            )
        except KeyboardInterrupt:
            raise CommandError("stopped; nothing was written", exit_code=130) from None
    _print(applied)


def _print(applied: Applied) -> None:
    typer.echo(
        f"{applied.relabelled} relabelled, {applied.dropped} dropped, {applied.kept} looked at and "
        "kept."
    )
    if applied.undecided:
        typer.echo(
            f"{applied.undecided} more are called incorrect; nobody decided on them: they are as "
            "they were."
        )
    for path in applied.written:
        typer.echo(f"Corrected data: {path}")
    if applied.note:
        typer.echo(applied.note)
    typer.echo(f"Every change:   {applied.log}")
