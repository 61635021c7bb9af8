"""A table or figure of the paper as data: its rows, its columns, and the paper's values.

A TOML file. At the top: `title`, `paper` (where the table is in the paper), `about`, `recipe`,
`metric` (``accuracy`` or ``mae``), `seeds`, `main` (the row that is compared with the paper),
`also` (variants of it, compared in the same way), `kind`, and `settings` of all cells.
``[[column]]`` and ``[[row]]`` have a `name`, a `title` and `settings`; a row without a `method` is
quoted from the paper and not run. In a row, `paper` has the paper's values, `paper_train` its
accuracy on the training labels, and `paper_cost` the cost that the paper reports for a change in an
ablation. ``[small]`` has the settings of runs at reduced size.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tomlkit
import tomlkit.exceptions

from discrimloss.options import Option, OptionError, check_options, did_you_mean

FOLDER = Path(__file__).parent / "tables"
NAME = re.compile(r"[a-z0-9][a-z0-9_.+]*(-[a-z0-9_.+]+)*")
COSTS = Literal["little", "considerable"]
KINDS = Literal["table", "generalization", "histograms", "fluctuation", "ablation"]


@dataclass(frozen=True)
class Small:
    """How a table, or one of its columns, is run at reduced size."""

    recipe: str | None = None
    settings: tuple[str, ...] = ()
    seeds: int | None = None


@dataclass(frozen=True)
class Column:
    """A setting in which all rows are run: a noise level, a dataset, a loss."""

    name: str
    title: str
    settings: tuple[str, ...] = ()
    recipe: str | None = None
    """Where it differs from the table's."""
    noise: float | None = None
    """Its name for --noise, beside `name`."""
    by_default: bool = True
    small: Small = field(default_factory=Small)
    runs_small: bool = True
    """Whether there is such a column at reduced size."""
    small_by_default: bool = True


@dataclass(frozen=True)
class PaperValue:
    """A value of the paper: a mean, with a spread where the paper has one."""

    mean: float
    spread: float | None = None


@dataclass(frozen=True)
class TableRow:
    """A method with its settings, or a row that is quoted from the paper."""

    name: str
    title: str
    method: str | None = None
    settings: tuple[str, ...] = ()
    small_settings: tuple[str, ...] | None = None
    """In place of `settings` at reduced size, where they depend on the number of epochs."""
    by_default: bool = True
    paper: Mapping[str, PaperValue] = field(default_factory=dict)
    """By the name of the column."""
    paper_train: Mapping[str, PaperValue] = field(default_factory=dict)
    """The paper's accuracy on the training labels as given."""
    paper_cost: COSTS | None = None
    """In an ablation: what this change costs against the main row, in the paper's words."""


@dataclass(frozen=True)
class PaperTable:
    """A table or a figure of the paper."""

    name: str
    title: str
    paper: str
    about: str
    kind: KINDS
    recipe: str
    metric: Literal["accuracy", "mae"]
    seeds: int
    main: str
    also: tuple[str, ...]
    settings: tuple[str, ...]
    small: Small
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    path: Path

    @property
    def name_for_command(self) -> str:
        """Its name in a command: a name of ours, or the file as it was given.

        For an absolute path, only the file's name: pages are read on other machines.
        """
        if self.path.parent == FOLDER:
            return self.name
        return shlex.quote(self.path.name if self.path.is_absolute() else self.path.as_posix())

    @property
    def lower_is_better(self) -> bool:
        """Whether the metric is an error."""
        return self.metric == "mae"

    def paper_value(self, row: TableRow, column: Column) -> PaperValue | None:
        """The paper's value for a row of ours.

        The main row and its variants (`also`) may be rows of our own. They have the paper's value
        for the main row, or else its best one for the same method.
        """
        if column.name in row.paper or row.name not in (self.main, *self.also):
            return row.paper.get(column.name)
        main = self.row(self.main)
        assert main is not None  # the file was checked
        if column.name in main.paper:
            return main.paper[column.name]
        found = [other.paper.get(column.name) for other in self.rows if other.method == main.method]
        choose = min if self.lower_is_better else max
        return choose((v for v in found if v is not None), key=lambda v: v.mean, default=None)

    def column(self, name: str) -> Column | None:
        """The column of this name."""
        return next((column for column in self.columns if column.name == name), None)

    def row(self, name: str) -> TableRow | None:
        """The row of this name."""
        return next((row for row in self.rows if row.name == name), None)


def table_files() -> dict[str, Path]:
    """Our tables by name, in the paper's order."""
    files = {file.stem: file for file in FOLDER.glob("*.toml")}
    return {name: files[name] for name in sorted(files, key=_place_in_paper)}


def load_table(name_or_file: str) -> PaperTable:
    """One of ours by name, or any TOML file of this form.

    Raises:
        OptionError: the file is missing, is no TOML, or has a wrong key or value.
    """
    ours = table_files()
    path = ours.get(name_or_file, Path(name_or_file))
    if not path.is_file():
        if path.suffix == ".toml":
            raise OptionError(f"there is no table file {path}")
        raise OptionError(f"unknown table {name_or_file!r}: {did_you_mean(name_or_file, ours)}")
    try:
        text = path.read_text(encoding="utf-8")
        return read_table(tomlkit.parse(text).unwrap(), path)
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read the table {path}: {error}") from error
    except tomlkit.exceptions.TOMLKitError as error:
        raise OptionError(f"{path} is not valid TOML: {error}") from error
    except OptionError as error:
        where = "" if name_or_file in ours else f"{path}: "
        raise OptionError(f"{where}{error}") from error


def read_table(content: Mapping[str, Any], path: Path) -> PaperTable:
    """Make a table from the content of a file, with every key checked."""
    given = check_options(_TABLE, content, "", "a table")
    columns = tuple(_read_column(entry) for entry in _tables(given, "column"))
    rows = tuple(_read_row(entry, columns) for entry in _tables(given, "row"))
    _require_distinct("column", [column.name for column in columns])
    _require_distinct("row", [row.name for row in rows])
    _require_distinct_cells(rows, columns)
    runnable = [row.name for row in rows if row.method is not None]
    main, also = given["main"], tuple(given.get("also", ()))
    for key, name in (("main", main), *(("also", name) for name in also)):
        if name not in runnable:
            raise OptionError(
                f"{key} must name a row that has a method: {did_you_mean(name, runnable)}"
            )
    if given["seeds"] < 1:
        raise OptionError(f"seeds must be 1 or more, not {given['seeds']}")
    return PaperTable(
        name=path.stem,
        title=given["title"],
        paper=given.get("paper", ""),
        about=given.get("about", "").strip(),
        kind=given.get("kind", "table"),
        recipe=given["recipe"],
        metric=given["metric"],
        seeds=given["seeds"],
        main=main,
        also=also,
        settings=tuple(given.get("settings", ())),
        small=_read_small(given.get("small", {}), "small"),
        columns=columns,
        rows=rows,
        path=path,
    )


_SMALL = {
    "recipe": Option(str, None),
    "settings": Option(list[str], ()),
    "seeds": Option(int, None),
}
_COLUMN = {
    "name": Option(str),
    "title": Option(str),
    "settings": Option(list[str], ()),
    "recipe": Option(str, None),
    "noise": Option(float, None),
    "default": Option(bool, True),
    "small": Option(dict, {}),
    "runs_small": Option(bool, True),
    "small_default": Option(bool, None),
}
_ROW = {
    "name": Option(str),
    "title": Option(str),
    "method": Option(str, None),
    "settings": Option(list[str], ()),
    "small_settings": Option(list[str], None),
    "default": Option(bool, True),
    "paper": Option(dict, {}),
    "paper_train": Option(dict, {}),
    "paper_cost": Option(COSTS, None),
}
_TABLE = {
    "title": Option(str),
    "paper": Option(str, ""),
    "about": Option(str, ""),
    "kind": Option(KINDS, "table"),
    "recipe": Option(str),
    "metric": Option(Literal["accuracy", "mae"]),
    "seeds": Option(int),
    "main": Option(str),
    "also": Option(list[str], ()),
    "settings": Option(list[str], ()),
    "small": Option(dict, {}),
    "column": Option(list[dict[str, Any]]),
    "row": Option(list[dict[str, Any]]),
}
_PLACES = (
    *("mnist", "cifar", "clothing1m", "utkface", "digitsum", "digitsum-lengths", "wikihow"),
    *("generalization", "histograms", "fluctuation", "ablation"),
)


def _place_in_paper(name: str) -> tuple[int, str]:
    return (_PLACES.index(name) if name in _PLACES else len(_PLACES), name)


def _tables(given: Mapping[str, Any], key: str) -> list[Any]:
    entries: list[Any] = given[key]
    if not entries:
        raise OptionError(f"a table needs at least one [[{key}]]")
    return entries


def _read_small(content: Mapping[str, Any], where: str) -> Small:
    given = check_options(_SMALL, content, where, f"[{where}]")
    seeds = given.get("seeds")
    if seeds is not None and seeds < 1:
        raise OptionError(f"{where}.seeds must be 1 or more, not {seeds}")
    return Small(given.get("recipe"), tuple(given.get("settings", ())), seeds)


def _read_column(content: Mapping[str, Any]) -> Column:
    given = check_options(_COLUMN, content, "column", "a column")
    by_default = given.get("default", True)
    return Column(
        name=_checked_name("column", given["name"]),
        title=given["title"],
        settings=tuple(given.get("settings", ())),
        recipe=given.get("recipe"),
        noise=given.get("noise"),
        by_default=by_default,
        small=_read_small(given.get("small", {}), "column.small"),
        runs_small=given.get("runs_small", True),
        small_by_default=given.get("small_default", by_default),
    )


def _read_row(content: Mapping[str, Any], columns: Sequence[Column]) -> TableRow:
    given = check_options(_ROW, content, "row", "a row")
    small = given.get("small_settings")
    return TableRow(
        name=_checked_name("row", given["name"]),
        title=given["title"],
        method=given.get("method"),
        settings=tuple(given.get("settings", ())),
        small_settings=None if small is None else tuple(small),
        by_default=given.get("default", True),
        paper=_read_values(given, "paper", columns),
        paper_train=_read_values(given, "paper_train", columns),
        paper_cost=given.get("paper_cost"),
    )


def _read_values(
    row: Mapping[str, Any], key: str, columns: Sequence[Column]
) -> dict[str, PaperValue]:
    known = [column.name for column in columns]
    figures = {}
    for column, numbers in row.get(key, {}).items():
        if column not in known:
            raise OptionError(
                f"row.{key} of {row['name']!r} names a column {column!r}: "
                f"{did_you_mean(column, known)}"
            )
        figures[column] = _read_value(numbers, f"row.{key}.{column}")
    return figures


def _read_value(numbers: Any, where: str) -> PaperValue:
    values = numbers if isinstance(numbers, list) else [numbers]
    are_numbers = all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in values)
    if len(values) not in (1, 2) or not are_numbers:
        raise OptionError(f"{where} must be a mean, or [mean, spread], not {numbers!r}")
    return PaperValue(*map(float, values))


def _checked_name(kind: str, name: str) -> str:
    if not NAME.fullmatch(name):  # it becomes part of the names of files
        raise OptionError(f"a {kind}'s name is of small letters, digits and dashes, not {name!r}")
    return name


def _require_distinct(kind: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"there are two {kind}s named {name!r}")


def _require_distinct_cells(rows: Sequence[TableRow], columns: Sequence[Column]) -> None:
    """Raise an error if two cells have one name: names may have dashes, and dashes join them."""
    named: dict[str, str] = {}
    for row in rows:
        if row.method is None:
            continue
        for column in columns:
            name, cell = f"{row.name}-{column.name}", f"row {row.name!r} in column {column.name!r}"
            if name in named:
                raise OptionError(
                    f"{named[name]} and {cell} would both be named {name}: "
                    "give one of the rows or columns another name"
                )
            named[name] = cell
