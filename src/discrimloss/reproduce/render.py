"""From the results store to pages: ``TABLE.md``, ``TABLE.csv`` and ``TABLE-*.png``."""

from __future__ import annotations

from pathlib import Path

from discrimloss.reproduce.claims import table_claims
from discrimloss.reproduce.csv_file import table_csv
from discrimloss.reproduce.drawing import Draw, as_png
from discrimloss.reproduce.markdown import as_markdown
from discrimloss.reproduce.results import Results, collect
from discrimloss.reproduce.store import ResultsStore
from discrimloss.reproduce.table_charts import table_charts
from discrimloss.reproduce.table_file import PaperTable
from discrimloss.whole_file import whole_file


def render(table: PaperTable, store: ResultsStore) -> list[Path]:
    """Write the pages of a table from all that is in the store; returns the files."""
    sizes = [collect(table, store, is_small) for is_small in (False, True)]
    files: dict[str, bytes] = {}
    for results in sizes:
        if results.groups:
            small = "-small" if results.is_small else ""
            for name, draw in _charts(results).items():
                files[f"{table.name}-{name}{small}.png"] = as_png(draw)
    page = as_markdown(table, sizes, list(files), table_claims)
    files[f"{table.name}.md"] = page.encode()
    files[f"{table.name}.csv"] = table_csv(table, sizes).encode()
    store.path.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        with whole_file(store.path / name) as unfinished:
            unfinished.write_bytes(content)
    return [store.path / name for name in files]


def _charts(results: Results) -> dict[str, Draw]:
    return table_charts(results)
