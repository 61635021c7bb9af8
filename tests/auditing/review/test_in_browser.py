"""The review page in a real browser, from the first look to the corrected data on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from audit_fixtures import RESULT, MadeAudit, made_audit
from browser import open_browser
from review_page import Page, served

from discrimloss.cli import main

EVIL = "<img src=x onerror=\"document.title='broken into'\">"


def decisions(audit: MadeAudit) -> list[tuple[str, int, str | None]]:
    lines = (audit.path / "decisions.jsonl").read_text("utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    return [(event["action"], event["index"], event.get("label")) for event in events]


def test_from_the_first_look_to_the_result_on_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    audit = made_audit(monkeypatch, tmp_path, "table", number=18, labels=("cat", "dog", EVIL))
    with open_browser() as browser, served(audit) as server:
        page = Page(browser)
        browser.get(server.url)
        page.until_shown(0)
        assert "token" not in browser.current_url
        assert page.text("progress-text") == "0 of 6 incorrect reviewed"
        assert (page.text("given"), page.text("suggested")) == ("cat", "dog")
        assert "<b>red</b>" in page.text("sample")  # as text

        # Filter: cats that are suspicious are samples 0 and 3.
        page.choose("filter-class", "cat (2)")
        page.until_says("position", "1 of 2")
        page.press("\ue014")  # right
        page.until_shown(3)
        page.press("\ue014")
        page.until_says("notice", "the last one")
        page.press("\ue012")  # left
        page.until_shown(0)

        # Relabel with the keyboard: to the suggestion, to a number's class, to a new class.
        page.press("r")
        page.until_shown(3)
        page.choose("filter-class", "any")
        page.until_shown(1)
        assert page.text("suggested") == EVIL
        page.press("2")  # cat: the keys follow the order of the classes, for every sample
        page.until_shown(2)
        assert page.text("given") == EVIL
        assert not browser.find_elements("css selector", "main img")
        page.press("l")
        page.press("fo", "x", "\ue007")
        page.until_says("picker-message", "“fox” is a new class")
        page.press("\ue007")
        page.until_shown(3)
        page.press("d")
        page.until_shown(4)
        page.press("s")
        page.until_shown(5)

        # Undo, twice; what was skipped is open again, what was dropped too.
        page.press("u")
        page.until_shown(4)
        page.press("u")
        page.until_shown(3)
        page.until_says("progress-text", "3 of 6")
        page.press("d")
        page.until_shown(4)

        # A reload comes back to the same place; decisions are still there.
        browser.refresh()
        page.until_shown(4)
        assert page.text("progress-text") == "4 of 6 incorrect reviewed"

        # A second tab sees what the first decided, and the first what the second does.
        first = browser.current_window_handle
        browser.switch_to.new_window("tab")
        browser.get(server.url)
        page.until_shown(4)
        assert "4 of 6" in page.text("progress-text")
        page.press("k")
        page.until_shown(5)
        browser.switch_to.window(first)
        page.until_says("notice", "Another tab decided on this sample: kept")
        page.until_says("progress-text", "5 of 6")
        page.press("\ue014")
        page.until_shown(5)
        page.press("k")
        page.until(lambda: page.is_shown("end"), "no end")
        assert page.text("end-title") == "All 6 are reviewed"
        assert page.text("end-command") == f"discrimloss apply {audit.path}"
        assert page.complaints() == []
        assert browser.title == "6/6 · source"  # and not what the label would have it

    assert decisions(audit) == [
        ("relabel", 0, "dog"),
        ("relabel", 1, "cat"),
        ("relabel", 2, "fox"),
        ("drop", 3, None),
        ("skip", 4, None),
        ("undo", 4, None),
        ("undo", 3, None),
        ("drop", 3, None),
        ("keep", 4, None),
        ("keep", 5, None),
    ]
    assert main(["apply", str(audit.path)]) == 0
    expected = dict(zip(audit.source.ids, audit.source.labels, strict=True))
    del expected["sample-003"]
    expected |= {"sample-000": "dog", "sample-001": "cat", "sample-002": "fox"}
    result = (audit.path / "corrected" / RESULT).read_text("utf-8")
    assert json.loads(result) == expected


def test_decisions_wait_for_a_server_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    audit = made_audit(monkeypatch, tmp_path, "images", number=18)
    with open_browser(375, 812, dark=True) as browser:
        page = Page(browser)
        with served(audit) as server:
            browser.get(server.url)
            page.until_shown(0)
            sizes = "return [document.querySelector('#sample img').naturalWidth, scrollX]"
            assert browser.execute_script(sizes) == [24, 0]
            width = "return document.documentElement.scrollWidth"
            assert browser.execute_script(width) == 375  # nothing sticks out on a phone
            assert page.complaints() == []
        page.press("d")
        page.until(lambda: page.is_shown("alarm"), "no alarm")
        page.until_says("alarm", "1 decision is not saved yet")
        page.until_says("alarm", "Start it again: discrimloss review")
        assert (audit.path / "decisions.jsonl").read_bytes() == b""
        with served(audit):  # at the same address
            page.until(lambda: not page.is_shown("alarm"), "still an alarm")
            page.until_shown(1)
    assert decisions(audit) == [("drop", 0, None)]


def test_a_regression_takes_a_typed_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    audit = made_audit(monkeypatch, tmp_path, "table", labels=(1.0, 2.5))
    with open_browser() as browser, served(audit) as server:
        page = Page(browser)
        browser.get(server.url)
        page.until_shown(0)
        assert (page.text("given"), page.text("suggested")) == ("1", "1.5")
        page.press("l")
        page.press("many", "\ue007")
        page.until_says("picker-message", "Type a number")
        page.press("\ue003" * 4, "3,25", "\ue007")
        page.until_shown(1)
        page.press("\ue007")
        page.until_shown(2)
        assert page.complaints() == []
    assert decisions(audit) == [("relabel", 0, 3.25), ("relabel", 1, 3.0)]


DEAF_TO_OTHERS = """
const fetch = window.fetch;
window.fetch = (path, ...rest) =>
  path.startsWith("/api/state") ? new Promise(() => {}) : fetch(path, ...rest);
"""


def test_a_decision_that_overtakes_another_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    audit = made_audit(monkeypatch, tmp_path)
    with open_browser() as browser, served(audit) as server:
        page = Page(browser)
        browser.get(server.url)
        page.until_shown(0)
        browser.execute_script(DEAF_TO_OTHERS)  # as if both had decided in the same second
        elsewhere = {"event": "e", "tab": "elsewhere", "action": "drop", "index": 0}
        server.session.decide(elsewhere)
        page.press("k")
        page.until_says("notice", "decided elsewhere meanwhile (dropped)")
        page.until_shown(1)
        page.press("u")
        page.until_shown(0)
        page.until_says("decision", "elsewhere: dropped")
        page.press("o")  # reopen
        page.until_says("notice", "Open again")
        page.until_says("progress-text", "0 of")
    assert [action for action, _, _ in decisions(audit)] == ["drop", "keep", "undo", "reopen"]
