"""Which of many pictures can be read: found out once, and remembered."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from pathlib import Path
from typing import TypeVar

from discrimloss.auditing.sources.pictures import (
    PictureFacts,
    UnreadablePictureError,
    look_at,
    quiet_pillow,
    require_pillow,
)
from discrimloss.files.atomic_write import atomic_write

REMEMBERED = "pictures.json"
Made = TypeVar("Made")

Reader = Callable[[int], bytes]
"""Encoded pictures by their position. An `OSError` tells that one is not there."""


def in_threads(make: Callable[[int], Made], positions: Sequence[int]) -> list[Made]:
    """What is made for each position, in their order, by as many threads as processors."""
    with quiet_pillow(), ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(make, positions))


def check_pictures(
    stamps: Sequence[str], read: Reader, cache: Path | None
) -> list[PictureFacts | str]:
    """The facts of each picture, or why it cannot be read.

    Every picture is decoded, because only that shows that a file is whole. For many thousands it
    takes minutes, so the answers are kept in `cache`, and only what changed is decoded again.

    Args:
        stamps: one text per picture that changes whenever the picture does.
        read: gives the encoded pictures.
        cache: a directory, made at need, or None to remember nothing.
    """
    require_pillow()
    remembered = {} if cache is None else _read(cache / REMEMBERED)
    unknown = [row for row, stamp in enumerate(stamps) if stamp not in remembered]

    def look(row: int) -> PictureFacts | str:
        try:
            return look_at(read(row))
        except UnreadablePictureError as error:
            return f"cannot be decoded ({error})"
        except OSError as error:
            return f"cannot be read ({error.strerror or error})"

    for row, answer in zip(unknown, in_threads(look, unknown), strict=True):
        remembered[stamps[row]] = answer
    answers = [remembered[stamp] for stamp in stamps]
    if unknown and cache is not None:
        _write(cache / REMEMBERED, dict(zip(stamps, answers, strict=True)))
    return answers


def file_stamp(file: Path) -> str:
    """A text that changes whenever a file does."""
    try:
        status = file.stat()
    except (OSError, ValueError):  # it is not there, or cannot be: reading it will say so
        return str(file)
    return f"{file} {status.st_size} {status.st_mtime_ns}"


def _read(path: Path) -> dict[str, PictureFacts | str]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {
            stamp: answer if isinstance(answer, str) else PictureFacts(*answer)
            for stamp, answer in kept.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}  # not there yet, or broken: look at the pictures themselves


def _write(path: Path, answers: dict[str, PictureFacts | str]) -> None:
    content = {
        stamp: answer if isinstance(answer, str) else astuple(answer)
        for stamp, answer in answers.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as unfinished:
        unfinished.write_text(json.dumps(content), encoding="utf-8")
