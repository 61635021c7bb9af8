"""Cells: their order, their settings, and how they are chosen."""

from pathlib import Path

import pytest
from paper_tables import TINY, cell_of, tiny_table

from benchmarks.paper.cells import all_cells
from discrimloss.options import OptionError


def test_all_cells_of_a_seed_come_before_the_next_seed(tmp_path: Path) -> None:
    cells = all_cells(tiny_table(tmp_path))
    assert [cell.name for cell in cells] == [
        *("plain-0-1", "discrimloss-0-1", "plain-40-1", "discrimloss-40-1"),
        *("plain-0-2", "discrimloss-0-2", "plain-40-2", "discrimloss-40-2"),
    ]


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (["plain"], ["40"], ["plain-40-1"]),
        (["plain"], ["0.4"], ["plain-40-1"]),
        (["gce", "plain"], ["0.0"], ["plain-0-1", "gce-0-1"]),
        (["discrimloss"], ["0", "0.4"], ["discrimloss-0-1", "discrimloss-40-1"]),
    ],
)
def test_rows_and_columns_are_chosen_by_either_name(
    tmp_path: Path, rows: list[str], columns: list[str], expected: list[str]
) -> None:
    assert [c.name for c in all_cells(tiny_table(tmp_path), 1, rows, columns)] == expected


def test_a_name_of_a_row_is_that_row_and_a_method_is_all_its_rows(tmp_path: Path) -> None:
    text = TINY + '\n[[row]]\nname = "mean"\ntitle = "k1"\nmethod = "discrimloss"\n'
    table = tiny_table(
        tmp_path,
        text.replace('name = "discrimloss"', 'name = "ours"', 1).replace(
            'main = "discrimloss"', 'main = "ours"'
        ),
    )
    assert [c.row.name for c in all_cells(table, 1, ["ours"], ["40"])] == ["ours"]
    assert [c.row.name for c in all_cells(table, 1, ["discrimloss"], ["40"])] == ["ours", "mean"]


@pytest.mark.parametrize(("rows", "columns"), [(["human"], []), ([], ["0.7"]), ([], ["worse"])])
def test_a_choice_of_nothing_lists_what_there_is(
    tmp_path: Path, rows: list[str], columns: list[str]
) -> None:
    with pytest.raises(OptionError, match=r"selects nothing: there are (plain, gce|0 .0.0., 40)"):
        all_cells(tiny_table(tmp_path), 1, rows, columns)


def test_reduced_size_has_settings_of_its_own(tmp_path: Path) -> None:
    small = [
        'title = "GCE"',
        'title = "GCE"\nsettings = ["epochs=7"]\nsmall_settings = ["epochs=3"]',
    ]
    table = tiny_table(tmp_path, TINY.replace(*small))
    assert cell_of(table, "plain").config.train_size == 100
    assert cell_of(table, "plain", is_small=True).config.train_size == 50
    assert cell_of(table, "gce").config.epochs == 7
    assert cell_of(table, "gce", is_small=True).config.epochs == 3
    assert cell_of(table, "gce", is_small=True).name == "gce-40-1-small"
    assert len(all_cells(table, is_small=True)) == 4  # one seed


def test_the_identity_is_what_decides_the_result(tmp_path: Path) -> None:
    table = tiny_table(tmp_path)
    identity = cell_of(table, "discrimloss").identity
    assert identity["config"]["noise"]["rate"] == 0.4
    assert identity["method_defaults"]["history_decay"] == 0.9  # which nobody set
    assert "threads" not in identity["config"]
    assert identity != cell_of(table, "discrimloss", seed=2).identity
