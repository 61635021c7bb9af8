"""`discrimloss audit` from outside: what it says, refuses and leaves behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audit_runs import write_blobs
from command_line import refused
from PIL import Image

from discrimloss.auditing.progress import LineObserver
from discrimloss.cli import main
from discrimloss.cli.displays import print_audit

pytestmark = pytest.mark.usefixtures("quick_verdicts")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = {"size": np.arange(12.0), "kind": ["cat", "dog"] * 6, "same": ["x"] * 12}
    pd.DataFrame(rows).to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def test_what_cannot_be_audited(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"

    def sentence(*arguments: str) -> str:
        said = refused(capsys, "audit", *arguments, "--out", str(out))
        assert not (out / "audit.json").exists()
        return said

    assert "nowhere.csv" in sentence(str(tmp_path / "nowhere.csv"), "--label", "kind")
    assert "kindness" in sentence(str(table), "--label", "kindness")
    assert "class" in sentence(str(table), "--label", "same")
    (tmp_path / "empty").mkdir()
    assert "empty" in sentence(str(tmp_path / "empty"))
    labelled = (str(table), "--label", "kind")
    assert "--runs must be 1 or more, not 0" in sentence(*labelled, "--runs", "0")
    assert "--epochs must be 2 or more, not 1" in sentence(*labelled, "--epochs", "1")
    assert "--seed" in sentence(*labelled, "--seed", "-1")
    assert "--threads" in sentence(*labelled, "--threads", "-1")
    assert "pass only one of them" in sentence(*labelled, "--resume", "--overwrite")


def test_an_image_that_cannot_be_read_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, shade in (("cat", 40), ("dog", 200)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(4):
            picture = Image.new("L", (8, 8), shade + number)
            picture.save(tmp_path / "images" / name / f"{number}.png")
    (tmp_path / "images" / "cat" / "broken.png").write_bytes(b"no picture")
    out = tmp_path / "out"
    assert main(["audit", str(tmp_path / "images"), "--out", str(out), "--epochs", "2"]) == 0
    said = capsys.readouterr().out
    assert said.count("left out: ") == 1
    assert "Note: 1 file left out: " in said
    assert str(out / "left_out.csv") in said
    assert "cat/broken.png" in (out / "left_out.csv").read_text()


def test_the_end_of_an_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write_blobs(tmp_path / "blobs.npz", samples=60), tmp_path / "the results"
    arguments = ["audit", str(source), "--out", str(out), "--epochs", "3"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    for words in ("samples", "wrong labels, estimated", "called incorrect", "called hard"):
        assert any(words in line for line in lines), words
    start = next(row for row, line in enumerate(lines) if "The 5 most suspicious" in line)
    worst = pd.read_csv(out / "verdicts.csv", dtype=str)["id"].head(5).tolist()
    shown = [line.split("│")[1].strip() for line in lines[start:] if line.startswith("│")]
    assert shown[: len(worst)] == worst
    assert "discrimloss review" in captured.out
    assert f"'{out}'" in captured.out  # can be copied into a shell
    assert str(out / "report.html") in captured.out.replace("\n", "")
    assert "finished audit" in refused(capsys, *arguments)


def test_labels_are_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"id": "[red]a", "given_label": "[bold]x[/bold]", "suggested_label": "[/]"}
    summary: dict[str, Any] = {
        "samples": 2,
        "noise_estimated": 0.5,
        "verdicts": {"easy": 1, "hard": 0, "incorrect": 1},
        "seconds": 1.0,
        "worst": [{**row, "p_incorrect": 0.75}],
        "left_out": 1,
        "notes": ["the label is [bold]"],
    }
    print_audit(summary, tmp_path / "[i]out")
    said = capsys.readouterr().out
    for words in (*row.values(), "0.750", "50.0 %", "[i]out", "the label is [bold]", "left_out"):
        assert words in said


def test_stopped_and_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = write_blobs(tmp_path / "blobs.npz", samples=60), tmp_path / "out"
    arguments = ["audit", str(source), "--out", str(out), "--epochs", "3", "--no-regression"]

    def press_ctrl_c(observer: LineObserver, row: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(LineObserver, "on_epoch", press_ctrl_c)
        said = refused(capsys, *arguments, code=130)
    assert said.startswith("stopped after epoch 1; continue with: discrimloss audit ")
    assert said.endswith("--epochs 3 --no-regression --resume")
    assert "--resume to continue" in refused(capsys, *arguments)
    assert main([*arguments, "--resume"]) == 0
    assert (out / "summary.json").exists()


def test_what_is_stopped_before_it_replaces_an_audit_is_not_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = write_blobs(tmp_path / "blobs.npz", samples=60), tmp_path / "out"
    arguments = ["audit", str(source), "--out", str(out), "--no-regression"]
    assert main(arguments) == 0
    before = (out / "verdicts.csv").read_bytes()
    capsys.readouterr()

    def press_ctrl_c(observer: LineObserver, *progress: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(LineObserver, "on_step", press_ctrl_c)
        said = refused(capsys, *arguments, "--seed", "2", "--overwrite", code=130)
    assert said.startswith("stopped; continue with: discrimloss audit ")
    assert said.endswith("--overwrite")
    assert (out / "verdicts.csv").read_bytes() == before
