"""The results store: one file a table, stale and damaged results, several processes."""

import json
from pathlib import Path
from typing import Any

import pytest
from paper_tables import TINY, cell_of, result, tiny_table, write_results

from benchmarks.paper.results import collect
from benchmarks.paper.store import ResultsStore, StoreError, machine
from discrimloss.files.locks import LockedError
from discrimloss.training.grid import Job, run_jobs


def test_what_was_written_is_read(tmp_path: Path) -> None:
    store, cell = ResultsStore(tmp_path / "results"), cell_of(tiny_table(tmp_path), "discrimloss")
    assert store.read(cell) is None
    store.write(cell, result(cell, 91.0))
    assert store.file("tiny") == tmp_path / "results" / "tiny.jsonl"
    stored = store.read(cell)
    assert stored is not None
    place = {"row": "discrimloss", "column": "40", "seed": 1, "small": False}
    assert stored.content == place | json.loads(json.dumps(result(cell, 91.0)))
    assert not stored.is_stale


def test_a_table_is_one_file_with_a_line_for_each_cell_in_order(tmp_path: Path) -> None:
    store, table = ResultsStore(tmp_path / "results"), tiny_table(tmp_path)
    cells = [
        cell_of(table, "plain", seed=10),
        cell_of(table, "plain", seed=2),
        cell_of(table, "discrimloss", "0"),
        cell_of(table, "gce", is_small=True),
    ]
    for cell in cells:
        store.write(cell, result(cell, 91.0))
    store.write(cells[0], result(cells[0], 92.0))  # in place of the first
    lines = [json.loads(line) for line in store.file("tiny").read_text().splitlines()]
    assert [(line["row"], line["column"], line["seed"], line["small"]) for line in lines] == [
        ("discrimloss", "0", 1, False),
        ("plain", "40", 2, False),
        ("plain", "40", 10, False),
        ("gce", "40", 1, True),
    ]
    assert lines[2]["summary"]["test"]["last"] == 92.0
    assert store.seeds("tiny") == [1, 2, 10]


def test_processes_that_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    tiny_table(tmp_path)
    jobs = [Job("", write_results, (tmp_path, seed)) for seed in (1, 2, 3, 4)]
    assert [ended.error for ended in run_jobs(jobs, 4)] == [None] * 4
    assert len((tmp_path / "results" / "tiny.jsonl").read_text().splitlines()) == 4 * 3 * 2


def test_a_result_of_other_settings_is_stale_and_says_why(tmp_path: Path) -> None:
    store, cell = ResultsStore(tmp_path), cell_of(tiny_table(tmp_path), "plain")
    store.write(cell, result(cell, 91.0))
    changed = tiny_table(tmp_path, TINY.replace("epochs=1", "epochs=3"))
    stored = store.read(cell_of(changed, "plain"))
    assert stored is not None
    assert stored.differences == ("epochs was 1, is 3",)


def test_how_a_run_is_done_makes_no_result_stale(tmp_path: Path) -> None:
    store, cell = ResultsStore(tmp_path), cell_of(tiny_table(tmp_path), "plain")
    store.write(cell, result(cell, 91.0))
    other = tiny_table(tmp_path, TINY.replace('"epochs=1"', '"epochs=1", "eval_batch_size=7"'))
    stored = store.read(cell_of(other, "plain"))
    assert stored is not None
    assert not stored.is_stale


def test_a_setting_that_is_new_since_makes_no_result_stale(tmp_path: Path) -> None:
    store, cell = ResultsStore(tmp_path), cell_of(tiny_table(tmp_path), "plain")
    content = result(cell, 91.0)
    config = {key: value for key, value in content["config"].items() if key != "noisy_validation"}
    store.write(cell, content | {"config": config})
    stored = store.read(cell)
    assert stored is not None
    assert not stored.is_stale
    store.write(cell, content | {"config": config | {"nonsense": 1}})  # gone since, on the contrary
    stored = store.read(cell)
    assert stored is not None
    assert "nonsense was 1, is not set" in stored.differences


def test_a_changed_default_of_the_method_makes_a_result_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from discrimloss import hyperparameters

    store, table = ResultsStore(tmp_path), tiny_table(tmp_path)
    before: Any = hyperparameters.paper_defaults
    for row in ("plain", "discrimloss"):
        cell = cell_of(table, row)
        store.write(cell, result(cell, 91.0))
    new = {"switch_gain": 0.125}
    monkeypatch.setattr(hyperparameters, "paper_defaults", lambda epochs: before(epochs) | new)
    ours, plain = (store.read(cell_of(table, row)) for row in ("discrimloss", "plain"))
    assert ours is not None
    assert ours.differences == ("default switch_gain was 0.25, is 0.125",)
    assert plain is not None
    assert not plain.is_stale


@pytest.mark.parametrize("text", ["", "{", "[]", '{"config": {}}', "<<<<<<< HEAD"])
def test_a_line_that_is_no_result_is_named_and_kept(tmp_path: Path, text: str) -> None:
    store, cell = ResultsStore(tmp_path), cell_of(tiny_table(tmp_path), "plain")
    store.file("tiny").write_text(f"{text}\n")
    sentence = f"cannot read line 1 of {tmp_path / 'tiny.jsonl'}: remove the line"
    with pytest.raises(StoreError) as refused:
        store.require_readable("tiny")
    assert str(refused.value) == sentence
    store.write(cell, result(cell, 91.0))
    assert store.has(cell)
    assert store.damaged_lines("tiny") == [sentence.replace("line 1 of", "line 2 of")]
    assert collect(cell.table, store, is_small=False).unreadable == tuple(
        store.damaged_lines("tiny")
    )


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("versions", None, "versions is not a mapping"),
        ("machine", ..., "machine is missing"),
        ("command", 3, "command is not a text"),
        ("config", {"recipe": None}, "config.recipe is not a text"),
        ("summary", [], "summary is not a mapping"),
        ("summary", {"metric": "mae", "seconds": True}, "summary.seconds is not a number"),
        ("summary", {"metric": "mae", "test": {"last": 1.0}}, "summary.test.best is missing"),
        ("history", {"epoch": [1, 2], "test_loss": [1.0]}, "history is not a list of equal length"),
        ("history", {"epoch": [1, "x"]}, "an entry of history.epoch is not a number"),
        ("samples", {"histograms": [{}]}, "an entry of samples.histograms.epoch is missing"),
        ("samples", {"fluctuation": {"clean": 1}}, "samples.fluctuation.clean is not a mapping"),
    ],
)
def test_a_damaged_result_is_named(tmp_path: Path, part: str, value: Any, reason: str) -> None:
    store, cell = ResultsStore(tmp_path), cell_of(tiny_table(tmp_path), "plain")
    content = result(cell, 91.0) | {part: value}
    store.write(cell, {key: value for key, value in content.items() if value is not ...})
    with pytest.raises(StoreError) as refused:
        store.read(cell)
    place = f"line 1 of {store.file('tiny')}"
    start = f"cannot read the result of plain-40-1 in {place} ({reason}"
    assert str(refused.value).startswith(start)
    assert collect(cell.table, store, cell.is_small).unreadable == (str(refused.value),)


def test_one_process_at_a_time_has_a_cell(tmp_path: Path) -> None:
    store, table = ResultsStore(tmp_path), tiny_table(tmp_path)
    cell, other = cell_of(table, "plain"), cell_of(table, "discrimloss")
    with store.locked(cell):
        with pytest.raises(LockedError), store.locked(cell):
            pass
        with store.locked(other):
            pass
    with store.locked(cell):  # free again
        store.write(cell, result(cell, 91.0))
    assert not list(tmp_path.glob("*plain*.lock"))  # a finished cell needs none


def test_a_store_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="is not a directory: choose another path with --results"):
        ResultsStore(tmp_path / "file" / "results").require_writable()


def test_the_machine_is_described() -> None:
    described = machine()
    assert described["cores"] >= 1
    assert described["processor"]
