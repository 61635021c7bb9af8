"""Whole audits of small sources: what they leave behind, refuse and survive."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from audit_runs import (
    SAMPLES,
    WRONG,
    PressesCtrlC,
    audited,
    frame_of,
    run_audit,
    write_blobs,
    write_numbers,
)
from command_line import refused, snapshot
from judged_labels import f1_score

from discrimloss import DiscrimLossError, Verdicts
from discrimloss.auditing.directory import AuditDirectory
from discrimloss.cli import main
from discrimloss.training.interruption import Interrupted

COLUMNS = (
    "id",
    "given_label",
    "suggested_label",
    "verdict",
    "p_incorrect",
    "score",
    "average_loss",
    "weight",
    "index",
    "why",
)

pytestmark = pytest.mark.usefixtures("quick_verdicts")


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_blobs(tmp_path_factory.mktemp("source") / "blobs.npz")


@pytest.fixture(scope="module")
def audit(blobs: Path, tmp_path_factory: pytest.TempPathFactory) -> AuditDirectory:
    return audited(blobs, tmp_path_factory.mktemp("audits") / "out")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def is_wrong(frame: pd.DataFrame) -> torch.Tensor:
    return torch.from_numpy((frame["index"] < WRONG).to_numpy())


# What is left behind.


def test_the_files(audit: AuditDirectory) -> None:
    assert {path.name for path in audit.path.iterdir()} >= {
        "audit.json",
        "cleaned.csv",
        "evidence.parquet",
        "health.csv",
        "left_out.csv",
        "report.html",
        "runs",
        "summary.json",
        "verdicts.csv",
        "verdicts.parquet",
    }
    frame = frame_of(audit)
    assert sorted(frame["index"]) == list(range(SAMPLES))
    kept = pd.read_parquet(audit / "verdicts.parquet")
    assert tuple(kept.columns) == (*COLUMNS[:-2], "why")
    assert Verdicts.from_parquet(audit / "verdicts.parquet").noise_rate == pytest.approx(
        audit.summary()["noise_estimated"]
    )
    as_text = pd.read_csv(audit / "verdicts.csv", dtype={"id": str})
    assert tuple(as_text.columns) == COLUMNS
    for column in COLUMNS[:-1]:
        if frame[column].dtype.kind == "f":
            np.testing.assert_allclose(as_text[column], frame[column], rtol=1e-4, atol=1e-6)
        else:
            assert as_text[column].tolist() == frame[column].tolist()
    page = (audit / "report.html").read_text(encoding="utf-8")
    assert "cow" in page


def test_there_is_one_file_of_verdicts(audit: AuditDirectory) -> None:
    named = [path.relative_to(audit.path).as_posix() for path in audit.path.rglob("*verdicts*")]
    assert sorted(named) == ["verdicts.csv", "verdicts.parquet"]


def test_wrong_labels_come_first_with_the_right_ones_beside_them(audit: AuditDirectory) -> None:
    frame = frame_of(audit)
    assert frame["p_incorrect"].is_monotonic_decreasing
    assert frame["score"].is_monotonic_decreasing
    np.testing.assert_allclose(
        frame["p_incorrect"], 1 / (1 + np.exp(-frame["score"].astype(float))), atol=1e-6
    )
    assert is_wrong(frame)[:WRONG].double().mean() > 0.95
    assert not is_wrong(frame)[torch.from_numpy((frame["verdict"] == "easy").to_numpy())].any()
    called = torch.from_numpy((frame["verdict"] == "incorrect").to_numpy())
    assert ((frame["p_incorrect"] > 0.5) == (frame["verdict"] == "incorrect")).all()
    found = frame[called.numpy() & is_wrong(frame).numpy()]
    right = np.array(["ant", "bee", "cow"])[found["index"] % 3]
    assert (found["suggested_label"] == right).all()
    assert (frame["average_loss"] >= 0).all()
    assert (frame["weight"] > 0).all()


def test_what_to_keep_is_in_the_order_of_the_source(audit: AuditDirectory) -> None:
    frame = frame_of(audit).sort_values("index")
    kept = frame[frame["verdict"] != "incorrect"]
    rows = rows_of(audit / "cleaned.csv")
    assert [row["id"] for row in rows] == kept["id"].tolist()
    assert [row["label"] for row in rows] == kept["given_label"].tolist()


def test_the_summary_says_what_the_frame_says(audit: AuditDirectory) -> None:
    summary, frame = audit.summary(), frame_of(audit)
    assert summary["samples"] == len(frame)
    assert summary["noise_estimated"] == pytest.approx(frame["p_incorrect"].astype(float).mean())
    assert summary["noise_estimated"] == pytest.approx(WRONG / SAMPLES, abs=0.03)
    counts = frame["verdict"].value_counts()
    assert summary["verdicts"] == {
        name: int(counts.get(name, 0)) for name in ("easy", "hard", "undecided", "incorrect")
    }
    assert [row["id"] for row in summary["worst"]] == frame["id"].head(5).tolist()
    assert summary["classes"] == ["ant", "bee", "cow"]
    assert (summary["left_out"], summary["left_out_why"]) == (0, {})
    assert rows_of(audit / "left_out.csv") == []


def test_rows_without_a_label_are_left_out_and_told(tmp_path: Path) -> None:
    labels = np.array(["a", "b"] * 20)
    labels[[3, 8]] = ""
    points = np.where(labels == "a", -2.0, 2.0)[:, None] + np.linspace(0, 1, 40)[:, None]
    points[5] = np.nan
    source = tmp_path / "some.npz"
    np.savez(source, x=points.astype(np.float32), y=labels)
    audit = audited(source, tmp_path / "out", epochs=2)
    assert rows_of(audit / "left_out.csv") == [
        {"id": "3", "reason": "no label"},
        {"id": "5", "reason": "a feature is NaN or infinite"},
        {"id": "8", "reason": "no label"},
    ]
    assert audit.summary()["left_out_why"] == {"no label": 2, "a feature is NaN or infinite": 1}
    assert len(frame_of(audit)) == 37


# Interrupted and resumed.


@pytest.mark.parametrize("place", [(2, 3), (6, 5)], ids=["early", "late"])
def test_an_audit_that_was_stopped_ends_as_one_that_was_not(
    place: tuple[int, int], blobs: Path, audit: AuditDirectory, tmp_path: Path
) -> None:
    with pytest.raises(Interrupted):
        run_audit(blobs, tmp_path / "out", observe=PressesCtrlC(*place))
    stopped = AuditDirectory(tmp_path / "out")
    assert not stopped.is_finished
    assert not (stopped / "verdicts.csv").exists()
    with pytest.raises(DiscrimLossError, match="resume=True"):
        run_audit(blobs, tmp_path / "out")
    resumed = audited(blobs, tmp_path / "out", resume=True)
    pd.testing.assert_frame_equal(frame_of(resumed), frame_of(audit), check_exact=True)
    for name in ("verdicts.csv", "cleaned.csv"):
        assert (resumed / name).read_bytes() == (audit / name).read_bytes()
    traces = [snapshot(one / "runs" / "1" / "samples") for one in (resumed, audit)]
    assert traces[0] == traces[1]
    assert len(traces[0]) == 8


def test_a_finished_audit_is_resumed_to_itself(audit: AuditDirectory, blobs: Path) -> None:
    before = snapshot(audit.path)
    assert run_audit(blobs, audit.path, resume=True).summary == audit.summary()
    assert snapshot(audit.path) == before


# Several runs.


def test_several_runs_are_combined(blobs: Path, audit: AuditDirectory, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run_audit(blobs, tmp_path / "out", runs=2, observe=PressesCtrlC(3, 2, run=2))
    several = run_audit(blobs, tmp_path / "out", runs=2, resume=True)
    first, second = (run_audit(blobs, None, seed=seed).verdicts for seed in (0, 1))
    alone = audit.verdicts().p_incorrect
    assert np.array_equal(first.p_incorrect, alone)  # the first run is the one of a single audit
    assert not np.array_equal(first.p_incorrect, second.p_incorrect)
    mean = (first.p_incorrect.astype(float) + second.p_incorrect) / 2
    np.testing.assert_allclose(several.verdicts.p_incorrect, mean, rtol=1e-6)
    assert several.summary["runs"] == 2


# What is refused.


def test_a_finished_audit_is_not_overwritten(audit: AuditDirectory, blobs: Path) -> None:
    before = snapshot(audit.path)
    with pytest.raises(DiscrimLossError, match="overwrite=True"):
        run_audit(blobs, audit.path)
    for change in ({"epochs": 9}, {"runs": 2}, {"seed": 1}):
        with pytest.raises(DiscrimLossError, match=f"{next(iter(change))} was"):
            run_audit(blobs, audit.path, resume=True, **change)
    assert snapshot(audit.path) == before


def test_a_changed_source_is_not_gone_on_with(tmp_path: Path) -> None:
    source = write_blobs(tmp_path / "blobs.npz")
    with pytest.raises(Interrupted):
        run_audit(source, tmp_path / "out", observe=PressesCtrlC(1, 1))
    write_blobs(source, y=np.array(["ant", "bee", "cow"])[np.arange(SAMPLES) % 3])
    with pytest.raises(DiscrimLossError, match="has changed since the audit began"):
        run_audit(source, tmp_path / "out", resume=True)
    again = audited(source, tmp_path / "out", overwrite=True, epochs=2)
    assert again.is_finished


def test_decisions_are_not_overwritten(tmp_path: Path) -> None:
    source = write_blobs(tmp_path / "blobs.npz", samples=40)
    audit = audited(source, tmp_path / "out", epochs=2)
    (audit / "decisions.jsonl").write_text('{"action": "keep"}\n')
    (audit / "mine.txt").write_text("kept")
    before = snapshot(audit.path)
    with pytest.raises(DiscrimLossError, match="decisions of a review"):
        run_audit(source, audit.path, overwrite=True)
    assert snapshot(audit.path) == before
    (audit / "decisions.jsonl").rename(tmp_path / "elsewhere.jsonl")
    (audit / "changes.csv").write_text("of the audit before")
    audited(source, audit.path, epochs=3, overwrite=True)
    assert audit.settings()["epochs"] == 3
    assert not (audit / "changes.csv").exists()
    assert (audit / "mine.txt").read_text() == "kept"


def test_places_that_cannot_be_used(blobs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    (folder / "cat").mkdir(parents=True)
    with pytest.raises(DiscrimLossError, match="is in the audited folder"):
        run_audit(folder, folder / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(DiscrimLossError, match="not a directory"):
        run_audit(blobs, tmp_path / "file" / "out")
    with pytest.raises(DiscrimLossError, match="holds other files"):
        run_audit(blobs, tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["cat", "file", "images"]


def test_one_class_is_refused_and_nothing_begins(tmp_path: Path) -> None:
    source = tmp_path / "one.npz"
    np.savez(source, x=np.eye(6, dtype=np.float32), y=np.array(["a"] * 6))
    with pytest.raises(DiscrimLossError, match="class"):
        run_audit(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_start_that_fails_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "texts.csv", tmp_path / "out"
    pd.DataFrame({"text": ["good film", "bad film"] * 10, "kind": ["a", "b"] * 10}).to_csv(source)
    columns = ("--label", "kind", "--text", "text", "--out", str(out))
    printed = refused(capsys, "audit", str(source), *columns, "--encoder", "nope:encoder")
    assert "--encoder cannot be used" in printed
    assert not out.exists()
    out.mkdir()  # an empty directory of the user stays, and is not blocked
    refused(capsys, "audit", str(source), *columns, "--encoder", "nope:encoder")
    assert main(["audit", str(source), *columns, "--epochs", "2"]) == 0
    capsys.readouterr()
    before = {file.name: file.read_bytes() for file in out.iterdir() if file.is_file()}
    wrong = ("--encoder", "nope:encoder", "--overwrite")
    assert "--encoder cannot be used" in refused(capsys, "audit", str(source), *columns, *wrong)
    after = {file.name: file.read_bytes() for file in out.iterdir() if file.is_file()}
    assert after == before


def test_the_columns_are_named_on_the_terminal_in_summary_and_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    kind = np.where(rng.random(80) < 0.5, "a", "b")
    size = (kind == "a") + rng.normal(size=80)
    table = pd.DataFrame({"nr": range(80), "size": size, "code": kind == "a", "kind": kind})
    table.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    out = tmp_path / "out"
    assert main(["audit", str(tmp_path / "t.csv"), "--label", "kind", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "Learned from: size (numbers)" in printed
    assert "WARNING: the column 'code' leaks the label" in printed
    summary = json.loads((out / "summary.json").read_text())
    assert summary["learned_from"] == [{"name": "size", "read_as": "numbers"}]
    assert "'code'" in summary["warnings"][0]
    page = (out / "report.html").read_text()
    assert "size (numbers)" in page
    assert '<p class="note warning">the column &#39;code&#39; leaks the label' in page


# Small and odd data.


@pytest.mark.parametrize("labels", [["a", "b"], ["a", "a", "b"], ["a"] * 20 + ["b"]])
def test_very_little_data(labels: list[str], tmp_path: Path) -> None:
    source = tmp_path / "few.npz"
    points = np.random.default_rng(0).normal(size=(len(labels), 3)).astype(np.float32)
    np.savez(source, x=points, y=np.array(labels))
    audit = audited(source, tmp_path / "out", epochs=2)
    frame = frame_of(audit)
    assert len(frame) == len(labels)
    assert frame["p_incorrect"].between(0, 1).all()


def test_numbers_are_suggested_in_the_unit_of_the_labels(tmp_path: Path) -> None:
    audit = audited(write_numbers(tmp_path / "years.npz"), tmp_path / "out", epochs=None)
    frame = frame_of(audit)
    assert audit.summary()["classes"] == []
    assert frame["given_label"].between(1880, 2040).all()
    right = frame[~is_wrong(frame).numpy()]
    assert (right["suggested_label"] - right["given_label"]).abs().median() < 5.0
    called = torch.from_numpy((frame["verdict"] == "incorrect").to_numpy())
    assert f1_score(called, is_wrong(frame)) > 0.75
    assert json.loads((audit / "audit.json").read_text())["class_names"] == []


def test_a_source_that_is_refused_costs_no_earlier_audit(tmp_path: Path) -> None:
    source = write_blobs(tmp_path / "blobs.npz", samples=40)
    audit = audited(source, tmp_path / "out", epochs=2)
    before = snapshot(audit.path)
    source.write_bytes(b"no longer an archive")
    with pytest.raises(DiscrimLossError):
        run_audit(source, audit.path, overwrite=True)
    assert snapshot(audit.path) == before
