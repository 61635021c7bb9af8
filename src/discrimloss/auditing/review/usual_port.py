"""The port of a review page: the same for an audit each time, so that links to it last."""

from __future__ import annotations

import hashlib
from pathlib import Path

FIRST_PORT, PORTS = 20_000, 12_000
"""Below the ports that systems give to outgoing connections."""


def usual_port(directory: Path) -> int:
    """The port that the review of an audit tries first; it follows from the path."""
    digest = hashlib.sha256(str(directory.resolve()).encode()).digest()
    return FIRST_PORT + int.from_bytes(digest[:4], "big") % PORTS


def review_address(directory: Path) -> str:
    """Where the review page of an audit is while it is served, without its token.

    ``#verdict=all&sample=INDEX`` behind it opens the sample with this index. The browser must have
    opened the address with the token before.

    Args:
        directory: of the audit.
    """
    from discrimloss.auditing.review.serving import last_address

    last = last_address(directory)
    return f"http://127.0.0.1:{last.port if last else usual_port(directory)}/"
