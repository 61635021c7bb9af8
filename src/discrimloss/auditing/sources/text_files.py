"""Text files, compressed or not, in UTF-8, UTF-16 or an older encoding."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from discrimloss.auditing.sources.base import SourceError

PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
"""Functions that open compressed files, by suffix."""
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
USUAL = "cp1252"
"""Western European, the most common encoding of files that are not in Unicode."""
_BLOCK = 1 << 20
_SAMPLE = 1 << 18


@dataclass(frozen=True)
class Encoding:
    """The character encoding of a file."""

    name: str = "utf-8"
    mark: bytes = b""
    """The byte order mark at the beginning of the file."""

    @property
    def is_usual(self) -> bool:
        """Whether it is UTF-8."""
        return self.name == "utf-8"


def table_suffix(path: Path) -> str:
    """Return the suffix of the format, in lower case: ``.csv`` for ``news.csv.gz``."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in PACKED else suffix


def open_bytes(path: Path, mode: str = "rb", packed_as: Path | None = None) -> BinaryIO:
    """Open a file, compressed or not, for reading or writing its content.

    Args:
        path: the file.
        mode: ``"rb"`` or ``"wb"``.
        packed_as: the file whose suffix determines the compression. By default `path`.
    """
    opener = PACKED.get((packed_as or path).suffix.lower())
    opened: BinaryIO = path.open(mode) if opener is None else opener(path, mode)  # type: ignore[assignment]
    return opened


@contextmanager
def open_text(path: Path, encoding: Encoding) -> Iterator[TextIO]:
    """Open a file without its byte order mark and without translating line ends."""
    with open_bytes(path) as content:
        content.read(len(encoding.mark))
        with io.TextIOWrapper(content, encoding=encoding.name, newline="") as file:
            yield file


def find_encoding(path: Path) -> Encoding:
    """Find the encoding of a file: that of its byte order mark, UTF-8 if it fits, or a guess.

    Raises:
        SourceError: the file is broken, or no encoding fits.
    """
    try:
        with open_bytes(path) as file:
            begin = file.read(4)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise SourceError(f"cannot read {path} ({error}): pack it again") from error
    for mark, name in MARKS:
        if begin.startswith(mark):
            return Encoding(name, mark)
    sample = _first_not_utf8(path)
    if sample is None:
        return Encoding()
    _refuse_broken(path, sample)
    return Encoding(_guessed(path, sample))


def _first_not_utf8(path: Path) -> bytes | None:
    """Return a part of the file that is not UTF-8, or None."""
    decoder, last = codecs.getincrementaldecoder("utf-8")(), b""
    try:
        with open_bytes(path) as file:
            while block := file.read(_BLOCK):
                if b"\0" in block[:1024]:
                    return block[:_SAMPLE]
                try:
                    decoder.decode(block)
                except UnicodeDecodeError as error:
                    return block[max(0, error.start - _SAMPLE // 2) :][:_SAMPLE]
                last = block
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return last[-_SAMPLE:]
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise SourceError(f"cannot read {path} ({error}): pack it again") from error
    return None


def _refuse_broken(path: Path, sample: bytes) -> None:
    """Refuse UTF-8 with a few wrong bytes: another encoding would garble all other characters."""
    characters = sample.decode("utf-8", errors="surrogateescape")
    wrong = sum("\udc80" <= character <= "\udcff" for character in characters)
    right = sum(ord(character) > 127 for character in characters) - wrong
    if right > wrong and b"\0" not in sample:
        raise SourceError(
            f"line {first_undecodable_line(path)} of {path} is not in UTF-8, though the rest is: "
            "fix that line, and save the file as UTF-8"
        )


def _guessed(path: Path, sample: bytes) -> str:
    try:
        from charset_normalizer import from_bytes
    except ImportError as error:
        raise SourceError(
            f"line {first_undecodable_line(path)} of {path} is not in UTF-8: save the file as "
            "UTF-8, or pip install 'discrimloss[tables]', which finds its encoding"
        ) from error
    found = from_bytes(sample)
    best = found.best()
    if best is None:
        raise SourceError(
            f"line {first_undecodable_line(path)} of {path} has an unknown encoding: "
            "save the file as UTF-8"
        )
    name = str(best.encoding)
    usual = [match for match in found if USUAL in (match.encoding, *match.could_be_from_charset)]
    if usual and usual[0].chaos <= best.chaos:  # short files fit many encodings
        name = USUAL
    for encoding in (name, "latin-1"):
        if _decodes(path, encoding):
            return encoding
    raise SourceError(f"{path} is not in {name}, as it seemed: save the file as UTF-8")


def _decodes(path: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    with open_bytes(path) as file:
        try:
            while block := file.read(_BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def first_undecodable_line(path: Path) -> int:
    """Return the number, from 1, of the first line that is not UTF-8."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 1
