"""Checksums of the files of a folder, to detect damaged or missing files later."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from discrimloss.errors import DiscrimLossError
from discrimloss.files.atomic_write import atomic_write

CHECKSUMS = "checksums.json"
Fingerprint = list[int]
"""Size and CRC-32 of a file."""


def fingerprint(path: Path) -> Fingerprint:
    """Return size and CRC-32 of a file."""
    checksum, size = 0, 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            checksum = zlib.crc32(piece, checksum)
            size += len(piece)
    return [size, checksum]


def write_checksums(folder: Path, names: Iterable[str], texts: Mapping[str, str]) -> None:
    """Write the checksums of files of a folder, and of texts that will be written there.

    Args:
        folder: the folder.
        names: paths in the folder, with ``/``. Missing files are left out.
        texts: contents by file name.
    """
    files = {name: fingerprint(folder / name) for name in names if (folder / name).is_file()}
    for name, text in texts.items():
        content = text.encode()
        files[name] = [len(content), zlib.crc32(content)]
    with atomic_write(folder / CHECKSUMS) as unfinished:
        unfinished.write_text(json.dumps(files, indent=1) + "\n", encoding="utf-8")


def require_intact(folder: Path, advice: str) -> None:
    """Raise a `DiscrimLossError` if a file has changed since `write_checksums`.

    A folder without checksums, from an earlier version, is accepted.

    Args:
        folder: the folder.
        advice: what to do, as the end of the message.
    """
    try:
        saved = json.loads((folder / CHECKSUMS).read_text(encoding="utf-8"))
        expected = {str(name): list(found) for name, found in dict(saved).items()}
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError) as error:
        raise DiscrimLossError(f"{folder / CHECKSUMS} is damaged: {advice}") from error
    for name, before in expected.items():
        require_fingerprint(folder / name, before, advice)


def require_fingerprint(path: Path, expected: Fingerprint, advice: str) -> None:
    """Raise a `DiscrimLossError` unless a file has this size and checksum."""
    try:
        found = fingerprint(path)
    except FileNotFoundError as error:
        raise DiscrimLossError(f"{path} is missing: {advice}") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DiscrimLossError(f"cannot read {path} ({reason}): {advice}") from error
    if found != list(expected):
        raise DiscrimLossError(f"{path} is damaged, its contents have changed: {advice}")
