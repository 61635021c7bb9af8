"""The log of decisions: what it comes to, and what no crash, repetition or rival can do to it."""

import json
import os
import threading
from pathlib import Path

import pytest

from discrimloss.auditing.review.decision_log import DecisionLog
from discrimloss.auditing.review.decisions import (
    Decisions,
    Event,
    read_decisions,
    regression_label,
    require_same_samples,
)
from discrimloss.errors import DiscrimLossError
from discrimloss.files.locks import LockedError


def decide(log: DecisionLog, name: str, index: int, action: str = "keep", tab: str = "a") -> Event:
    label = "dog" if action == "relabel" else None
    return log.decide(name, tab, action, index, f"s{index}", label)


def undone(log: DecisionLog, name: str, tab: str) -> str | None:
    event = log.undo(name, tab)
    assert event is not None
    return event.undoes


def current(log: DecisionLog) -> dict[int, str]:
    return {index: event.action for index, event in log.decisions.all_current().items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "decisions.jsonl"


def test_the_last_event_of_a_sample_counts_and_is_found_again(path: Path) -> None:
    with DecisionLog(path, now=lambda: "noon") as log:
        decide(log, "e1", 3)
        decide(log, "e2", 3, "relabel", tab="b")
        decide(log, "e3", 5, "drop")
        decide(log, "e4", 7, "skip")
        decide(log, "e5", 8)
        decide(log, "e6", 8, "reopen")
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert lines[1] == {
        "event": "e2",
        "tab": "b",
        "action": "relabel",
        "index": 3,
        "id": "s3",
        "time": "noon",
        "label": "dog",
    }
    with DecisionLog(path) as again:
        assert current(again) == {3: "relabel", 5: "drop", 7: "skip"}
        assert again.decisions.version == 6


def test_an_undo_goes_back_step_by_step_in_its_own_tab(path: Path) -> None:
    with DecisionLog(path) as log:
        decide(log, "e1", 1, "keep", tab="a")
        decide(log, "e2", 1, "drop", tab="b")
        decide(log, "e3", 2, "relabel", tab="a")
        assert undone(log, "u1", "a") == "e3"
        assert current(log) == {1: "drop"}
        # The one before is of sample 1, on which another tab decided since: that stays.
        assert undone(log, "u2", "a") == "e1"
        assert current(log) == {1: "drop"}
        assert log.undo("u3", "a") is None
        assert undone(log, "u4", "b") == "e2"
        assert current(log) == {}
        decide(log, "e4", 2, "skip", tab="a")
        assert undone(log, "u5", "a") == "e4"
    assert current_of(path) == {}


def current_of(path: Path) -> dict[int, str]:
    decisions, _ = read_decisions(path)
    return {index: event.action for index, event in decisions.all_current().items()}


def test_an_undo_brings_back_what_was_decided_before(path: Path) -> None:
    with DecisionLog(path) as log:
        decide(log, "e1", 1, "keep")
        decide(log, "e2", 1, "drop")
        log.undo("u1", "a")
    assert current_of(path) == {1: "keep"}


def test_what_is_sent_twice_counts_once(path: Path) -> None:
    with DecisionLog(path) as log:
        first = decide(log, "e1", 1)
        decide(log, "e2", 2)
        assert decide(log, "e1", 1, "drop") == first
        event = log.undo("u1", "a")
        assert log.undo("u1", "a") == event
        assert current(log) == {1: "keep"}
    with DecisionLog(path) as again:  # also after a restart
        assert again.undo("u1", "a") == event
        assert again.decisions.version == 3


@pytest.mark.parametrize("torn", [b'{"event": "e3", "ta', b"\0\0\0\0", b'{"event":"\xc3'])
def test_a_line_torn_by_a_crash_is_mended(path: Path, torn: bytes) -> None:
    with DecisionLog(path) as log:
        decide(log, "e1", 1)
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert current_of(path) == {1: "keep"}  # who only reads does not touch it
    assert path.read_bytes() == whole + torn
    with DecisionLog(path) as log:
        assert path.read_bytes() == whole
        decide(log, "e3", 3)
    assert current_of(path) == {1: "keep", 3: "keep"}


def lines_of(path: Path, number: int) -> list[bytes]:
    with DecisionLog(path) as log:
        for index in range(number):
            decide(log, f"e{index}", index)
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("left", [0, 2, 3])
def test_a_log_that_lost_whole_lines_is_refused(path: Path, left: int) -> None:
    kept = lines_of(path, 4)[:left]
    path.write_bytes(b"".join(kept))
    for read in (read_decisions, DecisionLog):
        with pytest.raises(DiscrimLossError, match=r"bytes, but [\d,]+ were saved"):
            read(path)
    assert path.read_bytes() == b"".join(kept)
    path.with_suffix(".saved").unlink()  # as the sentence says
    assert len(current_of(path)) == left
    DecisionLog(path).close()
    assert len(current_of(path)) == left


def test_a_log_that_was_changed_or_cut_within_a_line_is_refused(path: Path) -> None:
    whole = b"".join(lines_of(path, 3))
    for damaged in (
        whole.replace(b"keep", b"drop", 1),
        whole.replace(b"keep", b"keeq", 1),
        whole[: whole.index(b"\n") + 1] + whole,
    ):
        path.write_bytes(damaged)
        with pytest.raises(DiscrimLossError, match="differs from what was saved"):
            read_decisions(path)
    path.write_bytes(whole[:-9])
    with pytest.raises(DiscrimLossError, match="decisions are missing"):
        DecisionLog(path)
    path.with_suffix(".saved").unlink()
    for read in (read_decisions, DecisionLog):  # also without the record, as in 0.1
        with pytest.raises(DiscrimLossError, match=r"last line of .* is incomplete"):
            read(path)
    path.write_bytes(whole)
    assert len(current_of(path)) == 3


def test_a_log_that_is_missing_is_refused_and_one_that_was_moved_with_its_record_begins_anew(
    path: Path,
) -> None:
    lines_of(path, 3)
    path.rename(path.with_name("old"))
    for read in (read_decisions, DecisionLog):
        with pytest.raises(DiscrimLossError, match=r"is missing, but [\d,]+ bytes of decisions"):
            read(path)
    assert not path.exists()
    path.with_suffix(".saved").rename(path.with_name("old.saved"))
    with DecisionLog(path) as log:
        decide(log, "e9", 9)
    assert current_of(path) == {9: "keep"}


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b"[1]",
        b"\xff",
        b'{"event": "x"}',
        b'{"event":"x","tab":"a","action":"explode","index":1,"id":"s1","time":"t"}',
        b'{"event":"x","tab":"a","action":"relabel","index":1,"id":"s1","time":"t"}',
        b'{"event":"x","tab":"a","action":"keep","index":-1,"id":"s1","time":"t"}',
        b'{"event":"x","tab":"a","action":"undo","index":1,"id":"s1","time":"t","undoes":"nix"}',
        b'{"event":"e1","tab":"a","action":"keep","index":1,"id":"s1","time":"t"}',
    ],
)
def test_a_line_that_is_no_decision_is_told_and_kept(path: Path, line: bytes) -> None:
    with DecisionLog(path) as log:
        decide(log, "e1", 1)
    path.write_bytes(path.read_bytes() + line + b"\n")
    before = path.read_bytes()
    with pytest.raises(DiscrimLossError, match=r"line 2 of .* is not a decision"):
        DecisionLog(path)
    assert path.read_bytes() == before
    path.write_bytes(before[: before.index(b"\n") + 1])
    DecisionLog(path).close()  # the lock of the failed one is gone


def test_there_is_one_writer(path: Path) -> None:
    with DecisionLog(path) as log:
        with pytest.raises(LockedError, match="is already being reviewed"):
            DecisionLog(path)
        decide(log, "e1", 1)
    with DecisionLog(path) as log:
        decide(log, "e2", 2)
    assert current_of(path) == {1: "keep", 2: "keep"}


def test_a_write_that_fails_leaves_the_log_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DecisionLog(path) as log:
        decide(log, "e1", 1)
        before = path.read_bytes()

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(DiscrimLossError, match="No space left"):
                decide(log, "e2", 2)
        assert path.read_bytes() == before
        assert current(log) == {1: "keep"}
        decide(log, "e2", 2)  # the page sends it again
    assert current_of(path) == {1: "keep", 2: "keep"}


def test_a_decision_after_the_end_is_not_said_to_be_saved(path: Path) -> None:
    with DecisionLog(path) as log:
        decide(log, "e1", 1)
    with pytest.raises(DiscrimLossError, match="has ended"):
        decide(log, "e2", 2)
    assert current(log) == {1: "keep"} == current_of(path)


def test_many_threads_lose_nothing(path: Path) -> None:
    with DecisionLog(path) as log:

        def work(tab: str) -> None:
            for index in range(20):
                decide(log, f"{tab}-{index}", index, tab=tab)

        threads = [threading.Thread(target=work, args=(tab,)) for tab in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    decisions, length = read_decisions(path)
    assert {event.event for event in decisions.events} == {
        f"{tab}-{index}" for tab in "abcd" for index in range(20)
    }
    assert length == path.stat().st_size


def test_names_in_any_encoding_come_back(path: Path) -> None:
    odd = "caf\udce9.png"  # as a file name that is not UTF-8 is read
    with DecisionLog(path) as log:
        log.decide("e1", "a", "relabel", 0, odd, "naïve")
    decisions, _ = read_decisions(path)
    assert (decisions.events[0].id, decisions.events[0].label) == (odd, "naïve")
    require_same_samples(decisions, (odd,), path)


def test_decisions_on_other_samples_are_refused(path: Path) -> None:
    decisions = Decisions([Event("e1", "a", "keep", 1, "s1", "t")])
    require_same_samples(decisions, ("s0", "s1"), path)
    for ids in (("s0",), ("s1", "s0")):
        with pytest.raises(DiscrimLossError, match="'s1', which is not a sample of this audit"):
            require_same_samples(decisions, ids, path)


def test_numbers_as_labels() -> None:
    assert [regression_label(label) for label in (2, 2.5, "1e3", " 4 ")] == [2.0, 2.5, 1000.0, 4.0]
    for label in ("cat", "", "nan", "inf", None, True, [1], float("nan")):
        with pytest.raises(ValueError, match="not a finite number"):
            regression_label(label)
