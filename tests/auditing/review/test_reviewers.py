"""Several reviewers on one audit: names, disagreements, and who may reach the page."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from audit_fixtures import MadeAudit, made_audit
from browser import open_browser
from command_line import refused
from review_page import Client, Page, served

from discrimloss.auditing.review.hosts import Listening
from discrimloss.auditing.review.new_labels import RequestError
from discrimloss.auditing.review.queue import Filter
from discrimloss.auditing.review.serving import last_address
from discrimloss.auditing.review.session import ReviewSession
from discrimloss.cli import main

ARROW_LEFT, ARROW_RIGHT = "\ue012", "\ue014"


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MadeAudit:
    return made_audit(monkeypatch, tmp_path, number=18)


def decide(session: ReviewSession, who: str | None, action: str, index: int, **more: Any) -> None:
    number = session.log.decisions.version
    request = {"event": f"e{number}", "tab": who or "t", "action": action, "index": index}
    session.decide(request | ({} if who is None else {"reviewer": who}) | more)


def found(session: ReviewSession, state: str, who: str = "") -> list[int]:
    answer = session.samples(Filter(None, None, state), 0, None, 50, "worst", who)
    return [row["index"] for row in answer["rows"]]


def test_decisions_of_all_are_kept_and_disagreements_found(
    audit: MadeAudit, capsys: pytest.CaptureFixture[str]
) -> None:
    session = audit.session()
    decide(session, "Ada", "keep", 0)
    decide(session, "Ben", "drop", 0)
    decide(session, "Ada", "relabel", 1, label="emu")
    decide(session, "Ben", "relabel", 1, label="emu")
    decide(session, "Ada", "skip", 2)
    decide(session, "Ben", "keep", 2)
    decide(session, "Ada", "keep", 3)
    assert found(session, "disagreed") == [0]
    assert found(session, "others", "Ben") == [3]
    row = session.samples(Filter(), None, 0, 1)["rows"][0]
    assert [(o["reviewer"], o["action"]) for o in row["opinions"]] == [
        ("Ada", "keep"),
        ("Ben", "drop"),
    ]
    state = session.state(0)
    assert (state["reviewers"], state["disagreements"]) == ({"Ada": 4, "Ben": 3}, 1)
    session.close()
    session = audit.session()  # the same after a restart
    assert found(session, "disagreed") == [0]
    session.close()
    assert main(["apply", str(audit.path)]) == 0
    assert "Reviewers disagree on 1: the last decision counts" in capsys.readouterr().out
    with (audit.path / "corrected" / "changes.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["index"]: row for row in csv.DictReader(file)}
    assert (rows["0"]["change"], rows["0"]["reviewer"]) == ("dropped", "Ben")
    assert rows["0"]["disagreement"] == "Ada: keep; Ben: drop"
    assert rows["1"]["disagreement"] == ""
    session = audit.session()
    decide(session, "Ben", "keep", 0)
    assert found(session, "disagreed") == []
    decide(session, "Ben", "drop", 0)
    decide(session, "Ada", "reopen", 0)
    assert found(session, "disagreed") == []
    assert 0 in found(session, "open")
    session.close()


def test_a_shared_review_needs_names(audit: MadeAudit) -> None:
    session = audit.session()
    decide(session, None, "keep", 0)
    session.is_shared = True
    for name in (None, "", " Ada", "A\nda", "x" * 41, 7):
        with pytest.raises(RequestError, match="name of the reviewer"):
            decide(session, None, "keep", 1, reviewer=name)
    assert session.log.decisions.version == 1
    session.close()


@pytest.mark.parametrize(
    ("host", "header", "accepted"),
    [
        ("127.0.0.1", "127.0.0.1:80", True),
        ("127.0.0.1", "LOCALHOST:80", True),
        ("127.0.0.1", "10.0.0.5:80", False),
        ("127.0.0.1", "127.0.0.1:81", False),
        ("127.0.0.1", "evil.example:80", False),
        ("0.0.0.0", "10.0.0.5:80", True),
        ("0.0.0.0", "[fe80::1]:80", True),
        ("0.0.0.0", "localhost:80", True),
        ("0.0.0.0", "10.0.0.5:81", False),
        ("0.0.0.0", "10.0.0.5", False),
        ("0.0.0.0", "evil.example:80", False),
        ("0.0.0.0", "10.0.0.5.evil.example:80", False),
        ("0.0.0.0", "", False),
        ("lab.example", "lab.example:80", True),
        ("lab.example", "evil.example:80", False),
        ("::1", "[::1]:80", True),
    ],
)
def test_hosts_that_are_accepted(host: str, header: str, accepted: bool) -> None:
    assert Listening(host).accepts(header, 80) is accepted


def test_a_shared_server_keeps_the_rules(audit: MadeAudit) -> None:
    with served(audit, "0.0.0.0") as server:
        client = Client(server)
        address = last_address(audit.path)
        assert address is not None
        assert address.url == server.url
        assert "0.0.0.0" not in server.url
        assert client.json("/api/about")["is_shared"] is True
        assert client.refused("/api/about", headers={"Host": "evil.example"})[0] == 403
        assert client.refused("/api/about", headers={"X-Review-Token": "0" * 48})[0] == 403
        body = {"event": "e", "tab": "t", "action": "keep", "index": 1, "reviewer": "Ada"}
        sent = {"method": "POST", "body": json.dumps(body).encode()}
        for origin in ("http://evil.example", "http://10.0.0.5:80", f"https://{client.host}"):
            refusal = client.refused("/api/decisions", headers={"Origin": origin}, **sent)
            assert refusal[0] == 403
        assert server.session.log.decisions.version == 0
        own = {"Origin": f"http://{client.host}"}
        assert client.json("/api/decisions", headers=own, **sent)["saved"] == "e"


def test_a_host_that_is_not_here(audit: MadeAudit, capsys: pytest.CaptureFixture[str]) -> None:
    for host in ("192.0.2.7", "no such host"):
        sentence = refused(capsys, "review", str(audit.path), "--host", host)
        assert f"cannot listen on {host if host[0] == '1' else repr(host)}" in sentence
    audit.session().close()  # the lock is gone


def begin(page: Page, url: str, name: str) -> None:
    page.browser.get(url)
    page.until(lambda: page.is_shown("who"), "nobody asks for a name")
    page.press(name, "\ue007")
    page.until_shown(0)


def test_two_reviewers_in_two_browsers(audit: MadeAudit) -> None:
    with (
        open_browser() as first,
        open_browser(390, 844, dark=True) as second,
        served(audit, "0.0.0.0") as server,
    ):
        ada, ben = Page(first), Page(second)
        begin(ada, server.url, "Ada")
        begin(ben, server.url, "Ben")
        ada.press("k")
        ada.until_shown(1)
        ben.until_says("notice", "Ada decided on this sample: kept")
        ben.press("d")  # he disagrees
        ben.until_shown(1)
        ada.until_says("reviewers", "Ada 1 · Ben 1 · 1 disagreement")
        ada.choose("filter-decision", "disagreed")
        ada.until_shown(0)
        ada.until_says("opinions", "Ben: dropped")
        assert "Ada: kept" in ada.text("opinions")
        ben.press("r")
        ben.until_shown(2)
        ben.press(ARROW_LEFT)
        ben.until_shown(1)
        assert ben.text("notice") == ""  # it was about another moment
        ben.press(ARROW_RIGHT)
        ben.until_shown(2)
        # On a phone, labels, sample and buttons are on the screen together.
        for id in ("given", "suggested", "sample", "choices", "keep", "relabel", "next"):
            box = second.execute_script(
                "const b = document.getElementById(arguments[0]).getBoundingClientRect();"
                "return [b.top, b.bottom, b.left, b.right]",
                id,
            )
            assert 0 <= box[0] < box[1] <= 844, id
            assert 0 <= box[2] < box[3] <= 390, id
        # A whole group, and back.
        ada.choose("filter-decision", "any")
        ada.choose("filter-order", "by class")
        ada.until(lambda: ada.is_shown("group"), "no group")
        ada.until(lambda: first.find_element("id", "keep").is_enabled(), "nothing to decide on")
        before = server.session.log.decisions.version
        shown = len(first.find_elements("css selector", "#group-members button"))
        first.find_element("id", "group-accept").click()
        ada.until_says("notice", "samples. U takes all of it back")
        ada.until(lambda: server.session.log.decisions.version > before, "nothing is saved")
        made = server.session.log.decisions.version - before
        assert 0 < made <= shown
        ada.press("u")
        ada.until_says("notice", "Taken back")
        ada.until(
            lambda: server.session.log.decisions.version == before + 2 * made, "not all is undone"
        )
        assert ada.complaints() == ben.complaints() == []
    lines = (audit.path / "decisions.jsonl").read_text("utf-8").splitlines()
    assert {json.loads(line)["reviewer"] for line in lines} == {"Ada", "Ben"}
