"""Cells at work, with a stand-in for training: order, failures, stopping and going on."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import environment
from paper_tables import TINY, cell_of, result, stand_in, tiny_table

from benchmarks.paper import cell_run
from benchmarks.paper.cell_run import Places, history_columns
from benchmarks.paper.cells import Cell, all_cells
from benchmarks.paper.run_cells import Outcome, run_cells
from benchmarks.paper.store import Content, ResultsStore
from discrimloss.training.interruption import Interrupted


class Notes:
    """Takes down what a watcher is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def on_start(self, cell: Cell) -> None:
        self.told.append(("start", cell.name))

    def on_done(self, cell: Cell, content: Content) -> None:
        self.told.append(("done", cell.name))

    def on_failure(self, cell: Cell, sentence: str) -> None:
        self.told.append(("failure", sentence))

    def on_elsewhere(self, cell: Cell) -> None:
        self.told.append(("elsewhere", cell.name))


class Bench:
    """A store, a place for runs, and a stand-in."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store, self.places = ResultsStore(path / "results"), Places(None, path / "runs")
        self.notes = Notes()
        self._monkeypatch = monkeypatch

    def run(self, cells: list[Cell], jobs: int = 2, **stand_in_does: Any) -> Outcome:
        program = (sys.executable, "-S", "-c", stand_in(**stand_in_does))
        self._monkeypatch.setattr(cell_run, "PROGRAM", program)
        return run_cells(cells, self.store, self.places, jobs, self.notes)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


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
    left = {file.name for file in (tmp_path / "results" / "tiny").iterdir()}
    assert left == {f"{cell.name}.json" for cell in cells}  # no locks


def test_runs_are_kept_if_asked(tmp_path: Path, bench: Bench) -> None:
    cell = cell_of(tiny_table(tmp_path), "plain")
    bench.places = Places(None, tmp_path / "runs", keep_runs=True)
    bench.run([cell])
    assert (tmp_path / "runs" / "tiny" / "plain-40-1" / "summary.json").is_file()


def test_one_at_a_time_keeps_the_order(tmp_path: Path, bench: Bench) -> None:
    cells = all_cells(tiny_table(tmp_path), seeds=1)
    bench.run(cells, jobs=1)
    steps = [(step, cell.name) for cell in cells for step in ("start", "done")]
    assert bench.notes.told == steps


def test_a_failing_cell_is_told_and_the_others_go_on(tmp_path: Path, bench: Bench) -> None:
    table = tiny_table(tmp_path)
    outcome = bench.run([cell_of(table, "plain"), cell_of(table, "discrimloss")], fails=True)
    assert [cell.name for cell in outcome.failed] == ["plain-40-1"]
    assert [cell.name for cell in outcome.done] == ["discrimloss-40-1"]
    log = tmp_path / "runs" / "tiny" / "plain-40-1.log"
    sentence = f"plain-40-1 failed (the loss became nan); its log is {log}"
    assert ("failure", sentence) in bench.notes.told
    assert "a line before" in log.read_text()
    assert bench.store.read(cell_of(table, "plain")) is None


def test_a_run_that_is_killed_is_told_with_the_signal(tmp_path: Path, bench: Bench) -> None:
    bench.run([cell_of(tiny_table(tmp_path), "plain")], dies=True)
    log = tmp_path / "runs" / "tiny" / "plain-40-1.log"
    reason = "it was killed by SIGKILL, as a system does that runs out of memory"
    assert bench.notes.told[-1] == (
        "failure",
        f"plain-40-1 failed ({reason}); its log is {log}",
    )
    assert log.read_text() == "a line before\n"


REPRODUCE_UNTIL_KILLED = """\
import sys
from pathlib import Path
from benchmarks.paper import cell_run
from benchmarks.paper.cell_run import CellRun, Places
from benchmarks.paper.cells import Cell
from benchmarks.paper.store import ResultsStore
from benchmarks.paper.table_file import load_table
place, program = Path(sys.argv[1]), sys.argv[2]
cell_run.PROGRAM = (sys.executable, "-S", "-c", program)
table = load_table(str(place / "tiny.toml"))
cell = Cell(table, table.row("plain"), table.column("40"), 1)
run = CellRun(cell, Places(None, place / "runs"), ResultsStore(place / "results"))
run.start()
run.wait()
"""


def test_a_run_that_outlives_its_command_keeps_its_cell(tmp_path: Path, bench: Bench) -> None:
    cell = cell_of(tiny_table(tmp_path), "plain")
    words = [sys.executable, "-c", REPRODUCE_UNTIL_KILLED, str(tmp_path), stand_in(waits=True)]
    started = tmp_path / "runs" / "tiny" / "plain-40-1" / "started"
    command = subprocess.Popen(words, env=environment())
    try:
        while not started.exists():
            assert command.poll() is None
            time.sleep(0.05)
    finally:
        command.kill()
        command.wait()
    orphan, log = int(started.read_text()), tmp_path / "runs" / "tiny" / "plain-40-1.log"
    try:
        outcome = bench.run([cell])
        assert outcome.elsewhere == [cell]
        assert bench.notes.told == [("elsewhere", "plain-40-1")]
        assert log.read_text() == "a line before\n"
    finally:
        os.kill(orphan, signal.SIGTERM)
    bench.places = Places(None, tmp_path / "runs", keep_runs=True)
    while not (outcome := bench.run([cell])).done:  # it takes a moment to end
        assert outcome.elsewhere
        time.sleep(0.05)
    assert (started.parent / "words").read_text().endswith("--resume")
    assert log.read_text() == "a line before\n"  # a run that goes on adds to it


def test_stopped_runs_write_a_checkpoint_and_go_on(tmp_path: Path, bench: Bench) -> None:
    table = tiny_table(tmp_path)
    cells = [cell_of(table, "plain"), cell_of(table, "discrimloss"), cell_of(table, "gce")]
    folder = tmp_path / "runs" / "tiny"

    def press_ctrl_c() -> None:
        while not all((folder / c.name / "started").exists() for c in cells[:2]):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press_ctrl_c).start()
    with pytest.raises(Interrupted) as stopped:
        bench.run(cells, waits=True)
    assert stopped.value.signal_number == signal.SIGINT
    assert all((folder / cell.name / "checkpoint").exists() for cell in cells[:2])
    assert not (folder / cells[2].name).exists()  # never started
    assert [bench.store.read(cell) for cell in cells] == [None] * 3

    bench.places = Places(None, tmp_path / "runs", keep_runs=True)
    outcome = bench.run(cells, waits=False)
    assert len(outcome.done) == 3
    words = [(folder / cell.name / "words").read_text().split()[-1] for cell in cells]
    assert words == ["--resume", "--resume", "--overwrite"]


def test_what_a_run_of_other_settings_left_is_not_gone_on_with(
    tmp_path: Path, bench: Bench
) -> None:
    bench.places = Places(None, tmp_path / "runs", keep_runs=True)
    bench.run([cell_of(tiny_table(tmp_path), "plain")])
    changed = cell_of(tiny_table(tmp_path, TINY.replace("epochs=1", "epochs=3")), "plain")
    bench.run([changed])
    words = (tmp_path / "runs" / "tiny" / "plain-40-1" / "words").read_text()
    assert words.endswith("--overwrite")
    stored = bench.store.read(changed)
    assert stored is not None
    assert not stored.is_stale


def test_a_cell_that_another_process_has_is_left_to_it(tmp_path: Path, bench: Bench) -> None:
    table = tiny_table(tmp_path)
    locked, done, free = (cell_of(table, row) for row in ("plain", "gce", "discrimloss"))
    bench.store.write(done, result(done, 80.0))  # since the list of cells was made
    with bench.store.locked(locked):
        outcome = bench.run([locked, done, free])
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
