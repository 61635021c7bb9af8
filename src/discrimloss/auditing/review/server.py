"""The server of the review page: by default for this machine only, and only with the token.

A browser shows pages of many sites, and each of them may send requests to this machine. So every
request must carry the token, and its `Host` header must be this host's own address. A foreign name
that resolves to this machine is refused (see `hosts`). A decision must carry the token in a header,
which no other site can set. Requests never contain file paths: samples are requested by number.
"""

from __future__ import annotations

import hmac
import json
import re
import socketserver
import sys
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from discrimloss.auditing.review.hosts import Listening
from discrimloss.auditing.review.new_labels import RequestError
from discrimloss.auditing.review.orders import WORST
from discrimloss.auditing.review.queue import Filter
from discrimloss.auditing.review.session import ReviewSession
from discrimloss.errors import DiscrimLossError

TOKEN_HEADER = "X-Review-Token"
LARGEST_BODY = 64 * 1024
PAGE_ROWS = 50
SCRIPT = "text/javascript; charset=utf-8"
PAGE_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/review.js": ("review.js", SCRIPT),
    "/outbox.js": ("outbox.js", SCRIPT),
    "/drawing.js": ("drawing.js", SCRIPT),
    "/filters.js": ("filters.js", SCRIPT),
    "/picker.js": ("picker.js", SCRIPT),
    "/choices.js": ("choices.js", SCRIPT),
    "/groups.js": ("groups.js", SCRIPT),
    "/reviewers.js": ("reviewers.js", SCRIPT),
    "/review.css": ("review.css", "text/css; charset=utf-8"),
    "/phone.css": ("phone.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
IMAGE_POLICY = "default-src 'none'; sandbox"
METHODS = {"GET", "POST"}


@dataclass(frozen=True)
class Answer:
    """A response."""

    body: bytes
    media_type: str
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


def _json(content: Any, status: int = 200, *headers: tuple[str, str]) -> Answer:
    body = json.dumps(content, allow_nan=False).encode()
    return Answer(body, "application/json", status, headers)


class ReviewServer(ThreadingHTTPServer):
    """Server of the review page. It listens at once; `serve_forever` answers requests.

    Args:
        session: the review.
        port: port to listen on. 0 takes any free port.
        token: the token that every request must carry.
        listening: address to listen on. By default, only this machine can reach it.

    Raises:
        OSError: the port is in use, or the address does not belong to this machine.
    """

    # On other systems than POSIX, this would let two servers use one port.
    allow_reuse_address = sys.platform != "win32"
    daemon_threads = True

    def __init__(
        self,
        session: ReviewSession,
        port: int,
        token: str,
        listening: Listening = Listening(),  # noqa: B008 (it is immutable)
    ) -> None:
        self.session = session
        self.token = token
        self.listening = listening
        self.is_closed = False
        self.address_family = listening.family
        session.is_shared = not listening.is_loopback
        super().__init__((listening.host, port), _Handler)

    def server_bind(self) -> None:
        """Bind without a name lookup."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.listening.host, self.server_address[1]

    def server_close(self) -> None:
        """Stop listening, and answer no more requests over open connections."""
        self.is_closed = True
        super().server_close()

    @property
    def url(self) -> str:
        """The URL to open in a browser."""
        return self.listening.url(self.server_port, self.token)

    @property
    def cookie_name(self) -> str:
        """The name of the cookie. All ports of a host share cookies, so each server has its own."""
        return f"discrimloss-review-{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a disconnected browser. Report everything else as a bug."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    protocol_version = "HTTP/1.1"
    server_version = "discrimloss"
    sys_version = ""
    timeout = 60  # seconds that an idle connection stays open

    def _answer(self) -> None:
        if self.server.is_closed:
            self.close_connection = True
            return
        try:
            answer = self._find_answer()
        except RequestError as error:
            if error.status in (403, 413):
                self.close_connection = True  # the body is not read
            allow = (("Allow", ", ".join(sorted(METHODS))),) if error.status == 405 else ()
            answer = _json({"error": str(error)}, error.status, *allow)
        except DiscrimLossError as error:  # the decision could not be saved
            self.close_connection = True  # another server may answer the next attempt
            answer = _json({"error": str(error)}, 507)
        self._send(answer)

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _answer  # noqa: N815

    def _find_answer(self) -> Answer:
        address = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(address.query).items()}
        self._check_host()
        if self.command == "GET" and address.path == "/" and "token" in query:
            return self._exchange_token(query["token"])
        self._check_token()
        if self.command not in METHODS:
            self.close_connection = True
            raise RequestError(f"{self.command} is not allowed here", 405)
        is_post = self.command == "POST"
        if (address.path == "/api/decisions") != is_post:
            self.close_connection = is_post
            known = address.path == "/api/decisions" or self._get_route(address.path) is not None
            raise RequestError(*(("wrong method for this address", 405) if known else NOT_FOUND))
        if is_post:
            return _json(self.server.session.decide(self._read_body()))
        route = self._get_route(address.path)
        if route is None:
            raise RequestError(*NOT_FOUND)
        return route(query)

    def _get_route(self, path: str) -> Callable[[dict[str, str]], Answer] | None:
        session = self.server.session
        if path in PAGE_FILES:
            return lambda query: self._page_file(path)
        if path == "/api/about":
            return lambda query: _json(session.about())
        if path == "/api/state":
            return lambda query: _json(session.state(_whole_number(query, "since") or 0))
        if path == "/api/samples":
            return lambda query: _json(self._samples(query))
        # The path is not decoded, so %2e%2e or a second slash is not a number.
        numbered = re.fullmatch(r"/api/(samples|image)/([0-9]{1,12})", path)
        if numbered is None:
            return None
        index = int(numbered[2])
        if numbered[1] == "samples":
            return lambda query: _json(session.sample(index))
        return lambda query: self._image(index, query.get("size") == "small")

    # -- access -----------------------------------------------------------------------------------

    def _check_host(self) -> None:
        if not self.server.listening.accepts(self.headers.get("Host", ""), self.server.server_port):
            raise RequestError("this server answers only at its own address", 403)

    def _check_token(self) -> None:
        header = self.headers.get(TOKEN_HEADER)
        if self.command != "GET":  # any page can send the cookie alone
            origin = self.headers.get("Origin")
            if origin is not None and not self._is_own(origin):
                raise RequestError("this request comes from another site", 403)
            offered = header
        else:
            offered = header or self._cookie()
        self._compare(offered or "")

    def _is_own(self, origin: str) -> bool:
        """Return whether a page of this server sent the request, under the requested host name."""
        scheme, _, host = origin.lower().partition("://")
        server = self.server
        if server.listening.is_loopback:  # 127.0.0.1 and localhost are the same
            return scheme == "http" and server.listening.accepts(host, server.server_port)
        return scheme == "http" and host == self.headers.get("Host", "").lower()

    def _compare(self, offered: str) -> None:
        if not hmac.compare_digest(offered.encode(), self.server.token.encode()):
            raise RequestError(
                "open the complete address from `discrimloss review`: the token is missing "
                "or belongs to another review",
                403,
            )

    def _cookie(self) -> str | None:
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie_name)
        except CookieError:
            return None
        return None if cookie is None else cookie.value

    def _exchange_token(self, offered: str) -> Answer:
        """Set a cookie, and redirect to an address without the token.

        Browsers store and show addresses.
        """
        self._compare(offered)
        cookie = f"{self.server.cookie_name}={self.server.token}; Path=/; HttpOnly; SameSite=Lax"
        return Answer(b"", "text/plain", 303, (("Location", "/"), ("Set-Cookie", cookie)))

    # -- answers ----------------------------------------------------------------------------------

    def _page_file(self, path: str) -> Answer:
        name, media_type = PAGE_FILES[path]
        content = files("discrimloss.auditing.review").joinpath("page").joinpath(name).read_bytes()
        if name == "index.html":
            content = content.replace(b"{{token}}", self.server.token.encode())
        return Answer(content, media_type, headers=(("Content-Security-Policy", PAGE_POLICY),))

    def _image(self, index: int, is_small: bool) -> Answer:
        content, media_type = self.server.session.image(index, is_small)
        return Answer(content, media_type, headers=(("Content-Security-Policy", IMAGE_POLICY),))

    def _samples(self, query: dict[str, str]) -> dict[str, Any]:
        session = self.server.session
        given: str | float | None = query.get("class")
        if given is not None and session.source.is_regression:
            raise RequestError("a regression has no classes")
        wanted = Filter(
            _unless_all(query, "verdict"),
            given,
            _unless_all(query, "decision"),
            _unless_all(query, "problem"),
        )
        near, offset = _whole_number(query, "near"), _whole_number(query, "offset")
        limit = _whole_number(query, "limit")
        return session.samples(
            wanted,
            0 if near is None and offset is None else offset,
            near,
            PAGE_ROWS if limit is None else limit,
            query.get("order", WORST),
            query.get("reviewer", ""),
        )

    def _read_body(self) -> Any:
        media_type = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,12}", length):
            self.close_connection = True
            raise RequestError("a decision needs a Content-Length")
        if int(length) > LARGEST_BODY:
            raise RequestError(f"a decision has at most {LARGEST_BODY} bytes", 413)
        body = self.rfile.read(int(length))
        if media_type != "application/json":
            raise RequestError("a decision must be application/json")
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RequestError("this is not JSON") from error

    # -- sending ----------------------------------------------------------------------------------

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.media_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        if not any(name == "Content-Security-Policy" for name, _ in answer.headers):
            self.send_header("Content-Security-Policy", "default-src 'none'")
        for name, value in answer.headers:
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a malformed request."""
        self.close_connection = True
        self._send(_json({"error": message or "this is not a request"}, code))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because the terminal shows the address of the page."""


NOT_FOUND = ("there is nothing at this address", 404)


def _unless_all(query: dict[str, str], key: str) -> str | None:
    value = query.get(key, "all")
    return None if value == "all" else value


def _whole_number(query: dict[str, str], key: str) -> int | None:
    value = query.get(key)
    if value is None:
        return None
    if not re.fullmatch(r"[0-9]{1,12}", value):
        raise RequestError(f"{key} must be a whole number, 0 or more")
    return int(value)
