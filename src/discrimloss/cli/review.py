"""`discrimloss review`: go through the suspicious samples in a browser."""

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
            min=0, max=65535, metavar="N", help="Where to listen. [default: as last time]"
        ),
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser.")
    ] = False,
) -> None:
    """Look at the suspicious samples one by one: keep, relabel, drop or skip each.

    The page is on this machine only. Every decision is saved at once, in DIR/decisions.jsonl; stop
    with Ctrl-C and come back at any time. `discrimloss apply DIR` writes the corrected data.
    """
    from discrimloss.auditing.result import AuditResult

    AuditResult.load(directory).review(port, open_browser=open_browser)
