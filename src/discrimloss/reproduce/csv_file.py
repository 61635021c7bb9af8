"""A table as CSV: a row for each cell and statistic, and for each figure of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from discrimloss.reproduce.results import Results
from discrimloss.reproduce.store import StoredCell
from discrimloss.reproduce.table_file import PaperTable
from discrimloss.training.records import as_csv


def table_csv(table: PaperTable, sizes: Sequence[Results]) -> str:
    """With the columns table, row, column, size, seed, statistic and value."""
    rows = [entry for results in sizes for stored in results.cells for entry in _cell_rows(stored)]
    rows += _paper_rows(table)
    return as_csv(rows or [dict.fromkeys(_entry(table, "", "", "", "", "", 0.0))])


def _cell_rows(stored: StoredCell) -> Iterator[dict[str, Any]]:
    cell, summary = stored.cell, stored.content["summary"]
    metric = summary["metric"]
    figures = {
        f"test_{metric}_last": summary.get("test", {}).get("last"),
        f"test_{metric}_best": summary.get("test", {}).get("best"),
        "best_epoch": summary.get("test", {}).get("best_epoch"),
        f"validation_{metric}_last": summary.get("validation", {}).get("last"),
    }
    names = (f"train_{metric}_noisy", "noise_true", "noise_estimated", "auroc", "score_auroc")
    figures |= {name: summary.get(name) for name in (*names, "precision", "recall", "seconds")}
    size = "small" if cell.is_small else "full"
    place = (cell.row.name, cell.column.name, size, str(cell.seed))
    for name, value in figures.items():
        if value is not None:
            yield _entry(cell.table, *place, name, value)


def _paper_rows(table: PaperTable) -> Iterator[dict[str, Any]]:
    for row in table.rows:
        told = {f"paper_{table.metric}": row.paper, "paper_train_accuracy_noisy": row.paper_train}
        for statistic, figures in told.items():
            for column, figure in figures.items():
                place = (row.name, column, "paper", "")
                yield _entry(table, *place, f"{statistic}_mean", figure.mean)
                if figure.spread is not None:
                    yield _entry(table, *place, f"{statistic}_spread", figure.spread)


def _entry(
    table: PaperTable, row: str, column: str, size: str, seed: str, statistic: str, value: float
) -> dict[str, Any]:
    place = {"table": table.name, "row": row, "column": column, "size": size, "seed": seed}
    return {**place, "statistic": statistic, "value": value}
