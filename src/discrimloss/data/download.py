"""A download that continues where an earlier one stopped, as a downloader for pooch."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrimloss.errors import DiscrimLossError

if TYPE_CHECKING:
    import requests

Progress = Callable[[str, int, "int | None"], None]
"""Called with the name of a file, the bytes downloaded so far, and the size (None if unknown)."""

_CHUNK = 1 << 16
_TIMEOUT = (15, 60)  # seconds to connect, and seconds without any data
_FIRST_WAIT = 1.0  # seconds; doubles with each attempt
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})  # temporary errors


class MirrorError(DiscrimLossError):
    """A mirror failed. The message is the end of a sentence whose subject is the URL."""


class _TryAgainError(MirrorError, DiscrimLossError):
    """A temporary fault: another attempt may succeed."""


class ResumingDownloader:
    """Downloads into a partial file, and continues it after an interruption.

    The partial file is kept if the connection breaks or the program stops. The next call requests
    only the missing bytes. The complete partial file becomes the output file. Call it as pooch
    does: ``downloader(url, output_file, pooch)``.

    Args:
        partial: the partial file, on the file system of the output file.
        size: size of the complete file; None if unknown.
        resume: whether to continue an existing partial file. This is safe only with a checksum,
            because the published file may have changed since.
        on_progress: called after each chunk.
        tries: number of attempts at the same URL.
        wait: called with the number of seconds to sleep between attempts.
    """

    def __init__(
        self,
        partial: Path,
        *,
        size: int | None = None,
        resume: bool = True,
        on_progress: Progress = lambda name, done, total: None,
        tries: int = 4,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.partial = partial
        self.size = size
        self.resume = resume
        self.on_progress = on_progress
        self.tries = tries
        self.wait = wait
        self.resumed = False

    def __call__(self, url: str, output_file: str, pooch: Any = None) -> None:
        """Download `url`, or raise a `MirrorError` with the reason of the failure."""
        if not self.resume:
            self.partial.unlink(missing_ok=True)
        self.resumed = self._bytes_there() > 0
        for attempt in range(1, self.tries + 1):
            try:
                self._ask(url)
                break
            except _TryAgainError:
                if attempt == self.tries:
                    raise
                self.wait(_FIRST_WAIT * 2 ** (attempt - 1))
        self.partial.replace(output_file)

    def _bytes_there(self) -> int:
        return self.partial.stat().st_size if self.partial.exists() else 0

    def _ask(self, url: str) -> None:
        import requests
        from urllib3.exceptions import HTTPError

        there = self._bytes_there()
        if there and there == self.size:
            return
        headers = {"Accept-Encoding": "identity"}  # a .gz must arrive unchanged
        if there:
            headers["Range"] = f"bytes={there}-"
        try:
            with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
                self._receive(response, there)
        except requests.RequestException as error:
            raise _TryAgainError(_reason(error)) from error
        except HTTPError as error:  # urllib3 raises it while the body is read
            raise _TryAgainError(f"broke off after {self._bytes_there():,} bytes") from error

    def _receive(self, response: requests.Response, there: int) -> None:
        status = response.status_code
        if status == 416:  # no more bytes: our file is complete, or the server's file differs
            if there and _complete_length(response) == there:
                return
            self.partial.unlink(missing_ok=True)
            raise _TryAgainError("does not continue the bytes that are there")
        if status not in (200, 206):
            kind = _TryAgainError if status in _PASSING else MirrorError
            raise kind(f"answered {status} {response.reason or ''}".rstrip())
        if status == 200:
            there = 0  # the server ignores the range and sends the complete file
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
        else:
            if _start(response) != there:
                self.partial.unlink(missing_ok=True)
                raise _TryAgainError("sent other bytes than the requested ones")
            total = _complete_length(response)
        if None not in (total, self.size) and total != self.size:
            raise MirrorError(f"has {total:,} bytes instead of {self.size:,}")
        self._write(response, there, self.size if total is None else total)

    def _write(self, response: requests.Response, there: int, total: int | None) -> None:
        self.on_progress(self.partial.stem, there, total)
        response.raw.enforce_content_length = False  # the check would drop the last bytes
        with self.partial.open("ab" if there else "wb") as file:
            for chunk in response.raw.stream(_CHUNK, decode_content=False):
                file.write(chunk)
                there += len(chunk)
                self.on_progress(self.partial.stem, there, total)
                if total is not None and there > total:
                    raise MirrorError(f"sends more than {total:,} bytes")
        if total is not None and there < total:
            raise _TryAgainError(f"broke off after {there:,} of {total:,} bytes")


def _start(response: requests.Response) -> int | None:
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _complete_length(response: requests.Response) -> int | None:
    found = re.search(r"/(\d+)$", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _reason(error: requests.RequestException) -> str:
    import requests

    if isinstance(error, requests.exceptions.SSLError):
        return "does not offer a secure connection that can be trusted"
    if isinstance(error, requests.exceptions.ProxyError):
        return "cannot be reached through the proxy"
    if isinstance(error, requests.Timeout):
        return "did not answer in time"
    if isinstance(error, requests.ConnectionError):
        return "cannot be reached"
    return f"cannot be read ({type(error).__name__})"
