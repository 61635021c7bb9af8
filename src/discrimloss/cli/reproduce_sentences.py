"""What a reproduction says of cells that do not count, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from discrimloss.reproduce.run_cells import Outcome
    from discrimloss.reproduce.store import ResultsStore, StoredCell


def stale_sentence(stale: Sequence[StoredCell], overwrite: bool) -> str:
    """Goes on with the line that counts the cells; empty if all are of today's settings."""
    if not stale:
        return ""
    example = f"{stale[0].cell.name}: {stale[0].differences[0]}"
    what = "are run again" if overwrite else "are left out: --overwrite runs them again"
    return f"; {len(stale)} made with other settings ({example}), which {what}"


def what_is_missing(
    outcome: Outcome, left_stale: Sequence[StoredCell], store: ResultsStore
) -> list[str]:
    """A clause for each reason why a cell that was asked for does not count: what to do differs."""
    unfinished = [cell for cell in outcome.elsewhere if not store.has(cell)]
    clauses = (
        (outcome.failed, "{} failed, as told above: the same command tries again"),
        (unfinished, "{} left to another process: the same command runs what it leaves"),
        (left_stale, "{} left out as made with other settings: --overwrite runs such cells again"),
    )
    return [clause.format(_count(len(cells))) for cells, clause in clauses if cells]


def unreadable_sentence(sentences: Sequence[str], page: Path) -> str:
    """The first of them, and where the others stand: damage seldom comes alone."""
    others = f"; {page} names {len(sentences) - 1} more" if len(sentences) > 1 else ""
    return f"{sentences[0]}{others}"


def _count(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"
