"""`discrimloss audit`: which labels are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discrimloss.cli.failures import if_stopped
from discrimloss.errors import DiscrimLossError, is_first_process, needs_extra


@needs_extra("audit", "an audit")
def audit(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder of images, a table (CSV, Excel, Parquet, Feather, JSON, SQLite, the URL "
            "of a database), features (.npz, .npy), or a dataset saved to disk.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the results go.")],
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column, array or file with the labels.")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with the texts. [default: detected]"),
    ] = None,
    image: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column with the paths of images.")
    ] = None,
    id: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column with the ids of the samples.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="A column of a table to learn from; repeat it for several. [default: all "
            "but those that identify rows or give the label away]",
        ),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            metavar="NAME_OR_SQL",
            help="A table or query (SELECT ...) of a database, or a sheet of a workbook.",
        ),
    ] = None,
    regression: Annotated[
        bool | None,
        typer.Option(
            "--regression/--no-regression",
            help="Whether labels are regression targets, or classes. [default: detected]",
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="PATH_OR_NAME",
            help="A pretrained encoder of texts or images: a folder, package:NAME, its name on "
            "the hub, auto, or none. [default: one that is installed or in the hub's cache; auto "
            "also asks the hub]",
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="auto|network",
            help="The best simple models for the kind of data, or a network trained with "
            "DiscrimLoss.",
        ),
    ] = "auto",
    runs: Annotated[int, typer.Option(metavar="N", help="How many runs to combine.")] = 1,
    epochs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Length of each training run; selects the network."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the first run.")] = 0,
    threads: Annotated[
        int, typer.Option(metavar="N", help="CPU threads; 0 leaves the choice to torch.")
    ] = 0,
    noise_rate: Annotated[
        float | None,
        typer.Option(
            metavar="FRACTION",
            help="The fraction of wrong labels, such as 0.15, if you know it: for instance because "
            "you checked 100 random labels. [default: estimated]",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an audit that was stopped.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier audit in the same place.")
    ] = False,
) -> None:
    """Find the wrong labels of your data.

    Labels are compared with cross-validated predictions of simple models. Images without an
    encoder, regression targets of texts or images, and labels of very many classes are compared
    with a network that is trained once.

    It needs no clean labels, no noise rate and no hyperparameters. The directory gets
    verdicts.csv and verdicts.parquet (every sample, worst first), cleaned.csv (what to keep),
    left_out.csv (what could not be audited, and why), report.html (a page to look at) and
    summary.json.

    Ctrl-C stops between two steps; --resume continues from there. Then `discrimloss review DIR`
    goes through the suspicious samples, and `discrimloss apply DIR` writes the corrected data.
    From Python, `discrimloss.audit` does the same for data in memory.
    """
    from discrimloss.auditing.directory import AuditDirectory
    from discrimloss.auditing.request import AuditSettings, command_line
    from discrimloss.auditing.run import assist_audit, run_audit
    from discrimloss.auditing.sources.base import SourceOptions
    from discrimloss.auditing.sources.open_source import absolute, open_source
    from discrimloss.cli.displays import print_audit
    from discrimloss.training.processes import joined_processes

    if resume and overwrite:
        raise DiscrimLossError("--resume continues, --overwrite starts over: pass only one of them")
    try:
        settings = AuditSettings(runs, epochs, seed, threads, model, noise_rate)
    except ValueError as error:
        raise DiscrimLossError(f"--{error}".replace("noise_rate", "noise-rate")) from error
    options = SourceOptions(
        absolute(source),
        label,
        text,
        image,
        id,
        regression,
        encoder,
        tuple(columns) if columns else None,
        query,
    )
    go_on = f"continue with: {command_line(options, settings, AuditDirectory(out))} --resume"
    with if_stopped(lambda stopped: f"{stopped}; {go_on}"), joined_processes():
        if not is_first_process():
            assist_audit(lambda cache: open_source(options, cache), options, settings)
            return
        result = run_audit(
            lambda cache: open_source(options, cache),
            options,
            settings,
            out=out,
            resume=resume,
            overwrite=overwrite,
            progress=True,
        )
    print_audit(result.summary, out)
