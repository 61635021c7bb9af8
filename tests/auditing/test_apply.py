"""`discrimloss apply`: what is written, what is logged, what is refused, and all or nothing."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from audit_fixtures import RESULT, MadeAudit, made_audit, verdict_frame
from command_line import refused, snapshot

from discrimloss.auditing.apply import Automatic, Change, find_changes, write_directory
from discrimloss.auditing.directory import CHANGES
from discrimloss.auditing.outputs import of_emptied_classes
from discrimloss.auditing.review.decision_log import DecisionLog
from discrimloss.auditing.review.decisions import Decisions
from discrimloss.auditing.sources.base import SourceOptions
from discrimloss.auditing.sources.open_source import open_source
from discrimloss.cli import main
from discrimloss.judging.verdicts import EASY, INCORRECT, Verdicts

DECISIONS = (
    ("keep", 0, None),
    ("relabel", 1, "emu"),
    ("relabel", 2, "emu"),  # which is what it was
    ("drop", 3, None),
    ("skip", 4, None),
    ("relabel", 5, "fox"),
    ("relabel", 6, "dog"),
    ("reopen", 6, None),
)


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MadeAudit:
    """12 samples, cat, dog and emu in turn; 0 to 3 are incorrect."""
    return made_audit(monkeypatch, tmp_path)


def decide(audit: MadeAudit, decisions: object = DECISIONS) -> None:
    with DecisionLog(audit.path / "decisions.jsonl", now=lambda: "noon") as log:
        for number, (action, index, label) in enumerate(decisions):  # type: ignore[arg-type, misc]
            log.decide(f"e{number}", "t", action, index, audit.source.ids[index], label)


def labels(directory: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((directory / RESULT).read_text("utf-8"))
    return content


def changes(directory: Path) -> dict[str, tuple[str, ...]]:
    with (directory / CHANGES).open(encoding="utf-8", newline="") as file:
        return {
            row["id"]: (row["change"], row["label_before"], row["label_after"], row["decided_by"])
            for row in csv.DictReader(file)
        }


def test_what_was_decided_is_written_and_logged(
    audit: MadeAudit, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(audit)
    assert main(["apply", str(audit.path)]) == 0
    expected = dict(zip(audit.source.ids, audit.source.labels, strict=True))
    del expected["sample-003"]
    expected |= {"sample-001": "emu", "sample-005": "fox"}
    assert labels(audit.path / "corrected") == expected
    assert changes(audit.path / "corrected") == {
        "sample-000": ("kept", "cat", "cat", "review"),
        "sample-001": ("relabelled", "dog", "emu", "review"),
        "sample-002": ("kept", "emu", "emu", "review"),
        "sample-003": ("dropped", "cat", "", "review"),
        "sample-005": ("relabelled", "emu", "fox", "review"),
    }
    assert "noon" in (audit.path / "corrected" / CHANGES).read_text("utf-8")
    printed = capsys.readouterr().out
    assert "2 relabelled, 1 dropped, 2 reviewed and kept." in printed
    assert "called incorrect" not in printed  # all four are decided on
    assert str(audit.path / "corrected" / RESULT) in printed
    assert str(audit.path / "corrected" / CHANGES) in printed


def test_suggestions_are_taken_where_nobody_looked(
    audit: MadeAudit, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    decide(audit, (("keep", 0, None), ("skip", 2, None)))
    out = tmp_path / "out"
    p = {row["index"]: row["p_incorrect"] for row in audit.frame.to_dict("records")}
    limit = p[1] - 1e-4  # samples 0 and 1 reach it; 2 does not
    command = ["apply", str(audit.path), "--out", str(out), "--accept-suggestions", str(limit)]
    assert main(command) == 0
    assert changes(out) == {
        "sample-000": ("kept", "cat", "cat", "review"),
        "sample-001": ("relabelled", "dog", "emu", "accepted suggestion"),
    }
    assert "2 more are called incorrect" in capsys.readouterr().out  # 2, which was skipped, and 3
    assert main([*command, "--drop-incorrect", "--overwrite"]) == 0
    assert changes(out)["sample-003"] == ("dropped", "cat", "", "dropped as incorrect")
    assert "sample-002" not in changes(out)  # a person looked and could not tell
    assert "1 more are called incorrect" in capsys.readouterr().out


def test_suggestions_without_a_review(audit: MadeAudit) -> None:
    assert main(["apply", str(audit.path), "--accept-suggestions", "0"]) == 0
    assert set(labels(audit.path / "corrected")) == set(audit.source.ids)
    follows = {"cat": "dog", "dog": "emu", "emu": "cat"}
    assert list(labels(audit.path / "corrected").values()) == [
        follows[str(label)] for label in audit.source.labels
    ]


def test_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    audit = made_audit(monkeypatch, tmp_path, "table", labels=(1.0, 2.0))
    decide(audit, (("relabel", 0, 7.25), ("relabel", 1, 2.0)))
    assert main(["apply", str(audit.path)]) == 0
    assert labels(audit.path / "corrected")["sample-000"] == 7.25
    assert changes(audit.path / "corrected") == {
        "sample-000": ("relabelled", "1.0", "7.25", "review"),
        "sample-001": ("kept", "2.0", "2.0", "review"),
    }


def test_a_class_name_does_not_pass_for_a_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = made_audit(monkeypatch, tmp_path, "table", labels=(1.0, 2.0))
    decide(audit, (("relabel", 0, "cat"),))
    assert "but labels must be numbers" in refused(capsys, "apply", str(audit.path))


def test_nothing_to_apply(audit: MadeAudit, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there are no decisions" in refused(capsys, "apply", str(audit.path))
    decide(audit, (("skip", 1, None), ("keep", 2, None), ("reopen", 2, None)))
    before = snapshot(audit.path)
    assert "there are no decisions" in refused(capsys, "apply", str(audit.path))
    assert snapshot(audit.path) == before


def test_a_cut_log_is_refused_in_one_sentence(
    audit: MadeAudit, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(audit)
    log = audit.path / "decisions.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-2]))
    for command in ("apply", "review"):
        assert "decisions are missing" in refused(capsys, command, str(audit.path))
    assert not (audit.path / "corrected").exists()


def test_an_earlier_result_is_replaced_only_if_told(
    audit: MadeAudit, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(audit)
    assert main(["apply", str(audit.path)]) == 0
    capsys.readouterr()
    before = snapshot(audit.path)
    assert "pass --overwrite (overwrite=True) to" in refused(capsys, "apply", str(audit.path))
    assert snapshot(audit.path) == before
    decide(audit, (*DECISIONS, ("drop", 7, None)))
    assert main(["apply", str(audit.path), "--overwrite"]) == 0
    assert "sample-007" not in labels(audit.path / "corrected")
    assert {path.name for path in audit.path.iterdir() if path.is_dir()} == {"corrected"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_write_that_fails_leaves_everything_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    overwrite: bool,
) -> None:
    audit = made_audit(monkeypatch, tmp_path)
    decide(audit)
    if overwrite:
        assert main(["apply", str(audit.path)]) == 0
        capsys.readouterr()
    made_audit(monkeypatch, tmp_path, broken=True)
    before = snapshot(tmp_path)
    options = ["--overwrite"] if overwrite else []
    sentence = refused(capsys, "apply", str(audit.path), *options)
    assert "no space left on device" in sentence
    assert snapshot(tmp_path) == before


def test_a_result_that_cannot_take_its_place_leaves_the_earlier_one(
    audit: MadeAudit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(audit)
    assert main(["apply", str(audit.path)]) == 0
    capsys.readouterr()
    before = snapshot(audit.path)
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if "unfinished" in self.name and "earlier" not in self.name:
            raise OSError(13, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    assert "permission denied" in refused(capsys, "apply", str(audit.path), "--overwrite")
    assert snapshot(audit.path) == before


def test_places_that_are_refused(
    audit: MadeAudit, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    decide(audit)
    (tmp_path / "source" / "inside").mkdir(parents=True)
    (tmp_path / "source" / CHANGES).write_text("looks like an earlier result")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("")
    before = snapshot(tmp_path)
    for place, sentence in (
        (tmp_path / "source", "contains the source"),
        (tmp_path / "source" / "inside", "contains the source"),
        (tmp_path, "contains the source"),
        (audit.path, "the audit itself"),
        (tmp_path / "mine", "holds files other than"),
        (tmp_path / "file", "is not a directory"),
        (tmp_path / "no" / "where", "there is no directory"),
    ):
        arguments = ("apply", str(audit.path), "--out", str(place), "--overwrite")
        assert sentence in refused(capsys, *arguments)
    assert snapshot(tmp_path) == before


def test_not_everything_can_be_dropped(
    audit: MadeAudit, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(audit, tuple(("drop", index, None) for index in range(12)))
    assert "drop every sample" in refused(capsys, "apply", str(audit.path))


@pytest.mark.parametrize("p", ["-0.1", "1.5", "nan"])
def test_a_probability_is_from_0_to_1(
    audit: MadeAudit, capsys: pytest.CaptureFixture[str], p: str
) -> None:
    sentence = refused(capsys, "apply", str(audit.path), "--accept-suggestions", p)
    assert "from 0 to 1" in sentence


def test_no_class_is_emptied_without_a_review() -> None:
    verdicts = Verdicts(
        code=np.array([INCORRECT, INCORRECT, INCORRECT, EASY], dtype=np.int8),
        p_incorrect=np.array([0.99, 0.98, 0.97, 0.1], dtype=np.float32),
        score=np.array([4, 3, 2, -2], dtype=np.float32),
        given_label=["rare", "rare", "cat", "cat"],
        suggested_label=["cat", "cat", "dog", "cat"],
    )
    for automatic in (Automatic(drop_incorrect=True), Automatic(accept_from=0.9)):
        found = find_changes(verdicts, Decisions(), automatic, is_regression=False)
        assert [change.index for change in found] == [2]
    emptied = of_emptied_classes(verdicts.given_label, verdicts.code == INCORRECT)
    assert emptied.tolist() == [True, True, False, False]


def written_changes(place: Path) -> dict[str, dict[str, str]]:
    with (place / CHANGES).open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("id_column", [None, "name"])
def test_the_new_id_is_that_of_an_audit_of_the_corrected_table(
    tmp_path: Path, id_column: str | None
) -> None:
    texts = [f"text number {row}" for row in range(9)]
    rows = [f"n{row},{text},{'ab'[row % 2]}" for row, text in enumerate(texts)]
    rows[2] = "n2,text number 2,"  # no label: it is left out, and stays in the file
    (tmp_path / "t.csv").write_text("\n".join(["name,text,label", *rows]) + "\n", encoding="utf-8")
    options = SourceOptions(str(tmp_path / "t.csv"), "label", "text", id=id_column)
    source = open_source(options)
    assert len(source) == 8
    verdicts = Verdicts.from_pandas(verdict_frame(source, ["b"] * 8, [0.5] * 8))
    changes = [
        Change(0, "dropped", None, "review", "noon"),
        Change(1, "kept", "b", "review", "noon"),
        Change(4, "dropped", None, "review", "noon"),
        Change(6, "relabelled", "b", "review", "noon"),
        Change(7, "kept", "a", "review", "noon"),
    ]
    write_directory(source, verdicts, changes, tmp_path / "fixed")
    again = open_source(replace(options, path=str(tmp_path / "fixed" / "t.csv")))
    new_texts = {name: again.view(index).text for index, name in enumerate(again.ids)}
    logged = written_changes(tmp_path / "fixed")
    assert len(logged) == 5
    for index, change in ((change.index, change) for change in changes):
        new_id = logged[source.ids[index]]["id_after"]
        if change.change == "dropped":
            assert new_id == ""
        else:
            assert new_texts[new_id] == source.view(index).text
