"""A tiny table, made-up results of it, and functions in place of a training run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grid_jobs

from benchmarks.paper.cells import Cell
from benchmarks.paper.store import ResultsStore, machine
from benchmarks.paper.table_file import PaperTable, load_table
from discrimloss.training.loop import NonFiniteLossError
from discrimloss.training.run import RunRequest

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


def tiny_table(directory: Path, text: str = TINY) -> PaperTable:
    """The table above, from a file."""
    path = directory / "tiny.toml"
    path.write_text(text, encoding="utf-8")
    return load_table(str(path))


def train(request: RunRequest) -> None:
    """Leaves what a training run leaves, and a file with how it was started."""
    assert request.out is not None
    request.out.mkdir(parents=True, exist_ok=True)
    how = "resume" if request.resume else "overwrite"
    (request.out / "how").write_text(how)
    row = {"epoch": 1, "test_accuracy": 91.0, "seconds": 1.0}
    (request.out / "history.jsonl").write_text(json.dumps(row) + "\n")
    summary = {"metric": "accuracy", "method": "plain", "versions": {"python": "3"}, "command": ""}
    summary |= {"test": {"last": 91.0, "best": 92.0, "best_epoch": 1}, "seconds": 1.0}
    (request.out / "summary.json").write_text(json.dumps(summary))


def fail_if_plain(request: RunRequest) -> None:
    """Prints a line; fails with the method `plain`, and trains others."""
    print("a line before", flush=True)
    if request.config.method == "plain":
        raise NonFiniteLossError("the loss became nan")
    train(request)


def stop_first_time(request: RunRequest) -> None:
    """Works until it is stopped; trains when it is resumed."""
    assert request.out is not None
    if request.resume:
        train(request)
        return
    request.out.mkdir(parents=True, exist_ok=True)
    grid_jobs.work_until_stopped(request.out)


def write_results(directory: Path, seed: int) -> None:
    """Store results of one seed for every cell of the tiny table in a directory."""
    table, store = load_table(str(directory / "tiny.toml")), ResultsStore(directory / "results")
    for row in ("plain", "gce", "discrimloss"):
        for column in ("0", "40"):
            cell = cell_of(table, row, column, seed)
            store.write(cell, result(cell, 90.0))


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
