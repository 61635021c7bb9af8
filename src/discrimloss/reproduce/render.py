"""From the results store to pages: ``TABLE.md``, ``TABLE.csv`` and ``TABLE-*.png``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

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
from discrimloss.whole_file import whole_file

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
    sizes = [collect(table, store, is_small) for is_small in (False, True)]
    charts, claims = KINDS[table.kind]
    files: dict[str, bytes] = {}
    for results in sizes:
        if results.groups:
            small = "-small" if results.is_small else ""
            for name, draw in charts(results).items():
                files[f"{table.name}-{name}{small}.png"] = as_png(draw)
    page = as_markdown(table, sizes, list(files), claims)
    files[f"{table.name}.md"] = page.encode()
    files[f"{table.name}.csv"] = table_csv(table, sizes).encode()
    store.path.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        with whole_file(store.path / name) as unfinished:
            unfinished.write_bytes(content)
    return [store.path / name for name in files]
