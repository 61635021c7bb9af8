"""`discrimloss report` from outside: what it writes, and what it refuses."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import refused, snapshot
from quick_verdicts import make_verdicts_quick
from tiny_data import write_mnist

from discrimloss.auditing.directory import AuditDirectory
from discrimloss.auditing.sources.base import SourceError
from discrimloss.cli import main

COMMON = ("batch_size=16", "tensorboard=false", "threads=1")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory, no data directory, and a page without Vega's megabyte."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("DISCRIMLOSS_DATA", raising=False)
    monkeypatch.setattr("discrimloss.auditing.report.page.vega_script", lambda: "")


def train(out: Path, *arguments: str) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        make_verdicts_quick(patch.setattr)
        assert main(["train", *arguments, *COMMON, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two small runs on digits, and one on images with their directory."""
    place = tmp_path_factory.mktemp("runs")
    digits = ("digits", "epochs=2", "train_size=48")
    data = write_mnist(place / "data")
    mnist = ("mnist", "epochs=1", "train_size=40", "--data", str(data))
    return {
        "first": train(place / "first", *digits),
        "second": train(place / "second", *digits, "seed=2"),
        "images": train(place / "images", *mnist),
        "data": data,
    }


@pytest.fixture
def run(finished: dict[str, Path], tmp_path: Path) -> Path:
    shutil.copytree(finished["first"], tmp_path / "run")
    return tmp_path / "run"


def test_a_run_gets_its_page(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(run)
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr().out == f"Report: {run / 'report.html'}\n"
    after = snapshot(run)
    assert set(after) - set(before) == {"report.html"}
    page = (run / "report.html").read_text("utf-8")
    assert "digits · discrimloss" in page
    assert "data:image/png" in page  # built in: its samples can be shown without --data

    sentence = refused(capsys, "report", str(run))
    assert "--overwrite" in sentence
    assert snapshot(run) == after
    (run / "report.html").write_text("old", "utf-8")
    assert main(["report", str(run), "--overwrite"]) == 0
    assert (run / "report.html").read_text("utf-8") == page


def test_several_runs_get_a_page_here(finished: dict[str, Path]) -> None:
    assert main(["report", str(finished["first"]), str(finished["second"])]) == 0
    page = Path("report.html").read_text("utf-8")
    assert re.search(r"\d ± \d", page)
    assert page.count('<details class="run">') == 2


def test_pictures_come_with_data(
    finished: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, page = str(finished["images"]), tmp_path / "new" / "page.html"
    assert main(["report", run, "--out", str(page)]) == 0
    text = page.read_text("utf-8")
    assert "pass --data DIR" in text
    assert "data:image/png" not in text
    data = str(finished["data"])
    assert main(["report", run, "--out", str(page), "--data", data, "--overwrite"]) == 0
    text = page.read_text("utf-8")
    assert "data:image/png" in text
    assert "pass --data DIR" not in text
    capsys.readouterr()
    other = write_mnist(tmp_path / "other", train=20)
    sentence = refused(capsys, "report", run, "--data", str(other), "--out", "x.html")
    assert "pass its training data" in sentence or "train_size" in sentence
    assert "no" in refused(capsys, "report", run, "--data", str(tmp_path), "--out", "x.html")
    assert not Path("x.html").exists()
    # A directory from the environment was not asked for: the report is made without pictures.
    monkeypatch.setenv("DISCRIMLOSS_DATA", str(tmp_path))
    assert main(["report", run, "--out", "x.html"]) == 0
    assert "Samples are shown by their index: cannot show" in Path("x.html").read_text("utf-8")


def test_an_unfinished_run_is_reported(run: Path) -> None:
    for name in ("summary.json", "verdicts.parquet"):
        (run / name).unlink()
    assert main(["report", str(run)]) == 0
    assert "This run is not finished" in (run / "report.html").read_text("utf-8")


def test_figures_one_by_one(
    finished: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figures"
    both = (str(finished["first"]), str(finished["second"]))
    assert main(["report", *both, "--format", "svg", "--out", str(out)]) == 0
    files = {name for name in snapshot(out) if name.endswith(".svg")}
    assert "comparison.svg" in files
    assert files - {"comparison.svg"} >= {
        f"{run}/{name}.svg"
        for run in ("1-first", "2-second")
        for name in ("losses", "curves", "data_map", "class_noise")
    }
    assert capsys.readouterr().out == f"{len(files)} figures: {out}\n"
    before = snapshot(out)
    assert "--overwrite" in refused(capsys, "report", *both, "--format", "svg", "--out", str(out))
    assert snapshot(out) == before


def test_what_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no directory" in refused(capsys, "report", str(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    assert "holds no run" in refused(capsys, "report", str(tmp_path / "empty"))
    assert "does not exist" in refused(capsys, "report", str(run), "--data", "nowhere")
    assert "--format" in refused(capsys, "report", str(run), "--format", "gif")
    (tmp_path / "file").write_text("", "utf-8")
    below = str(tmp_path / "file" / "x.html")
    assert "--out" in refused(capsys, "report", str(run), "--out", below)
    png = ("report", str(run), "--format", "png", "--out", str(tmp_path / "file"))
    assert "not a directory" in refused(capsys, *png)
    assert "RUN" in refused(capsys, "report")
    (run / "history.jsonl").write_text("{", "utf-8")
    assert "history.jsonl" in refused(capsys, "report", str(run))
    assert not (run / "report.html").exists()


def write_audit(directory: Path, run: Path) -> None:
    """An audit's files around a run, as `discrimloss audit` leaves them."""
    verdicts = pd.read_parquet(run / "verdicts.parquet")
    frame = pd.DataFrame(
        {
            "id": [f"row-{row}" for row in range(len(verdicts))],
            "given_label": verdicts["target"].astype(str),
            "suggested_label": [str((target + 1) % 10) for target in verdicts["target"]],
            "verdict": ["incorrect"] * 3 + ["hard"] * (len(verdicts) - 3),
            "p_incorrect": 0.9,
            "score": np.arange(len(verdicts)) / 1000,
            "average_loss": verdicts["average_loss"],
            "weight": verdicts["weight"],
            "index": range(len(verdicts)),
        }
    )
    shutil.copytree(run, directory / "runs" / "1")
    frame.to_parquet(directory / "verdicts.parquet")
    settings = {"source": {"path": "/somewhere/pictures.npz"}, "fingerprint": ""}
    (directory / "audit.json").write_text(json.dumps(settings), "utf-8")
    (directory / "summary.json").write_text(json.dumps({"seconds": 5.0}), "utf-8")


def test_an_audit_is_reported_with_its_own_verdicts(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(self: AuditDirectory) -> None:
        raise SourceError("there is no file or folder /somewhere/pictures.npz: check the path")

    monkeypatch.setattr(AuditDirectory, "source", gone)
    audit = tmp_path / "audit"
    write_audit(audit, run)
    assert main(["report", str(audit)]) == 0
    page = (audit / "report.html").read_text("utf-8")
    assert "Audit of pictures.npz" in page
    assert "Samples are not shown: there is no file or folder" in page
    first_rows = re.findall(r'<th scope="row">(row-\d+)</th>', page)[:3]
    assert first_rows == ["row-2", "row-1", "row-0"]  # in the audit's order
    assert main(["report", str(audit), "--format", "svg"]) == 0
    assert (audit / "figures" / "confusion.svg").is_file()
    capsys.readouterr()
    assert "has its own report" in refused(capsys, "report", str(audit), str(run))
    (audit / "summary.json").unlink()
    assert "not finished" in refused(capsys, "report", str(audit), "--overwrite")
