"""Serves a review until Ctrl-C, at the same address as the last review.

A page that is open in a browser continues to work after a restart.
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
    "Anyone with this address can see the samples and decide, under their own name. The connection "
    "is not encrypted: use it only in a network that you trust."
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
    """Print the address of the page, answer requests until Ctrl-C, and close the session.

    Args:
        session: the review.
        port: port to listen on. None takes the port of the last review, that of the audit, or any
            free one.
        open_browser: whether to open the page.
        host: address to listen on. By default, only this machine can reach it.

    Raises:
        DiscrimLossError: the port is in use, or the address cannot be saved.
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
            print("Ctrl-C ends the review. Every decision is saved at once.", flush=True)
            if open_browser:  # in a thread, because a browser in the terminal blocks until closed
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
            f"cannot listen on {host!r}: pass an address of this machine with --host, such as "
            "0.0.0.0"
        ) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.filename is not None:
            raise DiscrimLossError(f"cannot write {error.filename} ({reason})") from error
        where = f"port {port}" if Listening(host).is_loopback else f"{host}, port {port or 'any'}"
        raise DiscrimLossError(
            f"cannot listen on {where} ({reason}): choose another with --port, or leave it out"
            + ("" if Listening(host).is_loopback else ", or another address with --host")
        ) from error


def last_address(directory: Path) -> Address | None:
    """Return the address of the last review in a directory, or None if it cannot be read."""
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
    """Return a server at this port. None takes the last port, the usual one, or any free one.

    The token of the last review is used again. It is stored next to the decisions, in a file that
    only its owner can read.

    Raises:
        OSError: the port is in use, or the host is not an address of this machine.
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
