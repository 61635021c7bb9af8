"""`discrimloss.audit`: every kind of data, nothing on disk, and what the result can do."""

from __future__ import annotations

import copy
import json
import tempfile
import threading
import urllib.request
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from audit_runs import WRONG, PressesCtrlC, run_audit, write_blobs
from command_line import snapshot
from torch.utils.data import Dataset, TensorDataset

from discrimloss import AuditResult, DiscrimLossError, Verdicts, audit
from discrimloss.auditing.review.server import TOKEN_HEADER, ReviewServer
from discrimloss.auditing.review.serving import last_address
from discrimloss.cli import main

pytestmark = pytest.mark.usefixtures("quick_verdicts")

NAMES = np.array(["ant", "bee", "cow"])


def blobs(samples: int = 120) -> tuple[Any, Any, Any]:
    """Points in three clouds, their labels (the first `WRONG` are the next class), the truth."""
    rng = np.random.default_rng(0)
    true = np.arange(samples) % 3
    points = 4.0 * np.array([[0, 0], [1, 0], [0, 1]])[true] + rng.normal(0, 0.6, (samples, 2))
    given = (true + (np.arange(samples) < WRONG)) % 3
    return points.astype(np.float32), NAMES[given], NAMES[true]


def frame(samples: int = 120) -> pd.DataFrame:
    points, given, _ = blobs(samples)
    columns = {"x": points[:, 0], "y": points[:, 1], "kind": given}
    return pd.DataFrame(columns, index=[f"row {row}" for row in range(samples)])


@pytest.fixture(scope="module")
def result() -> AuditResult:
    return audit(frame(), "kind", epochs=6, progress=False)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory in which everything would be written that names no place."""
    place = tmp_path / "empty"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("TMPDIR", str(place))
    return place


def left_in(directory: Path) -> list[str]:
    """What is there, but for the cache of torch's compiler, which torch makes at its import."""
    names = (path.name for path in directory.iterdir())
    return [name for name in names if not name.startswith("torchinductor")]


# Every kind of data.


def texts() -> pd.DataFrame:
    words = {"fruit": "apple pear plum fig", "sky": "cloud moon star rain"}
    rng = np.random.default_rng(0)
    kinds = ["fruit", "sky"] * 20
    lines = [" ".join(rng.choice(words[kind].split(), 5)) for kind in kinds]
    return pd.DataFrame({"line": lines, "kind": kinds})


def pictures() -> tuple[Any, Any]:
    shade = np.where(np.arange(24) % 2, 220, 30)[:, None, None]
    noise = np.random.default_rng(0).integers(0, 20, (24, 8, 8))
    return (shade + noise).astype(np.uint8), np.arange(24) % 2


def hugging_face() -> Any:
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_pandas(texts())


def torch_dataset() -> Any:
    points, given, _ = blobs(60)
    codes = np.searchsorted(NAMES, given)
    return TensorDataset(torch.from_numpy(points), torch.from_numpy(codes))


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "frame": (lambda: frame(60), {"label": "kind"}),
    "texts": (texts, {"label": "kind", "text": "line"}),
    "pair": (lambda: blobs(60)[:2], {}),
    "pictures": (pictures, {}),
    "regression": (lambda: (blobs(60)[0], blobs(60)[0].sum(1) + 0.01), {"regression": True}),
    "datasets": (hugging_face, {"label": "kind", "text": "line"}),
    "torch": (torch_dataset, {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_data_in_memory(kind: str, empty: Path) -> None:
    make, options = KINDS[kind]
    data = make()
    before = copy.deepcopy(data) if kind != "datasets" else data
    result = audit(data, **options, epochs=2, progress=False)
    verdicts = result.verdicts
    assert len(verdicts) == len(result) == len(data[0] if isinstance(data, tuple) else data)
    assert verdicts.ids is not None
    assert len(set(verdicts.ids)) == len(verdicts)
    assert verdicts.given_label is not None
    assert verdicts.suggested_label is not None
    assert ((verdicts.p_incorrect >= 0) & (verdicts.p_incorrect <= 1)).all()
    if result.noise_interval is not None:
        low, high = result.noise_interval
        assert 0 <= low <= high <= 1
        assert result.noise_rate == pytest.approx(verdicts.p_incorrect.mean(dtype=float))
    else:
        assert result.noise_rate is None
        assert "too little" in result.notes[-1]
    assert bool(result.class_names) == (kind != "regression")
    if isinstance(before, pd.DataFrame):
        pd.testing.assert_frame_equal(data, before)  # the data itself does not change
    fixed = result.apply(accept_suggestions=1.0)
    assert isinstance(fixed, Dataset if kind == "torch" else type(data))
    assert left_in(empty) == []
    assert result.report("page.html") == Path("page.html")
    assert "Audit of data in memory" in Path("page.html").read_text("utf-8")


def test_a_path_is_audited_as_the_command_does(tmp_path: Path, empty: Path) -> None:
    source = write_blobs(tmp_path / "blobs.npz", samples=60)
    in_memory = run_audit(source, None, epochs=3)
    assert left_in(empty) == []
    assert main(["audit", str(source), "--out", str(tmp_path / "out"), "--epochs", "3"]) == 0
    loaded = AuditResult.load(tmp_path / "out")
    pd.testing.assert_frame_equal(loaded.to_pandas(), in_memory.to_pandas(), check_exact=True)
    for name in ("notes", "class_names", "noise_rate", "noise_interval"):
        assert getattr(loaded, name) == getattr(in_memory, name)
    with pytest.raises(DiscrimLossError, match="name a place"):
        in_memory.apply(accept_suggestions=0.9)


def test_wrong_labels_are_found(result: AuditResult) -> None:
    table = result.to_pandas()
    assert table["score"].is_monotonic_decreasing
    assert (table.index[:20] < WRONG).all()
    assert table["id"].iloc[0] == f"row {table.index[0]}"
    assert result.noise_rate == pytest.approx(WRONG / 120, abs=0.1)
    assert result.noise_interval is not None
    assert result.noise_interval[0] < result.noise_rate < result.noise_interval[1]
    again = Verdicts.from_pandas(table)  # rows in any order
    np.testing.assert_array_equal(again.p_incorrect, result.verdicts.p_incorrect)


# Labels are judged once, and an observer sees every epoch.


def test_labels_are_judged_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from discrimloss.auditing import predictions
    from discrimloss.loss import DiscrimLoss

    judged: list[str] = []
    judge, verdicts = predictions.estimate_class_errors, DiscrimLoss.verdicts

    def judge_and_count(*args: Any) -> Any:
        judged.append("predictions")
        return judge(*args)

    def verdicts_and_count(self: DiscrimLoss, *args: Any, **options: Any) -> Verdicts:
        judged.append("criterion")
        return verdicts(self, *args, **options)

    monkeypatch.setattr(predictions, "estimate_class_errors", judge_and_count)
    monkeypatch.setattr(DiscrimLoss, "verdicts", verdicts_and_count)
    epochs: list[int] = []

    class Observer:
        def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
            pass

        def on_epoch(self, row: dict[str, Any]) -> None:
            epochs.append(row["epoch"])

    audit(
        frame(30), "kind", epochs=3, out=tmp_path / "out", progress=lambda run, epochs: Observer()
    )
    assert judged == ["predictions", "criterion"]
    assert epochs == [1, 2, 3]


# What is refused.


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"runs": 0}, "runs must be 1 or more"),
        ({"epochs": 1}, "epochs must be 2 or more"),
        ({"seed": -1}, "seed must be"),
        ({"threads": -1}, "threads must be"),
        ({"resume": True, "overwrite": True, "out": "x"}, "pass only one of them"),
        ({"resume": True}, "need out"),
        ({"overwrite": True}, "need out"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], sentence: str, empty: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        audit(frame(30), "kind", progress=False, **options)
    assert left_in(empty) == []


@pytest.mark.parametrize(
    ("data", "options", "sentence"),
    [
        (frame(30), {}, "label"),
        (frame(30), {"label": "sort"}, "sort"),
        (frame(30).assign(kind="ant"), {"label": "kind"}, "class"),
        (frame(0), {"label": "kind"}, "no sample|no row|empty|class"),
        ((np.eye(4), [1, 0, 1]), {}, "4"),
        (np.eye(4), {}, "cannot audit"),
        ("nowhere.csv", {"label": "kind"}, "nowhere.csv"),
        (frame(30), {"label": "kind", "text": "line"}, "line"),
    ],
)
def test_data_that_cannot_be_audited(
    data: Any, options: dict[str, Any], sentence: str, empty: Path
) -> None:
    with pytest.raises(DiscrimLossError, match=sentence) as raised:
        audit(data, **options, out="out", progress=False)
    assert "--" not in str(raised.value)  # no options of the command line
    assert left_in(empty) == []


# With a directory.


def test_stopped_resumed_and_opened_again(tmp_path: Path, result: AuditResult) -> None:
    out, options = tmp_path / "out", {"epochs": 6, "out": tmp_path / "out"}
    with pytest.raises(KeyboardInterrupt):
        audit(frame(), "kind", **options, progress=PressesCtrlC(3, 2))  # type: ignore[arg-type]
    with pytest.raises(DiscrimLossError, match="resume=True"):
        audit(frame(), "kind", **options, progress=False)  # type: ignore[arg-type]
    other = frame().assign(x=0.0)
    with pytest.raises(DiscrimLossError, match="has changed"):
        audit(other, "kind", **options, resume=True, progress=False)  # type: ignore[arg-type]
    resumed = audit(frame(), "kind", **options, resume=True, progress=False)  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(resumed.to_pandas(), result.to_pandas(), check_exact=True)
    before = snapshot(out)
    again = audit(frame(), "kind", **options, resume=True, progress=False)  # type: ignore[arg-type]
    assert again.apply(drop_incorrect=True).shape[0] < 120
    assert snapshot(out) == before

    loaded = AuditResult.load(out)
    assert loaded.class_names == ("ant", "bee", "cow")
    pd.testing.assert_frame_equal(loaded.to_pandas(), result.to_pandas(), check_exact=True)
    with pytest.raises(DiscrimLossError, match="pass the data"):
        loaded.apply(drop_incorrect=True)
    with pytest.raises(DiscrimLossError, match="has changed"):
        AuditResult.load(out, other)
    assert AuditResult.load(out, frame()).apply(drop_incorrect=True).shape[0] < 120
    assert "Samples are not shown" in loaded.report(tmp_path / "page.html").read_text("utf-8")


def test_saved_and_opened_again(tmp_path: Path) -> None:
    source = write_blobs(tmp_path / "blobs.npz", samples=60)
    result = run_audit(source, None, epochs=3)
    assert result.save(tmp_path / "saved") == tmp_path / "saved"
    again = AuditResult.load(tmp_path / "saved")
    pd.testing.assert_frame_equal(again.to_pandas(), result.to_pandas(), check_exact=True)
    assert main(["apply", str(tmp_path / "saved"), "--drop-incorrect"]) == 0
    with pytest.raises(DiscrimLossError, match="holds a finished audit"):
        result.save(tmp_path / "saved")


def test_what_is_no_audit(tmp_path: Path) -> None:
    with pytest.raises(DiscrimLossError, match="there is no directory"):
        AuditResult.load(tmp_path / "nowhere")
    with pytest.raises(DiscrimLossError, match="holds no audit"):
        AuditResult.load(tmp_path)


# Corrected data.


def test_corrected_data_is_of_the_same_kind(result: AuditResult) -> None:
    data = frame()
    fixed = result.apply(accept_suggestions=0.5)
    assert fixed.drop(columns="kind").equals(data.drop(columns="kind"))
    called = result.verdicts.verdict == "incorrect"
    suggested = result.verdicts.suggested_label
    assert suggested is not None
    assert fixed["kind"][called].tolist() == suggested[called].tolist()
    assert fixed["kind"][~called].tolist() == data["kind"][~called].tolist()
    assert (fixed["kind"].to_numpy() == blobs()[2]).mean() > 0.9
    dropped = result.apply(drop_incorrect=True)
    assert dropped.index.tolist() == data.index[~called].tolist()
    with pytest.raises(DiscrimLossError, match="there are no decisions"):
        result.apply()
    with pytest.raises(ValueError, match="from 0 to 1"):
        result.apply(accept_suggestions=2.0)


def test_corrected_data_in_a_file(result: AuditResult, tmp_path: Path) -> None:
    applied = result.apply(tmp_path / "fixed.csv", accept_suggestions=0.5)
    assert applied.written == (tmp_path / "fixed.csv",)
    assert applied.relabelled == int((result.verdicts.verdict == "incorrect").sum())
    kinds = pd.read_csv(tmp_path / "fixed.csv")["kind"]
    assert kinds.tolist() == result.apply(accept_suggestions=0.5)["kind"].tolist()
    with pytest.raises(DiscrimLossError, match="overwrite=True"):
        result.apply(tmp_path / "fixed.csv", drop_incorrect=True)
    result.apply(tmp_path / "fixed.csv", drop_incorrect=True, overwrite=True)
    assert len(pd.read_csv(tmp_path / "fixed.csv")) == 120 - applied.relabelled


def test_a_file_beside_its_source(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    frame(60).to_csv(table, index=False)
    before = table.read_bytes()
    result = audit(table, "kind", epochs=3, progress=False)
    with pytest.raises(DiscrimLossError, match="the source itself"):
        result.apply(table, drop_incorrect=True, overwrite=True)
    result.apply(tmp_path / "fixed.csv", accept_suggestions=0.0)
    assert table.read_bytes() == before
    suggested = result.verdicts.suggested_label
    assert suggested is not None
    assert pd.read_csv(tmp_path / "fixed.csv")["kind"].tolist() == suggested.tolist()
    applied = result.apply(tmp_path / "fixed", drop_incorrect=True, accept_suggestions=0.0)
    assert applied.log == tmp_path / "fixed" / "changes.csv"
    assert applied.log.is_file()


# A review.


def test_a_review_of_data_in_memory(
    result: AuditResult, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    served: list[dict[str, Any]] = []

    def serve_one_request(server: ReviewServer) -> None:
        serve = threading.Thread(target=server.handle_request)
        serve.start()
        address = f"http://127.0.0.1:{server.server_port}/api/about"
        request = urllib.request.Request(address, headers={TOKEN_HEADER: server.token})
        with urllib.request.urlopen(request, timeout=20) as answer:
            served.append(json.load(answer))
        serve.join()
        decision = {"event": "e", "tab": "t", "action": "drop", "index": 7}
        server.session.decide(decision)
        raise KeyboardInterrupt

    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) is None)
    monkeypatch.setattr(ReviewServer, "serve_forever", serve_one_request)
    one = copy.copy(result)
    one.review(open_browser=False)
    assert opened == []
    assert served[0]["apply_command"] == "result.apply()"
    assert served[0]["class_names"] == ["ant", "bee", "cow"]
    fixed = one.apply()
    assert fixed.index.tolist() == [name for name in frame().index if name != "row 7"]
    assert last_address(one.review_place) is not None
    del one
    assert left_in(empty) == []  # the temporary directory is gone


# As it is shown.


def test_what_is_shown(result: AuditResult) -> None:
    text = repr(result)
    assert text.startswith("AuditResult(120 samples, 3 classes: ant, bee, cow)")
    assert "% wrong labels" in text
    assert "row " in text
    assert len(text.splitlines()) <= 8
    page = result._repr_html_()
    assert page.count("<tr>") == 11
    assert "suggested label" in page


def test_rows_left_out_and_all_notes_are_the_same_everywhere(tmp_path: Path) -> None:
    data = frame(60).assign(same=1.0)
    data.loc[["row 3", "row 8"], "kind"] = None
    result = audit(data, "kind", out=tmp_path / "out", epochs=2, progress=False)
    assert result.notes[0] == "2 rows left out: no label"
    assert any("the column 'same' is not used" in note for note in result.notes)
    assert len(set(result.notes)) == len(result.notes)
    assert "note: 2 rows left out: no label" in repr(result)
    assert result.notes == result.verdicts.notes
    assert result.notes == Verdicts.from_parquet(tmp_path / "out" / "verdicts.parquet").notes
    assert list(result.notes) == result.summary["notes"]
    assert (
        list(result.notes) == json.loads((tmp_path / "out" / "summary.json").read_text())["notes"]
    )
    assert AuditResult.load(tmp_path / "out").notes == result.notes
    page = unescape(result.report(tmp_path / "page.html").read_text("utf-8"))
    for note in result.notes:
        assert page.count(note) == 1
    assert "left_out.csv" not in page
    shown = result.to_pandas()
    assert sorted(shown.index) == list(range(58))
    assert shown.loc[3, "id"] == result.verdicts.ids[3] == "row 4"  # type: ignore[index]


def test_reasons_to_leave_rows_out_are_counted() -> None:
    points, given, _ = blobs(30)
    points[5] = np.nan
    given[[3, 8]] = ""
    result = audit((points, given), epochs=2, progress=False)
    assert result.notes[0] == "3 rows left out: no label (2), a feature is NaN or infinite (1)"


def test_markup_in_data_is_shown_as_text() -> None:
    data = frame(30)
    evil = "<script>alert(1)</script>"
    data["kind"] = data["kind"].replace("ant", evil)
    data.index = [f"<b>{row}" for row in range(30)]
    page = audit(data, "kind", epochs=2, progress=False)._repr_html_()
    assert "<script>" not in page
    assert "<b>0" not in page
    assert "&lt;script&gt;" in page
