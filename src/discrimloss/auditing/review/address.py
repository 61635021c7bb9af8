"""Where a review is found again: a page that is still open goes on after a restart."""

from __future__ import annotations

import json
import os
import re
import secrets
from dataclasses import asdict, dataclass

from discrimloss.auditing.directory import AuditDirectory
from discrimloss.auditing.review.server import ReviewServer
from discrimloss.auditing.review.session import ReviewSession

ADDRESS = "review.json"
HIGHEST_PORT = 65535


@dataclass(frozen=True)
class Address:
    """The last port and token of a review."""

    port: int
    token: str

    @property
    def url(self) -> str:
        """What to open in a browser."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"


def last_address(directory: AuditDirectory) -> Address | None:
    """The address of the last review of an audit; None if there was none that can be read."""
    try:
        table = json.loads((directory / ADDRESS).read_text(encoding="utf-8"))
        port, token = table["port"], table["token"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_port = type(port) is int and 0 < port <= HIGHEST_PORT
    is_token = isinstance(token, str) and re.fullmatch(r"[0-9a-f]{32,64}", token)
    return Address(port, token) if is_port and is_token else None


def serve_at(session: ReviewSession, port: int | None) -> ReviewServer:
    """A server at that port; None: where it was the last time, or else anywhere.

    The token stays the same too. It is kept in a file that only its owner can read, in a directory
    whose readers see all decisions anyway.

    Raises:
        OSError: the port is taken.
    """
    last = last_address(session.directory)
    token = last.token if last else secrets.token_hex(24)
    try:
        server = ReviewServer(session, (last.port if last else 0) if port is None else port, token)
    except OSError:
        if port is not None:
            raise
        server = ReviewServer(session, 0, token)
    _keep(session.directory, Address(server.server_port, token))
    return server


def _keep(directory: AuditDirectory, address: Address) -> None:
    place = directory / ADDRESS
    unfinished = place.with_name(ADDRESS + ".unfinished")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(address), file)
    unfinished.replace(place)
