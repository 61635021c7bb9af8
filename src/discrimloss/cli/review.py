"""`discrimloss review`: go through the suspicious samples in a browser."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discrimloss.cli.errors import CommandError
from discrimloss.cli.opened_audit import AuditArgument, told_in_a_sentence

if TYPE_CHECKING:
    from discrimloss.auditing.review.server import ReviewServer
    from discrimloss.auditing.review.session import ReviewSession


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
    with told_in_a_sentence():
        session = _open_session(directory)
        try:
            with _listen(session, port) as server:
                _serve(server, open_browser)
        finally:
            session.close()
    _say_goodbye(session)


def _open_session(directory: Path) -> ReviewSession:
    from discrimloss.auditing.directory import AuditDirectory
    from discrimloss.auditing.review.address import last_address
    from discrimloss.auditing.review.decision_log import AlreadyOpenError
    from discrimloss.auditing.review.session import ReviewSession

    audit = AuditDirectory(directory)
    try:
        return ReviewSession(audit)
    except AlreadyOpenError as error:
        address = last_address(audit)
        where = f" (it is at {address.url})" if address else ""
        raise CommandError(f"{error}{where}") from error


def _listen(session: ReviewSession, port: int | None) -> ReviewServer:
    from discrimloss.auditing.review.address import serve_at

    try:
        return serve_at(session, port)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.filename is not None:
            raise CommandError(f"cannot write {error.filename} ({reason})") from error
        raise CommandError(
            f"cannot listen at port {port} ({reason}): name another with --port, or none"
        ) from error


def _serve(server: ReviewServer, open_browser: bool) -> None:
    from discrimloss.auditing.review.sample_table import Filter

    counts = server.session.table.state_counts(Filter("incorrect"))
    suspicious, decided = sum(counts.values()), counts["decided"]
    typer.echo(f"{suspicious} suspicious samples, {decided} of them reviewed. Open this page:")
    typer.echo(f"  {server.url}")
    typer.echo("Ctrl-C ends the review; every decision is saved at once.")
    if open_browser:  # some browsers run in the terminal and come back at their end
        threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        typer.echo("")


def _say_goodbye(session: ReviewSession) -> None:
    from discrimloss.auditing.review.session import command

    if not session.log.decisions.version:
        typer.echo("Nothing was decided.")
        return
    typer.echo(f"Decisions are in {session.log.path}")
    typer.echo(f"Write the corrected data with: {command('apply', session.directory)}")
