"""Tables in JSON files, Excel workbooks, Feather files and databases."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrimloss.auditing.sources.base import Label, SourceError
from discrimloss.auditing.sources.in_memory import FrameRows
from discrimloss.auditing.sources.tables import FileRows
from discrimloss.auditing.sources.text_files import open_bytes
from discrimloss.auditing.sources.values import (
    Spelling,
    arrow,
    arrow_series,
    arrow_value,
    as_text,
    kept_rows,
    relabelled_column,
)
from discrimloss.errors import DiscrimLossError
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import import_pandas
from discrimloss.options import did_you_mean

if TYPE_CHECKING:
    import pandas

DATABASES = (".db", ".sqlite", ".sqlite3")
_EXTRA = "pip install 'discrimloss[tables]'"
_QUERY = re.compile(r"\s*(select|with)\b", re.IGNORECASE)


class FrameFile(FileRows):
    """The rows of a file that is read into memory as a whole."""

    _frame: pandas.DataFrame

    def _keep(self, frame: pandas.DataFrame) -> None:
        self._frame = frame.reset_index(drop=True).set_axis([str(n) for n in frame.columns], axis=1)
        self.columns = tuple(self._frame.columns)

    def __len__(self) -> int:
        return len(self._frame)

    def series(self, column: str) -> pandas.Series:
        """Return a column with the detected type."""
        return self._frame[column]

    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Return the names and values of a row."""
        return tuple((name, as_text(self._frame[name].iloc[number])) for name in self.columns)


class JsonRows(FrameFile):
    """The rows of a JSON file: a list of objects, possibly under a key, or an object of columns."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            with open_bytes(path) as file:
                self._text = file.read().decode("utf-8-sig")
            self._content = json.loads(self._text)
        except UnicodeDecodeError as error:
            raise SourceError(f"{path} is not in UTF-8: save the file as UTF-8") from error
        except (OSError, EOFError, ValueError) as error:
            raise SourceError(
                f"cannot read {path} as JSON ({error}): fix it, or name it .jsonl if every line "
                "is an object"
            ) from error
        self._records = self._found_records()
        pandas = import_pandas()
        try:
            frame = pandas.DataFrame(self._content if self._records is None else self._records)
        except (TypeError, ValueError, AttributeError) as error:
            raise SourceError(
                f"{path} contains no table ({error}): write a list of objects, "
                '[{"text": "...", "label": "a"}, ...]'
            ) from error
        self._keep(frame)

    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write the same JSON with new labels and the same indentation."""
        spell = Spelling(self._frame[column], strict=False)
        content, keep = json.loads(self._text), kept_rows(len(self), dropped).tolist()
        if self._records is not None:
            records = content if self._key is None else content[self._key]
            for row, label in new_labels.items():
                records[row][column] = spell(label)
            records[:] = [records[row] for row in keep]
        else:
            for name, values in content.items():
                keys = list(range(len(self))) if isinstance(values, list) else list(values)
                if name == column:
                    for row, label in new_labels.items():
                        values[keys[row]] = spell(label)
                if isinstance(values, list):
                    content[name] = [values[row] for row in keep]
                else:
                    content[name] = {keys[row]: values[keys[row]] for row in keep}
        indent = re.match(r"\s*[\[{]\r?\n( +)", self._text)
        text = json.dumps(
            content,
            indent=len(indent[1]) if indent else None,
            ensure_ascii=self._text.isascii() and "\\u" in self._text,
            separators=None if indent or '": ' in self._text else (",", ":"),
        )
        end = "\n" if self._text.endswith("\n") else ""
        with (
            atomic_write(path) as unfinished,
            open_bytes(unfinished, "wb", self.path) as file,
        ):
            file.write((text + end).encode())

    def _found_records(self) -> list[Any] | None:
        """Return the list of objects, or None if the file is an object of columns."""
        self._key: str | None = None
        content = self._content
        if isinstance(content, list):
            return content
        if isinstance(content, dict):
            lists = [
                key
                for key, value in content.items()
                if isinstance(value, list) and value and all(isinstance(v, dict) for v in value)
            ]
            if len(lists) == 1:
                self._key = lists[0]
                self.notes = (f"the rows are under the key {self._key!r}",)
                records: list[Any] = content[self._key]
                return records
            return None
        raise SourceError(f"{self.path} contains no table: write a list of objects")


class FeatherRows(FileRows):
    """The rows of a Feather file, Arrow's format on disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        pyarrow, feather = arrow(), arrow("feather")
        try:
            self._table = feather.read_table(path)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise SourceError(
                f"cannot read {path} as a Feather file ({reason}): write it again"
            ) from error
        self.columns = tuple(self._table.column_names)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def series(self, column: str) -> pandas.Series:
        """Return a column with its type."""
        series: pandas.Series = arrow_series(self._table.column(column))
        return series

    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Return the names and values of a row."""
        [values] = self._table.slice(number, 1).to_pylist()
        return tuple((name, as_text(values[name])) for name in self.columns)

    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write the file with the same schema and metadata."""
        table = self._table.combine_chunks()
        if new_labels:
            place = self.columns.index(column)
            labels = relabelled_column(table.column(place), new_labels, column)
            table = table.set_column(place, table.schema.field(place), labels)
        table = table.take(kept_rows(len(self), dropped))
        with atomic_write(path) as unfinished:
            arrow("feather").write_feather(table, str(unfinished))

    def require_label(self, label: Label, column: str) -> None:
        """Raise a `SourceError` if the type of a column cannot store a label."""
        arrow_value(label, self._table.schema.field(column).type, column)


class ExcelRows(FrameFile):
    """The rows of a sheet of an Excel workbook. The first row that is not empty is the header.

    Args:
        path: path of the workbook.
        sheet: name of the sheet. By default the first one.
    """

    note_on_corrected = "Charts and images of the workbook are not kept."

    def __init__(self, path: Path, sheet: str | None = None) -> None:
        super().__init__(path)
        workbook = self._opened(read_only=True, data_only=True)
        names = workbook.sheetnames
        if sheet is not None and sheet not in names:
            raise SourceError(
                f"{path} has no sheet {sheet!r} (--query): {did_you_mean(sheet, names)}"
            )
        self._sheet = names[0] if sheet is None else sheet
        if sheet is None and len(names) > 1:
            others = ", ".join(names[1:])
            self.notes = (f"the sheet {self._sheet!r} is audited; others, with --query: {others}",)
        cells = workbook[self._sheet]
        cells.reset_dimensions()
        read = [
            (number, row)
            for number, row in enumerate(cells.iter_rows(values_only=True), start=1)
            if any(value is not None for value in row)
        ]
        workbook.close()
        if not read:
            raise SourceError(
                f"the sheet {self._sheet!r} of {path} is empty: choose another, --query"
            )
        header = read[0][1]
        places = [place for place, name in enumerate(header) if name is not None]
        self._places = {str(header[place]): place for place in places}
        self._numbers = [number for number, _ in read[1:]]
        columns = [[row[p] if p < len(row) else None for _, row in read[1:]] for p in places]
        pandas = import_pandas()
        series = [pandas.Series(values, dtype=None if values else object) for values in columns]
        frame = pandas.concat(series, axis=1) if series else pandas.DataFrame()
        self._keep(frame.set_axis([str(header[place]) for place in places], axis=1))

    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write the workbook. Other sheets, formulas and formats are unchanged."""
        spell = Spelling(self._frame[column], strict=False)
        workbook = self._opened(keep_vba=self.path.suffix.lower() == ".xlsm")
        sheet = workbook[self._sheet]
        for row, label in new_labels.items():
            sheet.cell(self._numbers[row], self._places[column] + 1).value = spell(label)
        for row in sorted(dropped, reverse=True):
            sheet.delete_rows(self._numbers[row])
        with atomic_write(path) as unfinished:
            workbook.save(unfinished)

    def _opened(self, **how: Any) -> Any:
        try:
            import openpyxl
        except ImportError as error:
            raise SourceError(f"Excel files need openpyxl: {_EXTRA}") from error
        try:
            return openpyxl.load_workbook(self.path, **how)
        except Exception as error:  # of many types: a workbook is an archive of XML files
            raise SourceError(
                f"cannot read {self.path} as an Excel workbook ({error}): save it again as "
                ".xlsx, without a password"
            ) from error


class DatabaseRows(FrameRows):
    """The rows of a table or a query of a database.

    Args:
        url: a URL of SQLAlchemy, or the path of an SQLite file.
        query: a table, or a query that begins with SELECT. By default the only table.
    """

    note_on_corrected = "The database itself does not change."

    def __init__(self, url: str, query: str | None = None) -> None:
        engine = _engine(url)
        pandas = import_pandas()
        try:
            with engine.connect() as connection:
                table = _only_table(connection, url) if query is None else query
                is_query = _QUERY.match(table) is not None
                if not is_query:
                    _require_table(connection, table)
                read = pandas.read_sql_query if is_query else pandas.read_sql_table
                from sqlalchemy import text

                frame = read(text(table) if is_query else table, connection)
        except DiscrimLossError:
            raise
        except Exception as error:  # each driver raises its own types
            reason = str(error).partition("\n")[0]
            raise SourceError(f"cannot read {url} ({reason}): check the URL and --query") from error
        finally:
            engine.dispose()
        self.name = f"the {'query' if is_query else f'table {table!r}'}"
        self.file_name = (
            f"{'corrected' if is_query else re.sub(r'[^-.0-9A-Za-z_]', '_', table)}.csv"
        )
        super().__init__(frame)


def _engine(url: str) -> Any:
    try:
        from sqlalchemy import create_engine
        from sqlalchemy.engine import make_url
    except ImportError as error:
        raise SourceError(f"a database needs SQLAlchemy: {_EXTRA}") from error
    if "://" not in url:
        url = f"sqlite:///{url}"
    try:
        address = make_url(url)
        if address.password is not None:
            raise SourceError(
                "the URL of the database contains a password, which the files of the audit would "
                "show: leave it out, and pass it as the driver reads it, such as PGPASSWORD or "
                "~/.my.cnf"
            )
        if address.get_backend_name() == "sqlite" and not Path(address.database or "").is_file():
            raise SourceError(f"there is no file {address.database}: check the URL")
        return create_engine(address)
    except DiscrimLossError:
        raise
    except Exception as error:  # an unknown dialect, or a driver that is not installed
        raise SourceError(
            f"cannot open {url} ({error}): check the URL, install the driver"
        ) from error


def _tables(connection: Any) -> Sequence[str]:
    from sqlalchemy import inspect

    inspector = inspect(connection)
    return [*inspector.get_table_names(), *inspector.get_view_names()]


def _only_table(connection: Any, url: str) -> str:
    names = _tables(connection)
    if len(names) != 1:
        raise SourceError(
            f"choose what to audit in {url} with --query TABLE or a query: it has "
            f"{', '.join(names) or 'no tables'}"
        )
    return names[0]


def _require_table(connection: Any, table: str) -> None:
    names = _tables(connection)
    if table not in names:
        raise SourceError(
            f"the database has no table {table!r} (--query): {did_you_mean(table, names)}; a query "
            "begins with SELECT"
        )
