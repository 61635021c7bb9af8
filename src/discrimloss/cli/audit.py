"""`discrimloss audit`: which labels are wrong."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discrimloss.cli.errors import CommandError, needs_extra
from discrimloss.errors import DiscrimLossError

if TYPE_CHECKING:
    from discrimloss.auditing.run import AuditRequest

NEEDS = (
    "accelerate",
    "datasets",
    "jinja2",
    "pandas",
    "PIL",
    "plotly",
    "pyarrow",
    "safetensors",
    "sklearn",
    "tomlkit",
    "transformers",
)


def audit(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="A folder of images, a table (CSV, Parquet, JSONL), features (.npz, .npy), or a "
            "dataset saved to disk.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the results go.")],
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Which column, array or file: the labels.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Which column: the texts.")
    ] = None,
    image: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Which column: the paths of images.")
    ] = None,
    id: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Which column: the samples' names.")
    ] = None,
    regression: Annotated[
        bool | None,
        typer.Option(
            "--regression/--no-regression",
            help="Whether labels are numbers to predict, or classes. [default: as they look]",
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="PATH_OR_NAME",
            help="A pretrained encoder of texts or images: a folder, package:NAME, or its name on "
            "the hub.",
        ),
    ] = None,
    runs: Annotated[int, typer.Option(metavar="N", help="How many training runs to combine.")] = 1,
    epochs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Length of each run. [default: fits the number of samples]"),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the first run.")] = 0,
    threads: Annotated[
        int, typer.Option(metavar="N", help="CPU threads; 0 leaves the choice to torch.")
    ] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an audit that was stopped.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier audit in the same place.")
    ] = False,
) -> None:
    """Find the wrong labels of your data, from one training run.

    No clean labels are needed, no noise rate and no hyperparameters. The directory gets
    verdicts.csv and verdicts.parquet (every sample, worst first), cleaned.csv (what to keep),
    left_out.csv (what could not be judged, and why), report.html (a page to look at) and
    summary.json (the figures).

    Ctrl-C stops between two steps; --resume goes on from there. Then `discrimloss review DIR`
    goes through the suspicious samples, and `discrimloss apply DIR` writes the corrected data.
    """
    if resume and overwrite:
        raise CommandError("--resume goes on and --overwrite starts anew: give one of them")
    if epochs is not None and epochs < 2:
        raise CommandError(f"--epochs must be 2 or more, not {epochs}")
    if not 0 <= seed < 2**31:
        raise CommandError(f"--seed must be a number from 0 to {2**31 - 1}, not {seed}")
    if threads < 0:
        raise CommandError(f"--threads must be 0 or more, not {threads}")
    given: dict[str, Any] = {
        "label": label,
        "text": text,
        "image": image,
        "id": id,
        "encoder": encoder,
    }
    try:
        from discrimloss.auditing.run import AuditRequest
        from discrimloss.auditing.sources.base import SourceOptions
    except ModuleNotFoundError as error:
        raise audit_needs_extra(error) from error
    command = ["discrimloss", "audit", str(source), "--out", str(out)]
    for name, value in (*given.items(), ("epochs", epochs)):
        command += [] if value is None else [f"--{name}", str(value)]
    if regression is not None:
        command.append("--regression" if regression else "--no-regression")
    command += [] if runs == 1 else ["--runs", str(runs)]
    command += [] if seed == 0 else ["--seed", str(seed)]
    request = AuditRequest(
        SourceOptions(path=str(source.absolute()), regression=regression, **given),
        out,
        runs=runs,
        seed=seed,
        epochs=epochs,
        threads=threads,
        resume=resume,
        overwrite=overwrite,
        command=shlex.join(command),
    )
    _run(request)


def audit_needs_extra(error: ModuleNotFoundError) -> Exception:
    """The sentence for a library that is not installed; any other error as it is."""
    return needs_extra(error, NEEDS, "an audit", "audit")


def _run(request: AuditRequest) -> None:
    try:  # late: --help and a wrong option should not wait for it
        from discrimloss.auditing.run import run_audit
        from discrimloss.cli.audit_display import AuditDisplay, print_audit
        from discrimloss.training.interruption import Interrupted
    except ModuleNotFoundError as error:
        raise audit_needs_extra(error) from error

    display = AuditDisplay(request.runs)
    try:
        with display:
            summary = run_audit(request, display.observe)
    except DiscrimLossError as error:
        raise CommandError(str(error)) from error
    except ModuleNotFoundError as error:
        raise audit_needs_extra(error) from error
    except KeyboardInterrupt:
        raise _stopped("stopped", request, 130) from None
    except Interrupted as stopped:
        raise _stopped(f"stopped {stopped}", request, 128 + stopped.signal_number) from None
    except MemoryError:
        raise CommandError(
            "there is not enough memory for this source: audit it in parts, or pass features "
            "from an encoder as a .npy file"
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        where = error.filename or request.out
        raise CommandError(f"cannot read or write {where} ({reason})") from error
    print_audit(summary, request.out)


def _stopped(how: str, request: AuditRequest, exit_code: int) -> CommandError:
    return CommandError(f"{how}; go on with: {request.command} --resume", exit_code=exit_code)
