"""A small file next to a log with the length and checksum of the saved part.

A log that was cut off at the end of a line can still be read. Only this file shows that decisions
are missing. It is written after each decision, so it never claims more than is on disk.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import Path

from discrimloss.errors import DiscrimLossError

ENDING = ".saved"
_CONTENT = re.compile(r"([0-9]{15}) ([0-9a-f]{64})\n")


class SavedPart:
    """Length and checksum of the saved part of a log.

    Args:
        log: the path of the log.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self.path = log.with_suffix(ENDING)
        self._digest = hashlib.sha256()
        self._length = 0

    def read(self) -> tuple[int, str] | None:
        """Return the length and the checksum, or None without a readable record.

        Read it before the log: another process may be adding to both.
        """
        try:
            found = _CONTENT.fullmatch(self.path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return (int(found[1]), found[2]) if found else None

    def require_whole(self, content: bytes, known: tuple[int, str] | None) -> None:
        """Raise a `DiscrimLossError` if decisions were lost.

        Without a record, an incomplete last line may be a saved decision.

        Args:
            content: content of the log.
            known: the result of `read`.
        """
        if known is None:
            if content and not content.endswith(b"\n"):
                raise DiscrimLossError(
                    f"the last line of {self.log} is incomplete: restore a copy of the file, "
                    "or remove that line to continue without it"
                )
            return
        length, checksum = known
        if length and not self.log.exists():
            what = f"is missing, but {length:,} bytes of decisions were saved in it"
        elif len(content) < length:
            what = f"has {len(content):,} bytes, but {length:,} were saved: decisions are missing"
        elif hashlib.sha256(content[:length]).hexdigest() != checksum:
            what = "differs from what was saved: decisions are damaged or changed"
        else:
            return
        raise DiscrimLossError(
            f"{self.log} {what}; restore a complete copy, or remove {self.path.name} next to it "
            "to continue with the remaining decisions"
        )

    def begin(self, content: bytes) -> None:
        """Record a log before lines are added."""
        self._digest, self._length = hashlib.sha256(content), len(content)
        self._write()

    def add(self, lines: bytes) -> None:
        """Record lines that are on disk."""
        self._digest.update(lines)
        self._length += len(lines)
        self._write()

    def _write(self) -> None:
        # The size of this file never changes, so writing works on a full disk too. After a failure,
        # the earlier record remains, which is still correct.
        with suppress(OSError):
            mode = "r+b" if self.path.exists() else "wb"
            with self.path.open(mode, buffering=0) as file:
                file.write(f"{self._length:015d} {self._digest.hexdigest()}\n".encode("ascii"))
