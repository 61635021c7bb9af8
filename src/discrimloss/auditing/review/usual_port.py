"""The port of a review page. It is always the same for an audit, so that links stay valid."""

from __future__ import annotations

import hashlib
from pathlib import Path

FIRST_PORT, PORTS = 20_000, 12_000
"""Ports below those that systems use for outgoing connections."""


def usual_port(directory: Path) -> int:
    """Return the port that the review of an audit tries first. It depends on the path."""
    digest = hashlib.sha256(str(directory.resolve()).encode()).digest()
    return FIRST_PORT + int.from_bytes(digest[:4], "big") % PORTS


def review_address(directory: Path) -> str:
    """Return the address of the review page of an audit, without its token.

    With ``#verdict=all&sample=INDEX`` appended, it opens the sample with this index. The browser
    must have opened the address with the token before.

    Args:
        directory: directory of the audit.
    """
    from discrimloss.auditing.review.serving import last_address

    last = last_address(directory)
    return f"http://127.0.0.1:{last.port if last else usual_port(directory)}/"
