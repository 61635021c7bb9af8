"""From the results store to pages: ``TABLE.md``, ``TABLE.csv`` and ``TABLE-*.png``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from discrimloss.files.atomic_write import atomic_write
from discrimloss.reproduce.ablation_claims import ablation_claims
from discrimloss.reproduce.claims import table_claims
from discrimloss.reproduce.csv_file import table_csv
from discrimloss.reproduce.drawing import Draw, as_png
from discrimloss.reproduce.figure_claims import (
    fluctuation_claims,
    generalization_claims,
    histogram_claims,
)
from discrimloss.reproduce.markdown import as_markdown
from discrimloss.reproduce.results import Results, collect
from discrimloss.reproduce.sample_charts import (
    fluctuation_charts,
    generalization_charts,
    histogram_charts,
)
from discrimloss.reproduce.store import ResultsStore
from discrimloss.reproduce.table_charts import table_charts
from discrimloss.reproduce.table_file import PaperTable

Charts = Callable[[Results], dict[str, Draw]]
Claims = Callable[[Results], Iterable[str]]
KINDS: dict[str, tuple[Charts, Claims]] = {
    "table": (table_charts, table_claims),
    "ablation": (table_charts, ablation_claims),
    "generalization": (generalization_charts, generalization_claims),
    "histograms": (histogram_charts, histogram_claims),
    "fluctuation": (fluctuation_charts, fluctuation_claims),
}
"""What is drawn and what is said of each kind of table."""


def render(table: PaperTable, store: ResultsStore) -> list[Path]:
    """Write the pages of a table from all that is in the store; returns the files."""
    return write(both_sizes(table, store), store.path)


def both_sizes(table: PaperTable, store: ResultsStore) -> list[Results]:
    """What there is of a table, at full and at reduced size."""
    return [collect(table, store, is_small) for is_small in (False, True)]


def pages(sizes: Sequence[Results]) -> dict[str, str]:
    """The Markdown and the CSV of a table, by the names of their files."""
    table = sizes[0].table
    page = as_markdown(table, sizes, list(figures(sizes)), KINDS[table.kind][1])
    return {f"{table.name}.md": page, f"{table.name}.csv": table_csv(table, sizes)}


def figures(sizes: Sequence[Results]) -> dict[str, Draw]:
    """What draws each figure of a table, by the names of their files."""
    return {
        f"{results.table.name}-{name}{'-small' if results.is_small else ''}.png": draw
        for results in sizes
        if results.groups
        for name, draw in KINDS[results.table.kind][0](results).items()
    }


def write(sizes: Sequence[Results], folder: Path) -> list[Path]:
    """Write pages and figures of a table; returns the files."""
    files = {name: as_png(draw) for name, draw in figures(sizes).items()}
    files |= {name: text.encode() for name, text in pages(sizes).items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        with atomic_write(folder / name) as unfinished:
            unfinished.write_bytes(content)
    return [folder / name for name in files]
