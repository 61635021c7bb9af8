"""The server of the review page, over real connections: what it answers, and whom."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from audit_fixtures import MadeAudit, made_audit
from review_page import Client

from discrimloss.auditing.review.server import LARGEST_BODY, PAGE_FILES, TOKEN_HEADER
from discrimloss.auditing.review.serving import ADDRESS, last_address, serve_at


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MadeAudit:
    return made_audit(monkeypatch, tmp_path, "images")


@pytest.fixture
def client(audit: MadeAudit) -> Iterator[Client]:
    session = audit.session()
    with serve_at(session, None) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield Client(server)
        server.shutdown()
        thread.join()
    session.close()


def test_the_page_and_its_files(client: Client) -> None:
    for path, (name, media_type) in PAGE_FILES.items():
        status, body, headers = client.ask(path)
        assert (status, headers["Content-Type"]) == (200, media_type)
        assert body, name
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        policy = headers["Content-Security-Policy"]
        for part in (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
        ):
            assert part in policy.split("; ")
    assert client.server.token.encode() in client.ask("/")[1]


def test_the_page_loads_nothing_from_elsewhere() -> None:
    page = Path(__file__).parents[3] / "src/discrimloss/auditing/review/page"
    for path in page.iterdir():
        text = path.read_text("utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        for forbidden in (
            "http://",
            "https://",
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "eval(",
        ):
            assert forbidden not in text, f"{path.name}: {forbidden}"
    assert {path.name for path in page.iterdir()} == {name for name, _ in PAGE_FILES.values()}


def test_the_token_in_the_address_becomes_a_cookie(client: Client) -> None:
    nothing = {TOKEN_HEADER: None}
    status, _, headers = client.ask(f"/?token={client.server.token}", headers=nothing)
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    with_cookie = {TOKEN_HEADER: None, "Cookie": cookie.partition(";")[0]}
    assert client.ask("/", headers=with_cookie)[0] == 200
    assert client.ask("/api/image/1", headers=with_cookie)[0] == 200
    # A cookie alone decides nothing: any page can make a browser send it.
    decision = {"event": "e", "tab": "t", "action": "keep", "index": 1}
    status, sentence = client.refused(
        "/api/decisions", method="POST", body=json.dumps(decision).encode(), headers=with_cookie
    )
    assert status == 403
    assert "token" in sentence


@pytest.mark.parametrize("path", ["/", "/review.js", "/api/about", "/api/samples", "/api/image/1"])
@pytest.mark.parametrize(
    "headers",
    [
        {TOKEN_HEADER: None},
        {TOKEN_HEADER: ""},
        {TOKEN_HEADER: "0" * 48},
        {TOKEN_HEADER: "caf\u00e9"},
        {TOKEN_HEADER: None, "Cookie": "discrimloss-review-1=x; ;;="},
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": None},
    ],
)
def test_only_this_machine_with_the_token(
    client: Client, path: str, headers: dict[str, str | None]
) -> None:
    assert client.refused(path, headers=headers)[0] == 403
    assert client.refused(f"{path}?token=wrong", headers=headers)[0] == 403


def test_localhost_is_this_machine(client: Client) -> None:
    host = f"localhost:{client.server.server_port}"
    assert client.ask("/api/about", headers={"Host": host})[0] == 200


def test_it_listens_on_the_loopback_only(client: Client) -> None:
    assert client.server.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "path",
    [
        "/api/image/../../etc/passwd",
        "/api/image/%2e%2e/%2e%2e/etc/passwd",
        "/api/image/..%2f..%2fetc%2fpasswd",
        "/api/image//etc/passwd",
        "/api/image/1/../../../etc/passwd",
        "/api/image/-1",
        "/api/image/1.0",
        "/api/image/\u0661".encode().decode("latin-1"),
        "/api/image/12",
        "/api/image/999999999999",
        "/api/image/9999999999999999999999",
        "/api/image/",
        "/api/samples/12",
        "/api/samples/../about",
        "/../decisions.jsonl",
        "/page/index.html",
        "/server.py",
        "/%2e%2e/server.py",
        "//127.0.0.1/etc/passwd",
        "/audit.json",
        "/decisions.jsonl",
        "/review.json",
    ],
)
def test_no_path_leads_to_a_file(client: Client, path: str) -> None:
    quoted = "".join(c if ord(c) < 128 else f"%{ord(c):02x}" for c in path)
    assert client.refused(quoted)[0] == 404


def test_pictures_come_as_they_are_and_run_nothing(client: Client, audit: MadeAudit) -> None:
    status, body, headers = client.ask("/api/image/3")
    assert (status, body) == (200, audit.source.views[3].image)
    assert headers["Content-Type"] == "image/png"
    assert headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/api/decisions"),
        ("DELETE", "/api/decisions"),
        ("OPTIONS", "/api/decisions"),
        ("GET", "/api/decisions"),
        ("POST", "/api/samples"),
        ("POST", "/"),
        ("PATCH", "/nowhere"),
    ],
)
def test_wrong_methods(client: Client, method: str, path: str) -> None:
    assert client.refused(path, method=method, body=b"{}")[0] == 405


def test_head_is_refused_without_a_body(client: Client) -> None:
    status, body, headers = client.ask("/", method="HEAD")
    assert (status, body, headers["Allow"]) == (405, b"", "GET, POST")


def test_an_unknown_method_is_told_in_json(client: Client) -> None:
    assert client.refused("/", method="BREW")[0] == 501


GOOD = json.dumps({"event": "e", "tab": "t", "action": "keep", "index": 1}).encode()


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"\xff", {}, 400),
        (b"[" * 60_000, {}, 400),
        (GOOD, {"Content-Type": "text/plain"}, 400),
        (GOOD, {"Content-Type": "application/x-www-form-urlencoded"}, 400),
        (GOOD, {"Content-Type": None}, 400),
        (GOOD, {"Content-Length": None}, 400),
        (GOOD, {"Content-Length": "-1"}, 400),
        (GOOD, {"Content-Length": "many"}, 400),
        (b" ", {"Content-Length": str(LARGEST_BODY + 1)}, 413),
        (GOOD, {"Origin": "http://evil.example"}, 403),
        (GOOD, {"Origin": "null"}, 403),
    ],
)
def test_bad_bodies(
    client: Client, body: bytes, headers: dict[str, str | None], status: int
) -> None:
    answer = client.refused("/api/decisions", method="POST", body=body, headers=headers)
    assert answer[0] == status
    assert client.server.session.log.decisions.version == 0


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=201",
        "limit=x",
        "offset=-1",
        "near=99",
        "near=..",
        "verdict=odd",
        "decision=odd",
    ],
)
def test_bad_questions(client: Client, query: str) -> None:
    assert client.refused(f"/api/samples?{query}")[0] in (400, 404)


def test_a_decision_is_on_disk_before_the_answer(client: Client, audit: MadeAudit) -> None:
    answer = client.decide(event="e1", tab="t", action="relabel", index=2, label="dog")
    line = json.loads((audit.path / "decisions.jsonl").read_text("utf-8"))
    assert (line["id"], line["label"]) == ("sample-002", "dog")
    assert answer["row"]["decision"]["label"] == "dog"
    assert client.json("/api/state?since=0")["changes"][0]["index"] == 2
    assert client.json("/api/state?since=1")["changes"] == []
    decided = client.json("/api/samples?verdict=all&decision=decided")
    assert [row["index"] for row in decided["rows"]] == [2]
    assert client.json("/api/samples?class=emu&decision=open")["total"] == 3


def test_a_log_that_cannot_be_written_is_told(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        status, sentence = client.refused("/api/decisions", method="POST", body=GOOD)
    assert status == 507
    assert "make room" in sentence
    assert client.json("/api/decisions", method="POST", body=GOOD)["saved"] == "e"


def test_after_a_restart_the_open_page_goes_on(audit: MadeAudit) -> None:
    def serve() -> tuple[int, str]:
        session = audit.session()
        with serve_at(session, None) as server:
            address = server.server_port, server.token
        session.close()
        return address

    first = serve()
    assert serve() == first
    address = last_address(audit.path)
    assert address is not None
    assert (address.port, address.token) == first
    assert (audit.path / ADDRESS).stat().st_mode & 0o077 == 0
    (audit.path / ADDRESS).write_text('{"port": 99999, "token": "<script>"}')
    assert last_address(audit.path) is None
    assert serve()[1] != "<script>"


def test_a_taken_port_is_left_to_its_owner(audit: MadeAudit) -> None:
    session = audit.session()
    with serve_at(session, None) as first:
        with pytest.raises(OSError, match="in use"):
            serve_at(session, first.server_port)
        with serve_at(session, None) as second:
            assert second.server_port != first.server_port
    session.close()
