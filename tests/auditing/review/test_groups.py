"""Orders and groups of a review, against plain loops; whole groups decided on and taken back."""

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_fixtures import MadeAudit, made_audit

from discrimloss.auditing.review.new_labels import RequestError
from discrimloss.auditing.review.orders import LARGEST_GROUP, grouped
from discrimloss.auditing.review.queue import Filter
from discrimloss.auditing.review.session import ReviewSession
from discrimloss.auditing.review.similar import similar_codes
from discrimloss.auditing.sources.contents import SampleView


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MadeAudit:
    return made_audit(monkeypatch, tmp_path, number=60, labels=("a", "b", "c"))


def decide(session: ReviewSession, name: str, action: str, **more: Any) -> dict[str, Any]:
    return session.decide({"event": name, "tab": "t", "action": action, **more})


def test_groups_come_by_what_there_is_to_gain() -> None:
    rng = np.random.default_rng(3)
    code, gain = rng.integers(-1, 6, 400), rng.random(400)
    order = grouped(code, gain)
    assert sorted(order.rank) == list(range(400))
    assert order.place[order.rank].tolist() == list(range(400))
    seen = []
    for number, ranks in groupby(order.rank.tolist(), key=lambda rank: order.group[rank]):
        members = list(ranks)
        assert members == sorted(members)  # worst first
        if number >= 0:
            assert len({code[rank] for rank in members}) == 1
            assert len(members) <= LARGEST_GROUP
            seen.append((number, code[members[0]]))
    assert [number for number, _ in seen] == list(range(len(seen)))
    by_gain = sorted(range(6), key=lambda value: -gain[code == value].sum())
    assert [value for value, _ in groupby(value for _, value in seen)] == by_gain


def test_by_class_keeps_given_and_suggested_together(audit: MadeAudit) -> None:
    session = audit.session()
    rows = session.samples(Filter("incorrect"), 0, None, 60, "class")["rows"]
    pairs = [key for key, _ in groupby((row["given"], row["suggested"]) for row in rows)]
    assert sorted(pairs) == [("a", "b"), ("b", "c"), ("c", "a")]
    around = session.samples(Filter("incorrect"), None, rows[0]["index"], 5, "class")
    group = around["group"]
    assert (group["number"], group["groups"]) == (1, 3)
    expected = [row["index"] for row in rows if row["given"] == rows[0]["given"]]
    assert [row["index"] for row in group["rows"]] == expected
    assert group["rows"][0]["glimpse"] == f"the text of {expected[0]}"
    session.close()


def test_copies_come_together_whatever_their_verdict(audit: MadeAudit) -> None:
    audit.source.views[50] = SampleView(text="The  text of 4")
    session = audit.session()
    answer = session.samples(Filter("incorrect"), None, 4, 5, "duplicates")
    assert answer["position"] == 0
    assert [row["index"] for row in answer["group"]["rows"]] == [4, 50]
    assert session.samples(Filter("incorrect"), None, 5, 5, "duplicates")["group"] is None
    session.close()


def test_similar_texts_come_together(audit: MadeAudit) -> None:
    animals, cars = "the cat sat on the mat", "an engine with four wheels"
    audit.source.views = [SampleView(text=(animals, cars)[i % 2] + f" {i}") for i in range(60)]
    codes = similar_codes(audit.source, np.arange(60))
    assert not set(codes[::2]) & set(codes[1::2])
    session = audit.session()
    assert len(session.samples(Filter("incorrect"), None, 0, 5, "similar")["group"]["rows"]) > 1
    session.close()


def test_a_group_is_accepted_at_once_and_taken_back_at_once(audit: MadeAudit) -> None:
    session = audit.session()
    decide(session, "one", "drop", index=3)
    wanted = {"indices": [0, 3, 6, 9, 6]}
    answer = decide(session, "all", "accept", **wanted)
    assert [(row["index"], row["decision"]["label"]) for row in answer["rows"]] == [
        (0, "b"),
        (6, "b"),
        (9, "b"),
    ]
    again = decide(session, "all", "accept", **wanted)  # sent twice, it counts once
    assert [row["index"] for row in again["rows"]] == [0, 6, 9]
    assert session.log.decisions.version == 4
    with pytest.raises(RequestError, match="decided already"):
        decide(session, "more", "keep", indices=[0, 3])
    undone = decide(session, "back", "undo")
    assert [row["state"] for row in undone["rows"]] == ["open"] * 3
    assert session.decided.row(int(session.queue.rank_of[3]))["state"] == "decided"
    session.close()
    reopened = audit.session()  # the log says the same
    assert list(reopened.log.decisions.all_current()) == [3]
    decide(reopened, "kept", "keep", indices=[1, 2])
    decide(reopened, "back2", "undo")
    decide(reopened, "back3", "undo")
    assert reopened.log.decisions.all_current() == {}
    reopened.close()


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"action": "drop", "indices": [1]}, "must be keep or accept"),
        ({"action": "keep", "indices": []}, "list of 1 to"),
        ({"action": "keep", "indices": list(range(49))}, "list of 1 to"),
        ({"action": "keep", "indices": [1, "2"]}, "no sample 2"),
        ({"action": "keep", "indices": [1], "event": "e" * 60}, "at most 56"),
    ],
)
def test_bad_groups_are_refused(audit: MadeAudit, request_: dict[str, Any], sentence: str) -> None:
    session = audit.session()
    with pytest.raises(RequestError, match=sentence):
        session.decide({"event": "e", "tab": "t"} | request_)
    assert session.log.decisions.version == 0
    session.close()
