"""What a report reads of a run's directory, whole, half-done or broken."""

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discrimloss.auditing.report import read_run as reader
from discrimloss.auditing.report.read_run import read_run
from discrimloss.errors import DiscrimLossError
from discrimloss.files.checksums import CHECKSUMS
from discrimloss.training.sample_traces import read_traces


@pytest.fixture
def run(small_run: Path, tmp_path: Path) -> Path:
    """A copy of a small run, to be spoilt."""
    copy = tmp_path / "copy"
    shutil.copytree(small_run, copy)
    return copy


def test_samples_are_the_verdicts_with_names_of_classes(small_run: Path) -> None:
    found = read_run(small_run)
    verdicts = pd.read_parquet(small_run / "verdicts.parquet")
    assert found.samples is not None
    assert found.num_samples == len(verdicts) == 48
    assert found.samples["given"].tolist() == [str(digit) for digit in verdicts["target"]]
    assert found.samples["verdict"].tolist() == verdicts["verdict"].astype(str).tolist()
    wrong = (verdicts["clean_target"] != verdicts["target"]).tolist()
    assert found.samples["is_wrong"].tolist() == wrong
    assert found.class_names == tuple("0123456789")
    assert [row["epoch"] for row in found.history] == [1, 2, 3]
    assert found.settings["noise.rate"] == 0.4
    assert found.is_finished


def test_a_suggestion_is_what_most_of_the_last_epochs_predicted(small_run: Path) -> None:
    found, traces = read_run(small_run), read_traces(small_run)
    assert traces is not None
    assert found.samples is not None
    for row, suggested in enumerate(found.samples["suggested"]):
        newest_first = traces.predicted[::-1, row].astype(int).tolist()
        votes = Counter(newest_first)
        most = max(votes.values())
        assert suggested == str(next(p for p in newest_first if votes[p] == most))


def test_an_unfinished_run_is_read_as_far_as_it_is(run: Path) -> None:
    (run / "summary.json").unlink()
    (run / "verdicts.parquet").unlink()
    (run / "samples" / "epoch-00003.safetensors").unlink()
    found = read_run(run)
    assert not found.is_finished
    assert found.samples is None
    assert found.num_samples == 48
    assert found.traces is not None
    assert found.traces.epochs.tolist() == [1, 2]
    shutil.rmtree(run / "samples")
    for name in ("history.jsonl", "environment.json"):
        (run / name).unlink()
    bare = read_run(run)
    assert (bare.history, bare.traces, bare.num_samples) == ([], None, None)


def test_of_many_samples_the_traces_of_some_are_read(
    small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = read_run(small_run)
    monkeypatch.setattr(reader, "MOST_TRACED", 10)
    some = read_run(small_run)
    assert some.traced is not None
    assert some.traces is not None
    assert everything.traces is not None
    assert len(set(some.traced.tolist())) == 10
    assert np.array_equal(some.traces.loss, everything.traces.loss[:, some.traced])
    assert everything.samples is not None
    chosen = everything.samples["verdict"].to_numpy()[some.traced]
    assert some.traced_verdicts().tolist() == chosen.tolist()
    assert some.samples is not None
    assert some.samples["suggested"].tolist() == everything.samples["suggested"].tolist()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("history.jsonl", b"{"),
        ("summary.json", b"nothing"),
        ("config.toml", b"= ="),
        ("verdicts.parquet", b"no parquet"),
        ("samples/epoch-00002.safetensors", b"broken"),
    ],
)
def test_a_broken_file_is_named(run: Path, file: str, content: bytes) -> None:
    (run / file).write_bytes(content)
    with pytest.raises(DiscrimLossError, match=Path(file).name.partition(".")[0]):
        read_run(run)


def test_a_class_without_a_name_is_a_number(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text("utf-8"))
    (run / "summary.json").write_text(json.dumps(summary | {"class_names": []}), "utf-8")
    (run / CHECKSUMS).unlink()
    found = read_run(run)
    assert found.samples is not None
    assert set(found.class_names) >= set(found.samples["given"])
    assert found.class_names == tuple(sorted(found.class_names, key=int))
