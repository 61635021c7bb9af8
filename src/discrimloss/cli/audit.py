"""`discrimloss audit`: find wrong labels."""

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
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory for the results.")],
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
            "columns that neither identify rows nor leak the label]",
        ),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            metavar="NAME_OR_SQL",
            help="Table or query (SELECT ...) of a database, or sheet of a workbook.",
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
            help="A pretrained encoder of texts or images: a folder, package:NAME, a name on "
            "the hub, auto, or none. auto may download one from the hub. [default: an encoder that "
            "is installed or in the hub's cache]",
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="auto|network",
            help="Simple models that suit the data, or a network trained with DiscrimLoss.",
        ),
    ] = "auto",
    runs: Annotated[
        int,
        typer.Option(metavar="N", help="Number of cross-validations or training runs to average."),
    ] = 1,
    epochs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Epochs of each training run. Implies --model network."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the first run.")] = 0,
    threads: Annotated[
        int, typer.Option(metavar="N", help="Number of CPU threads. 0 leaves the choice to torch.")
    ] = 0,
    noise_rate: Annotated[
        float | None,
        typer.Option(
            metavar="FRACTION",
            help="The fraction of wrong labels, such as 0.15, if you know it, for instance because "
            "you checked 100 random labels. [default: estimated]",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a stopped audit.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier audit in this directory.")
    ] = False,
) -> None:
    """Find the wrong labels in your data.

    \b
    discrimloss audit reviews.csv --label stars --out audit
    discrimloss audit photos/ --out audit

    Labels are compared with cross-validated predictions of simple models. For images without an
    encoder, for regression targets of texts or images, and for very many classes, a network is
    trained once instead. No clean labels, noise rate or hyperparameters are needed.

    Open report.html in the --out directory first. verdicts.csv lists every sample, the most
    suspicious first. cleaned.csv lists the samples to keep, left_out.csv the rows that could not be
    audited. summary.json has the metrics.

    Then `discrimloss review DIR` opens a page to correct labels, and `discrimloss apply DIR`
    writes the corrected data. Ctrl-C stops an audit, and --resume continues it. In Python,
    `discrimloss.audit` does the same for data in memory.
    """
    from discrimloss.auditing.directory import AuditDirectory
    from discrimloss.auditing.request import AuditSettings, command_line
    from discrimloss.auditing.run import assist_audit, run_audit
    from discrimloss.auditing.sources.base import SourceOptions
    from discrimloss.auditing.sources.open_source import absolute, open_source
    from discrimloss.cli.displays import print_audit
    from discrimloss.training.processes import joined_processes

    if resume and overwrite:
        raise DiscrimLossError(
            "--resume continues and --overwrite starts over: pass only one of them"
        )
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
    directory = AuditDirectory(out)

    def advice(stopped: str) -> str:
        # While the earlier audit is there, nothing of the new one is.
        way_on = "--overwrite" if overwrite and directory.is_finished else "--resume"
        return f"{stopped}; continue with: {command_line(options, settings, directory)} {way_on}"

    with if_stopped(advice), joined_processes():
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
