"""A tiny table, results made up for it, and a stand-in for `discrimloss train`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.paper.cells import Cell
from benchmarks.paper.store import ResultsStore, machine
from benchmarks.paper.table_file import PaperTable, load_table

TINY = """\
title = "Digits, tiny"
paper = "Table 0"
recipe = "digits"
metric = "accuracy"
seeds = 2
main = "discrimloss"
settings = ["train_size=100", "epochs=1"]

[small]
settings = ["train_size=50"]
seeds = 1

[[column]]
name = "0"
title = "0 %"
noise = 0.0
settings = ["noise.kind=none"]

[[column]]
name = "40"
title = "40 %"
noise = 0.4
settings = ["noise.rate=0.4"]

[[row]]
name = "human"
title = "Human"
paper = { "40" = 99.0 }

[[row]]
name = "plain"
title = "Plain"
method = "plain"

[[row]]
name = "gce"
title = "GCE"
method = "gce"
default = false

[[row]]
name = "discrimloss"
title = "DiscrimLoss"
method = "discrimloss"
paper = { "40" = [90.0, 0.5] }
"""

STAND_IN = """\
import json, os, pathlib, signal, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir(parents=True, exist_ok=True)
(out / "words").write_text(" ".join(sys.argv[1:]))
stopped = []
signal.signal(signal.SIGTERM, lambda *told: stopped.append(told))
if "method=plain" in sys.argv and "{fails}" == "fails":
    print("a line before")
    print("discrimloss: the loss became nan", file=sys.stderr)
    sys.exit(2)
if "{dies}" == "dies":
    print("a line before", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
if "--resume" not in sys.argv and "{waits}" == "waits":
    print("a line before", flush=True)
    (out / "started.new").write_text(str(os.getpid()))
    (out / "started.new").rename(out / "started")
    while not stopped:
        time.sleep(0.02)
    (out / "checkpoint").touch()
    sys.exit(143)
row = {{"epoch": 1, "test_accuracy": 91.0, "seconds": 1.0}}
(out / "history.jsonl").write_text(json.dumps(row) + "\\n")
summary = {{"metric": "accuracy", "method": "plain", "versions": {{"python": "3"}}, "command": ""}}
summary |= {{"test": {{"last": 91.0, "best": 92.0, "best_epoch": 1}}, "seconds": 1.0}}
(out / "summary.json").write_text(json.dumps(summary))
"""


def tiny_table(directory: Path, text: str = TINY) -> PaperTable:
    """The table above, from a file."""
    path = directory / "tiny.toml"
    path.write_text(text, encoding="utf-8")
    return load_table(str(path))


def stand_in(fails: bool = False, waits: bool = False, dies: bool = False) -> str:
    """A program that takes the words of `discrimloss train` and leaves a result, or does not."""
    does = {"fails": fails, "waits": waits, "dies": dies}
    return STAND_IN.format(**{name: name if is_so else "" for name, is_so in does.items()})


def cell_of(
    table: PaperTable, row: str, column: str = "40", seed: int = 1, is_small: bool = False
) -> Cell:
    """A cell by its names."""
    found_row, found_column = table.row(row), table.column(column)
    assert found_row is not None
    assert found_column is not None
    return Cell(table, found_row, found_column, seed, is_small)


def result(cell: Cell, last: float, best: float | None = None, **more: Any) -> dict[str, Any]:
    """What the store has of a cell."""
    summary = {"metric": cell.table.metric, "method": cell.row.method, "seconds": 36.0}
    summary["test"] = {"last": last, "best": best or last, "best_epoch": 1}
    return {
        "command": "discrimloss train digits threads=1",
        **cell.identity,
        "versions": {"discrimloss": "0"},
        "machine": machine(),
        "summary": summary | more,
        "history": {"epoch": [1, 2], "test_accuracy": [50.0, last]},
        "samples": None,
    }


def filled(store: ResultsStore, table: PaperTable, figures: dict[tuple[str, str], Any]) -> None:
    """Put results into the store: row and column to the figures of seeds 1, 2, …"""
    for (row, column), values in figures.items():
        for seed, last in enumerate(values, 1):
            cell = cell_of(table, row, column, seed)
            store.write(cell, result(cell, last, last + 0.5))
