"""Serve a review until Ctrl-C, at the same address as the last time.

A page that is still open in a browser keeps working after a restart.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import threading
import webbrowser
from dataclasses import asdict, dataclass
from pathlib import Path

from discrimloss.auditing.review.hosts import LOOPBACK, Listening
from discrimloss.auditing.review.server import ReviewServer
from discrimloss.auditing.review.session import ReviewSession
from discrimloss.auditing.review.usual_port import usual_port
from discrimloss.errors import DiscrimLossError

ADDRESS = "review.json"
HIGHEST_PORT = 65535
FOR_OTHERS = (
    "Anyone who has this address can see the samples and decide, under a name of their own. The "
    "connection is not encrypted: use it in a network that you trust."
)


@dataclass(frozen=True)
class Address:
    """The last port, token and host of a review."""

    port: int
    token: str
    host: str = LOOPBACK

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        return Listening(self.host).url(self.port, self.token)


def serve_review(
    session: ReviewSession, port: int | None, open_browser: bool, host: str = LOOPBACK
) -> None:
    """Print the address of the page and answer requests until Ctrl-C; closes the session.

    Args:
        session: the review.
        port: where to listen; None takes the port of the last time, or that of the audit, or else
            any free one.
        open_browser: whether to open the page.
        host: the address to listen at; by default only this machine reaches it.

    Raises:
        DiscrimLossError: the port is taken, or the address cannot be saved.
    """
    try:
        with _listen(session, port, host) as server:
            counts = session.queue.state_counts("incorrect")
            incorrect, decided = sum(counts.values()), counts["decided"]
            print(
                f"{incorrect} labels called incorrect, {decided} of them reviewed. Open this page:"
            )
            print(f"  {server.url}")
            if session.is_shared:
                print(FOR_OTHERS)
            print("Ctrl-C ends the review; every decision is saved at once.", flush=True)
            if open_browser:  # some browsers run in the terminal and return at their end
                threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                print()
    finally:
        session.close()
    if not session.log.decisions.version:
        print("Nothing was decided.")
        return
    print(f"Decisions are in {session.log.path}")
    print(f"Write the corrected data with: {session.apply_command}")


def _listen(session: ReviewSession, port: int | None, host: str) -> ReviewServer:
    try:
        return serve_at(session, port, host)
    except socket.gaierror as error:
        raise DiscrimLossError(
            f"cannot listen at {host!r}: name an address of this machine with --host, such as "
            "0.0.0.0"
        ) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.filename is not None:
            raise DiscrimLossError(f"cannot write {error.filename} ({reason})") from error
        where = f"port {port}" if Listening(host).is_loopback else f"{host}, port {port or 'any'}"
        raise DiscrimLossError(
            f"cannot listen at {where} ({reason}): choose another with --port, or none"
            + ("" if Listening(host).is_loopback else ", or another address with --host")
        ) from error


def last_address(directory: Path) -> Address | None:
    """The address of the last review in a directory; None if there is none that can be read."""
    try:
        content = json.loads((directory / ADDRESS).read_text(encoding="utf-8"))
        port, token, host = content["port"], content["token"], content.get("host", LOOPBACK)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    is_port = type(port) is int and 0 < port <= HIGHEST_PORT
    is_token = isinstance(token, str) and re.fullmatch(r"[0-9a-f]{32,64}", token)
    is_host = isinstance(host, str) and re.fullmatch(r"[0-9A-Za-z.:-]{1,255}", host)
    return Address(port, token, host) if is_port and is_token and is_host else None


def serve_at(session: ReviewSession, port: int | None, host: str = LOOPBACK) -> ReviewServer:
    """A server at this port; None takes the last or the usual one, or else any free one.

    The token stays the same too. It is kept in a file that only its owner can read, in a directory
    whose readers see all decisions anyway.

    Raises:
        OSError: the port is taken, or the host is not an address of this machine.
    """
    listening = Listening(LOOPBACK if host == "localhost" else host)
    last = last_address(session.directory)
    token = last.token if last else secrets.token_hex(24)
    usual = last.port if last else usual_port(session.directory)
    wanted = usual if port is None else port
    try:
        server = ReviewServer(session, wanted, token, listening)
    except OSError:
        if port is not None:
            raise
        server = ReviewServer(session, 0, token, listening)
    _keep(session.directory, Address(server.server_port, token, listening.host))
    return server


def _keep(directory: Path, address: Address) -> None:
    place = directory / ADDRESS
    unfinished = place.with_name(ADDRESS + ".unfinished")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(address), file)
    unfinished.replace(place)
