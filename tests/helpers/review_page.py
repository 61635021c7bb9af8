"""A review that is served: what a browser sends, and what a reviewer does and sees there."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from audit_fixtures import MadeAudit

from discrimloss.auditing.review.server import TOKEN_HEADER, ReviewServer
from discrimloss.auditing.review.serving import serve_at

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

PATIENCE = 20  # seconds until a wait is given up


@contextmanager
def served(audit: MadeAudit, host: str = "127.0.0.1") -> Iterator[ReviewServer]:
    session = audit.session()
    try:
        with serve_at(session, None, host) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            try:
                yield server
            finally:  # or else a test that fails leaves a thread that never ends
                server.shutdown()
                thread.join()
    finally:
        session.close()


class Page:
    """A tab of the browser, and what a person does and sees there."""

    def __init__(self, browser: Chrome) -> None:
        self.browser = browser

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    def text(self, id: str) -> str:
        value: str = self.browser.execute_script(
            "return document.getElementById(arguments[0])?.textContent ?? ''", id
        )
        return value

    def is_shown(self, id: str) -> bool:
        return self.browser.find_element("id", id).is_displayed()

    def choose(self, id: str, text: str) -> None:
        from selenium.webdriver.support.select import Select

        Select(self.browser.find_element("id", id)).select_by_visible_text(text)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.browser, PATIENCE, 0.05).until(
            lambda _: holds(), f"{what}; the notice is {self.text('notice')!r}"
        )

    def until_shown(self, sample: int) -> None:
        """The sample is there, and can be decided on."""
        keep = self.browser.find_element("id", "keep")
        name = f"sample-{sample:03d}"
        self.until(lambda: self.text("sample-id") == name and keep.is_enabled(), f"no {name}")

    def until_says(self, id: str, part: str) -> None:
        self.until(lambda: part in self.text(id), f"{id} does not say {part!r}")

    def complaints(self) -> list[Any]:
        logged: list[Any] = self.browser.get_log("browser")
        return logged


class Client:
    """Sends what a browser would, or what it never would."""

    def __init__(self, server: ReviewServer) -> None:
        self.server = server
        self.host = f"127.0.0.1:{server.server_port}"

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: dict[str, str | None] | None = None,
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        """The status, the body and the headers. A header that is None is not sent."""
        sent = {"Host": self.host, TOKEN_HEADER: self.server.token} | (headers or {})
        if body is not None:
            sent = {"Content-Length": str(len(body)), "Content-Type": "application/json"} | sent
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.read(), response.headers
        finally:
            connection.close()

    def json(self, path: str, **how: Any) -> Any:
        status, body, _ = self.ask(path, **how)
        assert status == 200, body
        return json.loads(body)

    def refused(self, path: str, **how: Any) -> tuple[int, str]:
        status, body, headers = self.ask(path, **how)
        assert headers["Content-Type"] == "application/json"
        return status, json.loads(body)["error"]

    def decide(self, **decision: Any) -> Any:
        return self.json("/api/decisions", method="POST", body=json.dumps(decision).encode())
