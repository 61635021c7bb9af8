"""Cells at work, with functions in place of training: order, failures, stopping and resuming."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paper_tables
import pytest
from paper_tables import TINY, cell_of, result, tiny_table

from benchmarks.paper.cells import Cell, all_cells
from benchmarks.paper.run_cells import Outcome, Places, history_columns, run_cells
from benchmarks.paper.store import Content, ResultsStore
from discrimloss.training.interruption import Interrupted


class Notes:
    """Records the calls of a watcher."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def on_done(self, cell: Cell, content: Content, seconds: float) -> None:
        assert seconds > 0
        self.calls.append(("done", cell.name))

    def on_failure(self, cell: Cell, sentence: str) -> None:
        self.calls.append(("failure", sentence))

    def on_elsewhere(self, cell: Cell) -> None:
        self.calls.append(("elsewhere", cell.name))


class Bench:
    """A store and a place for runs."""

    def __init__(self, path: Path, keep_runs: bool = False) -> None:
        self.store = ResultsStore(path / "results")
        self.places = Places(None, path / "runs", keep_runs)
        self.notes = Notes()

    def run(
        self, cells: list[Cell], jobs: int = 2, train: Callable[..., Any] = paper_tables.train
    ) -> Outcome:
        return run_cells(cells, self.store, self.places, jobs, self.notes, train)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_results_are_kept_and_runs_are_not(tmp_path: Path, bench: Bench) -> None:
    cells = all_cells(tiny_table(tmp_path), seeds=1)
    outcome = bench.run(cells)
    assert {cell.name for cell in outcome.done} == {cell.name for cell in cells}
    for cell in cells:
        stored = bench.store.read(cell)
        assert stored is not None
        assert not stored.is_stale
        assert stored.content["summary"]["test"]["last"] == 91.0
        assert stored.content["history"] == {"epoch": [1], "test_accuracy": [91.0]}
        words = f"discrimloss train digits {' '.join(cell.settings)}"
        assert stored.content["command"] == words
        assert stored.content["versions"] == {"python": "3"}
    assert list((tmp_path / "runs" / "tiny").iterdir()) == []
    assert {file.name for file in (tmp_path / "results").iterdir()} == {"tiny.jsonl", ".tiny.lock"}


def test_runs_are_kept_on_request(tmp_path: Path) -> None:
    Bench(tmp_path, keep_runs=True).run([cell_of(tiny_table(tmp_path), "plain")])
    assert (tmp_path / "runs" / "tiny" / "plain-40-1" / "summary.json").is_file()


def test_one_at_a_time_keeps_the_order(tmp_path: Path, bench: Bench) -> None:
    cells = all_cells(tiny_table(tmp_path), seeds=1)
    bench.run(cells, jobs=1)
    assert bench.notes.calls == [("done", cell.name) for cell in cells]


def test_a_failing_cell_is_reported_and_the_others_run(tmp_path: Path, bench: Bench) -> None:
    table = tiny_table(tmp_path)
    cells = [cell_of(table, "plain"), cell_of(table, "discrimloss")]
    outcome = bench.run(cells, train=paper_tables.fail_if_plain)
    assert [cell.name for cell in outcome.failed] == ["plain-40-1"]
    assert [cell.name for cell in outcome.done] == ["discrimloss-40-1"]
    log = tmp_path / "runs" / "tiny" / "plain-40-1.log"
    sentence = f"plain-40-1 failed (the loss became nan); its log is {log}"
    assert ("failure", sentence) in bench.notes.calls
    assert log.read_text() == "a line before\n"
    assert bench.store.read(cells[0]) is None


def test_stopped_runs_write_a_checkpoint_and_are_resumed(tmp_path: Path) -> None:
    table, bench = tiny_table(tmp_path), Bench(tmp_path, keep_runs=True)
    cells = [cell_of(table, "plain"), cell_of(table, "discrimloss"), cell_of(table, "gce")]
    folder = tmp_path / "runs" / "tiny"

    def press_ctrl_c() -> None:
        while not all((folder / c.name / "started").exists() for c in cells[:2]):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press_ctrl_c).start()
    with pytest.raises(Interrupted) as stopped:
        bench.run(cells, train=paper_tables.stop_first_time)
    assert stopped.value.signal_number == signal.SIGINT
    assert all((folder / cell.name / "checkpoint").exists() for cell in cells[:2])
    assert not (folder / cells[2].name).exists()  # never started
    assert [bench.store.read(cell) for cell in cells] == [None] * 3

    outcome = bench.run(cells)
    assert len(outcome.done) == 3
    how = [(folder / cell.name / "how").read_text() for cell in cells]
    assert how == ["resume", "resume", "overwrite"]


def test_an_unfinished_run_of_other_settings_is_not_resumed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, keep_runs=True)
    bench.run([cell_of(tiny_table(tmp_path), "plain")])
    changed = cell_of(tiny_table(tmp_path, TINY.replace("epochs=1", "epochs=3")), "plain")
    bench.run([changed])
    assert (tmp_path / "runs" / "tiny" / "plain-40-1" / "how").read_text() == "overwrite"
    stored = bench.store.read(changed)
    assert stored is not None
    assert not stored.is_stale


def test_a_cell_that_another_process_has_is_left_to_it(tmp_path: Path, bench: Bench) -> None:
    table = tiny_table(tmp_path)
    locked, done, free = (cell_of(table, row) for row in ("plain", "gce", "discrimloss"))
    bench.store.write(done, result(done, 80.0))  # since the list of cells was made
    with bench.store.locked(locked):
        outcome = bench.run([locked, done, free], jobs=1)
    assert [cell.name for cell in outcome.elsewhere] == ["plain-40-1", "gce-40-1"]
    assert [cell.name for cell in outcome.done] == ["discrimloss-40-1"]
    stored = bench.store.read(done)
    assert stored is not None
    assert stored.content["summary"]["test"]["last"] == 80.0


def test_a_history_is_kept_by_column() -> None:
    rows = [{"epoch": 1, "loss": 1.23456789, "seconds": 3.0}, {"epoch": 2, "k1": 0.5}]
    assert history_columns(rows) == {
        "epoch": [1, 2],
        "loss": [1.23457, None],
        "k1": [None, 0.5],
    }
