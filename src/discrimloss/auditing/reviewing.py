"""Opens the review of an audit: its samples, the decisions so far, and the next commands."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from discrimloss.auditing.directory import CACHE
from discrimloss.auditing.review.serving import last_address
from discrimloss.auditing.review.session import ReviewSession
from discrimloss.errors import DiscrimLossError
from discrimloss.files.locks import LockedError

if TYPE_CHECKING:
    from discrimloss.auditing.result import AuditResult


def review_session(result: AuditResult) -> ReviewSession:
    """Open the review of an audit. See `AuditResult.review_session`."""
    source, directory = result.source, result.directory
    commands: dict[str, Any] = {}
    if directory is not None:
        commands["cache"] = directory / CACHE
    if directory is not None and source.options.path:
        commands |= {
            "review_command": shlex.join(["discrimloss", "review", str(directory)]),
            "apply_command": shlex.join(["discrimloss", "apply", str(directory)]),
        }
    try:
        return ReviewSession(
            result.verdicts,
            source,
            result.review_place,
            result.evidence,
            result.health if "health" in result.summary else None,
            **commands,
        )
    except LockedError as error:
        address = last_address(result.review_place)
        where = f" (it is at {address.url})" if address else ""
        raise DiscrimLossError(f"{error}{where}") from error
