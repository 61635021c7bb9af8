"""A web server on this machine whose files arrive well, late, in part, wrong or not at all."""

from __future__ import annotations

import gzip
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Served:
    """A file and how it is sent.

    `misplaces_ranges` sends another part than was asked for. `compresses` packs the file for those
    who say that they can unpack it. `breaks_after` gives, for one request after the other, how many
    bytes are sent before the connection breaks; None, and every request beyond, sends all.
    """

    body: bytes
    statuses: list[int] = field(default_factory=list)
    honours_range: bool = True
    misplaces_ranges: bool = False
    compresses: bool = False
    says_length: bool = True
    breaks_after: list[int | None] = field(default_factory=list)
    in_the_middle: Callable[[], None] | None = None


@dataclass(frozen=True)
class Request:
    path: str
    start: int
    sent: int


class FileServer:
    def __init__(self) -> None:
        self.files: dict[str, Served] = {}
        self.requests: list[Request] = []
        self.address = ""

    def serve(self, path: str, body: bytes, **how: Any) -> str:
        self.files[path] = Served(body, **how)
        return f"{self.address}/{path}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.lstrip("/")
        served = self.files.get(path)
        status = 404 if served is None else (served.statuses or [200]).pop(0)
        if served is None or status != 200:
            self.requests.append(Request(path, 0, 0))
            handler.send_error(status)
            return
        asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        start = int(asked[1]) if asked and served.honours_range else 0
        start = max(0, start - 1) if served.misplaces_ranges else start
        content = served.body
        packs = served.compresses and "gzip" in handler.headers.get("Accept-Encoding", "")
        if packs:
            content = gzip.compress(content)
        total = len(content)
        if start >= total > 0:
            self.requests.append(Request(path, start, 0))
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{total}")
            handler.end_headers()
            return
        handler.send_response(206 if asked and served.honours_range else 200)
        if asked and served.honours_range:
            handler.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        if packs:
            handler.send_header("Content-Encoding", "gzip")
        if served.says_length:
            handler.send_header("Content-Length", str(total - start))
        handler.end_headers()
        break_after = served.breaks_after.pop(0) if served.breaks_after else None
        body = content[start:] if break_after is None else content[start:][:break_after]
        self.requests.append(Request(path, start, len(body)))
        half = len(body) // 2
        handler.wfile.write(body[:half])
        handler.wfile.flush()
        if served.in_the_middle:
            served.in_the_middle()
        handler.wfile.write(body[half:])


@contextmanager
def file_server() -> Iterator[FileServer]:
    files = FileServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(BrokenPipeError, ConnectionResetError):  # the other side has stopped
                files.answer(self)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        files.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield files
        finally:
            server.shutdown()
            thread.join()
