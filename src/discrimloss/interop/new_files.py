"""Files for other tools: complete or not there, and never over what somebody worked on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discrimloss.files.atomic_write import atomic_write


def as_json(value: Any) -> str:
    """JSON as every tool reads it: UTF-8, and without NaN, which is not JSON."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def write_new_files(directory: Path, files: Mapping[str, str], overwrite: bool) -> None:
    """Write texts into a directory, none of them if one is there already.

    Args:
        directory: made if it is not there.
        files: text by file name.
        overwrite: replace what is there.
    """
    there = [name for name in files if (directory / name).exists()]
    if there and not overwrite:
        raise FileExistsError(
            f"{directory / there[0]} is there already: choose another directory, or pass "
            "overwrite=True to replace it"
        )
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        with atomic_write(directory / name) as unfinished:
            unfinished.write_text(text, encoding="utf-8")


def read_json(path: str | Path, written_by: str) -> Any:
    """What a JSON file holds, or a sentence that says what should have been there."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a JSON file as {written_by} writes it: {error}") from error
