"""Tables in files: CSV, Parquet and JSON Lines."""

from __future__ import annotations

from pathlib import Path

from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.rows import FileRows


def open_table_file(path: Path) -> FileRows:
    """The rows of a table, whose format follows from the end of its name.

    Raises:
        SourceError: the file is broken or holds no rows.
    """
    rows = _open(path)
    if not len(rows):
        raise SourceError(f"{path} holds no rows: there is nothing to audit")
    return rows


def _open(path: Path) -> FileRows:
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        from discrimloss.auditing.sources.csv_file import CsvRows

        return CsvRows(path)
    if suffix == ".parquet":
        from discrimloss.auditing.sources.parquet_file import ParquetRows

        return ParquetRows(path)
    if suffix in (".jsonl", ".ndjson"):
        from discrimloss.auditing.sources.jsonl_file import JsonlRows

        return JsonlRows(path)
    raise SourceError(
        f"cannot read {path} as a table: its name must end in .csv, .tsv, .parquet, .jsonl or "
        ".ndjson"
    )
