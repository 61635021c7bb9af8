"""Which samples a review shows, against plain loops over the verdicts."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from audit_fixtures import MadeAudit, MadeSource, made_audit, verdict_frame, write_audit

from discrimloss.auditing.review.queue import Filter, ReviewQueue
from discrimloss.auditing.review.session import RequestError, ReviewSession
from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.contents import SampleView
from discrimloss.errors import DiscrimLossError
from discrimloss.judging.verdicts import Verdicts

STATES = {"keep": "decided", "relabel": "decided", "drop": "decided", "skip": "skipped"}


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MadeAudit:
    """60 samples of 4 classes in no order of index, half of them decided."""
    made = made_audit(monkeypatch, tmp_path, number=60, labels=("a", "b", "c", "d"))
    shuffled = np.random.default_rng(0).random(60)
    made.frame = verdict_frame(made.source, [*made.source.labels[1:], "a"], shuffled)
    write_audit(made.path, made.source, made.frame)
    return made


def decide(session: ReviewSession, index: int, action: str, name: str = "") -> dict:  # type: ignore[type-arg]
    request = {"event": name or f"{action}-{index}", "tab": "t", "action": action, "index": index}
    return session.decide(request | ({"label": "b"} if action == "relabel" else {}))


def test_filters_against_a_loop(audit: MadeAudit) -> None:
    session = audit.session()
    actions = {index: tuple(STATES)[index % 4] for index in range(0, 60, 2)}
    for index, action in actions.items():
        decide(session, index, action)
    rows = audit.frame.to_dict("records")
    verdicts = (None, "incorrect", "hard", "easy", "unseen")
    for verdict, given, state in product(
        verdicts, (None, "a", "d", "nix"), (None, "open", "decided", "skipped")
    ):
        expected = [
            row["index"]
            for row in rows
            if verdict in (None, row["verdict"])
            and given in (None, row["given_label"])
            and state in (None, STATES.get(actions.get(row["index"], ""), "open"))
        ]
        wanted = Filter(verdict, given, state)
        pages = [session.samples(wanted, offset, None, 7) for offset in range(0, 61, 7)]
        assert [row["index"] for page in pages for row in page["rows"]] == expected
        assert {page["total"] for page in pages} == {len(expected)}
    session.close()


def test_rows_say_what_the_table_says(audit: MadeAudit) -> None:
    session = audit.session()
    answer = session.samples(Filter(), 0, None, 60)
    for rank, (row, known) in enumerate(
        zip(answer["rows"], audit.frame.to_dict("records"), strict=True)
    ):
        assert (row["rank"], row["index"], row["id"]) == (rank, known["index"], known["id"])
        assert (row["given"], row["suggested"]) == (known["given_label"], known["suggested_label"])
        assert row["verdict"] == known["verdict"]
        assert row["p_incorrect"] == pytest.approx(known["p_incorrect"])
        assert row["decision"] is None
    session.close()


def test_what_comes_next(audit: MadeAudit) -> None:
    session = audit.session()
    incorrect = audit.frame.query("verdict == 'incorrect'")["index"].tolist()
    wanted = Filter("incorrect")
    assert session.samples(wanted, 0, None, 5)["next"] == incorrect[0]
    decide(session, incorrect[1], "keep")
    around = session.samples(wanted, None, incorrect[0], 5)
    assert around["next"] == incorrect[2]
    assert (around["position"], around["contains"]) == (0, True)
    # After the last one come those that were passed over.
    assert session.samples(wanted, None, incorrect[-1], 5)["next"] == incorrect[0]
    assert session.samples(Filter("incorrect", None, "decided"), 0, None, 5)["next"] == incorrect[1]
    outside = session.samples(Filter("incorrect", None, "open"), None, incorrect[1], 5)
    assert not outside["contains"]
    assert outside["next"] == incorrect[2]
    for index in incorrect:
        decide(session, index, "drop", f"all-{index}")
    done = session.samples(wanted, None, incorrect[0], 5)
    assert done["next"] is None
    assert done["progress"] == {"open": 0, "decided": len(incorrect), "skipped": 0}
    session.close()


def test_few_classes_have_the_same_keys_for_every_sample(audit: MadeAudit) -> None:
    queue = ReviewQueue(audit.directory.verdicts(), audit.source)
    assert {tuple(queue.choices(rank)) for rank in range(len(queue))} == {("a", "b", "c", "d")}


def test_classes_that_are_digits_are_on_their_own_keys(tmp_path: Path) -> None:
    source = MadeSource(tmp_path, ["0", "3", "7"], [SampleView(text="x")] * 3, "text")
    frame = verdict_frame(source, ["3", "7", "0"], [0.9, 0.8, 0.7])
    queue = ReviewQueue(Verdicts.from_pandas(frame), source)
    assert queue.choices(0) == [None, None, "3", None, None, None, "7", None, None, "0"]


def test_choices_follow_what_is_suggested_for_the_class(tmp_path: Path) -> None:
    names = [f"class{number:02d}" for number in range(30)]
    given = names + [names[0]] * 9
    suggested = names[1:] + [names[0]] + [names[20]] * 5 + [names[7]] * 3 + [None]
    source = MadeSource(tmp_path, given, [SampleView(text="")] * len(given), "text")
    frame = verdict_frame(source, suggested, np.full(len(given), 0.9))
    queue = ReviewQueue(Verdicts.from_pandas(frame), source)
    first = queue.choices(int(queue.rank_of[0]))
    assert first[:3] == [names[20], names[7], names[1]]
    assert len(first) == len(set(first)) == 10
    assert names[0] not in first
    nothing_suggested = int(queue.rank_of[len(given) - 1])
    assert queue.choices(nothing_suggested) == first  # the same keys for all of a given class
    assert queue.row(nothing_suggested, None)["suggested"] is None


def test_a_hundred_thousand_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = 100_000
    labels = [f"class {index % 300}" for index in range(number)]
    source = MadeSource(tmp_path / "source", labels, [], "text")
    p = np.random.default_rng(1).random(number)
    frame = verdict_frame(source, labels, p)
    queue = ReviewQueue(Verdicts.from_pandas(frame), source)
    last = queue.ranks(Filter("incorrect", "class 7"))[-1]
    assert queue.row(int(last), None)["given"] == "class 7"
    assert len(queue.ranks(Filter("incorrect"))) == int((p.astype(np.float32) > 0.7).sum())


def test_what_cannot_be_shown_can_still_be_decided_on(
    audit: MadeAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(index: int) -> SampleView:
        raise SourceError(f"picture {index} is gone")

    monkeypatch.setattr(audit.source, "view", gone)
    session = audit.session()
    assert session.sample(4)["unreadable"] == "picture 4 is gone"
    with pytest.raises(RequestError, match="picture 4 is gone"):
        session.image(4)
    assert decide(session, 4, "drop")["row"]["state"] == "decided"
    session.close()


def test_verdicts_of_another_source_are_refused(audit: MadeAudit) -> None:
    def refuses(frame: pd.DataFrame, sentence: str) -> None:
        write_audit(audit.path, audit.source, frame)
        with pytest.raises(DiscrimLossError, match=sentence):
            audit.session()

    fewer = audit.frame.query("index < 10")
    refuses(fewer, "do not belong to the 60 samples")
    refuses(audit.frame.assign(given_label="zebra"), "'zebra', which its source does not know")
    refuses(audit.frame.drop(columns="p_incorrect"), "lacks the columns p_incorrect")
    (audit.path / "verdicts.parquet").write_bytes(b"no parquet")
    with pytest.raises(DiscrimLossError, match="cannot read"):
        audit.session()


def test_conflicts_are_told_and_both_decisions_kept(audit: MadeAudit) -> None:
    session = audit.session()

    def send(name: str, tab: str, action: str, seen: str | None) -> dict[str, object]:
        return session.decide(
            {"event": name, "tab": tab, "action": action, "index": 5, "seen": seen}
        )

    assert send("e1", "one", "keep", None)["conflict"] is None
    late = send("e2", "two", "drop", None)  # had not seen e1
    assert late["conflict"]["event"] == "e1"  # type: ignore[index]
    assert late["row"]["decision"]["action"] == "drop"  # type: ignore[index]
    assert send("e2", "two", "drop", None)["conflict"] is None  # the same again
    assert send("e3", "one", "skip", "e2")["conflict"] is None  # had seen it
    session.decide({"event": "u1", "tab": "one", "action": "undo"})
    changes = session.state(1)
    assert changes["version"] == 4
    assert [change["decision"]["event"] for change in changes["changes"]] == ["e2"]
    session.close()


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ([], "must be a JSON object"),
        ({"event": "e", "tab": "", "action": "keep", "index": 1}, "must be names"),
        ({"event": "../x", "tab": "t", "action": "keep", "index": 1}, "must be names"),
        ({"event": "e", "tab": "t", "action": "explode", "index": 1}, "action must be one of"),
        ({"event": "e", "tab": "t", "action": "keep", "index": 60}, "no sample 60"),
        ({"event": "e", "tab": "t", "action": "keep", "index": -1}, "no sample -1"),
        ({"event": "e", "tab": "t", "action": "keep", "index": True}, "no sample True"),
        ({"event": "e", "tab": "t", "action": "keep"}, "no sample None"),
        ({"event": "e", "tab": "t", "action": "relabel", "index": 1}, "name of a class"),
        (
            {"event": "e", "tab": "t", "action": "relabel", "index": 1, "label": 3},
            "name of a class",
        ),
        (
            {"event": "e", "tab": "t", "action": "relabel", "index": 1, "label": "x" * 201},
            "at most 200",
        ),
        (
            {"event": "e", "tab": "t", "action": "relabel", "index": 1, "label": "a\nb"},
            "must be printable",
        ),
        (
            {"event": "e", "tab": "t", "action": "relabel", "index": 1, "label": "\ud800"},
            "must be printable",
        ),
        ({"event": "e", "tab": "t", "action": "undo"}, "nothing to undo"),
    ],
)
def test_bad_decisions_are_refused(audit: MadeAudit, request_: object, sentence: str) -> None:
    session = audit.session()
    with pytest.raises(RequestError, match=sentence):
        session.decide(request_)
    assert session.log.decisions.version == 0
    session.close()


@pytest.mark.parametrize("label", ["../up", "a/b", "a\\b", "..", ".hidden", "a:b"])
def test_a_new_class_of_images_is_the_name_of_a_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, label: str
) -> None:
    session = made_audit(monkeypatch, tmp_path, "images").session()
    (tmp_path / "source").mkdir()
    request = {"event": "e", "tab": "t", "action": "relabel", "index": 1}
    with pytest.raises(RequestError, match="name of a folder"):
        session.decide(request | {"label": label})
    assert session.decide(request | {"label": "fox"})["row"]["decision"]["label"] == "fox"
    session.close()


def test_a_regression_takes_numbers_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    session = made_audit(monkeypatch, tmp_path, "table", labels=(1.0, 2.0)).session()
    request = {"event": "e", "tab": "t", "action": "relabel", "index": 1}
    with pytest.raises(RequestError, match="must be a number"):
        session.decide(request | {"label": "cat"})
    assert session.decide(request | {"label": "2.75"})["row"]["decision"]["label"] == 2.75
    assert session.sample(1)["fields"][1] == ["colour", "<b>red</b>"]
    session.close()
