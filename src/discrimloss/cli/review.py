"""`discrimloss review`: review the suspicious samples in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discrimloss.errors import needs_extra

AuditArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="The --out directory of `discrimloss audit`.")
]


@needs_extra("audit", "a review")
def review(
    directory: AuditArgument,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="N",
            help="Port to listen on. [default: that of the last review]",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on, so that other machines can open the page; 0.0.0.0 for all "
            "addresses of this machine. [default: this machine only]",
            show_default=False,
        ),
    ] = "127.0.0.1",
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser.")
    ] = False,
) -> None:
    """Review the suspicious samples in a browser.

    Keep, relabel, drop or skip each sample with a key. Each decision is saved at once in
    DIR/decisions.jsonl: stop with Ctrl-C and continue at any time. Then `discrimloss apply DIR`
    writes the corrected data. Only this machine can open the page, unless you pass --host.
    """
    from discrimloss.auditing.result import AuditResult

    AuditResult.load(directory).review(port, host=host, open_browser=open_browser)
