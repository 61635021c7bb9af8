"""The tables of the paper: every one is complete and can be run."""

import math
from pathlib import Path

import pytest
from paper_tables import TINY, tiny_table

from benchmarks.paper.cells import Cell
from benchmarks.paper.table_file import PaperTable, load_table, table_files
from discrimloss.options import OptionError

NAMES = ["mnist", "cifar", "clothing1m", "utkface", "digitsum", "digitsum-lengths", "wikihow"]
NAMES += ["generalization", "histograms", "fluctuation", "ablation"]


def telling_cells(table: PaperTable, is_small: bool) -> list[Cell]:
    """Every row in the last column; rows with settings of their own, and the main one, in all."""
    columns = [c for c in table.columns if c.by_default and (c.runs_small or not is_small)]
    rows = [row for row in table.rows if row.method is not None]
    special = [row for row in rows if row.settings or row.name == table.main]
    pairs = [(row, columns[-1]) for row in rows if row not in special]
    pairs += [(row, column) for row in special for column in columns]
    return [Cell(table, row, column, 1, is_small) for row, column in pairs]


def test_every_table_of_the_paper_is_there_in_its_order() -> None:
    assert list(table_files()) == NAMES


@pytest.mark.parametrize("is_small", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_every_cell_is_an_experiment_of_its_own(name: str, is_small: bool) -> None:
    cells = telling_cells(load_table(name), is_small)
    assert len({cell.name for cell in cells}) == len(cells)
    # Names that differ but settings that do not would be the same run under two names.
    identities = [cell.identity for cell in cells]
    assert all(identities.count(identity) == 1 for identity in identities)
    for cell in cells:
        assert (cell.config.loss == "cross_entropy") == (cell.table.metric == "accuracy")
        if cell.column.noise is not None:
            assert math.isclose(cell.config.noise.rate, cell.column.noise)


@pytest.mark.parametrize("name", NAMES)
def test_the_papers_figures_are_plausible(name: str) -> None:
    table = load_table(name)
    for row in table.rows:
        for figure in row.paper.values():
            low, high = (40.0, 99.9) if table.metric == "accuracy" else (4.0, 40.0)
            assert low < figure.mean < high
            assert figure.spread is None or 0.0 < figure.spread < 5.0
            assert row.method is not None or figure.spread is None  # quoted ones have none


@pytest.mark.parametrize("name", ["mnist", "cifar", "utkface"])
def test_in_the_paper_discrimloss_is_best_everywhere(name: str) -> None:
    """Which a slip of the finger in a figure would end."""
    table = load_table(name)
    main = table.row("discrimloss")
    assert main is not None
    for column, figure in main.paper.items():
        others = [row.paper[column].mean for row in table.rows if column in row.paper]
        assert figure.mean == (min if table.lower_is_better else max)(others)


def test_the_papers_means_add_up() -> None:
    """Sums of what the paper prints, taken by hand from its text."""
    mnist = load_table("mnist")
    sums = {r.name: round(sum(f.mean for f in r.paper.values()), 2) for r in mnist.rows if r.paper}
    assert sums == {
        "mentornet": 191.17,
        "co_teaching": 191.86,
        "co_teaching_plus": 193.98,
        "jocor": 182.95,
        "superloss": 489.46,
        "discrimloss": 490.97,
    }


def test_the_training_accuracies_of_the_paper() -> None:
    values = {row.name: row.paper_train["40"].mean for row in load_table("generalization").rows}
    assert values == {"plain": 99.58, "superloss": 83.03, "discrimloss": 60.38}


def test_the_wheel_has_the_package_and_no_benchmark() -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="hatchling builds the wheel")
    root = Path(__file__).parents[3]
    packed = {
        Path(file.distribution_path).as_posix()
        for file in wheel.WheelBuilder(str(root)).recurse_included_files()
    }
    assert "discrimloss/loss.py" in packed
    assert all(file.startswith("discrimloss/") for file in packed)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ('main = "discrimloss"', 'main = "human"', "main must name a row that has a method"),
        ('main = "discrimloss"', 'main = "discrimloss"\nalso = ["human"]', "also must name a row"),
        ('name = "gce"', 'name = "plain"', "there are two rows named 'plain'"),
        ('name = "gce"', 'name = "G/E"', "a row's name is of small letters"),
        ('{ "40" = 99.0 }', '{ "41" = 99.0 }', "names a column '41'"),
        ('{ "40" = 99.0 }', '{ "40" = [1, 2, 3] }', "must be a mean, or"),
        ("seeds = 2", "seeds = 0", "seeds must be 1 or more"),
        ("seeds = 2", "seed = 2", "unknown key seed"),
        ('title = "GCE"', "", "a row needs row.title"),
        ('title = "GCE"', "title = ", "is not valid TOML"),
    ],
)
def test_a_file_that_is_no_table_is_told_in_one_sentence(
    tmp_path: Path, before: str, after: str, sentence: str
) -> None:
    assert before in TINY
    with pytest.raises(OptionError) as told:
        tiny_table(tmp_path, TINY.replace(before, after))
    assert sentence in str(told.value)
    assert "tiny.toml" in str(told.value)


def test_two_cells_of_one_name_are_refused(tmp_path: Path) -> None:
    text = TINY.replace('name = "gce"', 'name = "plain-b"').replace('name = "0"', 'name = "b-40"')
    with pytest.raises(OptionError) as refused:
        tiny_table(tmp_path, text)
    assert str(refused.value) == (
        f"{tmp_path / 'tiny.toml'}: row 'plain' in column 'b-40' and row 'plain-b' in column '40' "
        "would both be named plain-b-40: give one of the rows or columns another name"
    )
    # A row that is only quoted has no cells.
    tiny_table(tmp_path, text.replace('method = "gce"\n', ""))


def test_the_table_in_the_documentation_can_be_loaded(tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "reproduce.md"
    text = page.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    table = tiny_table(tmp_path, text)
    assert table.kind == "table"
    assert [row.name for row in table.rows] == ["plain", "discrimloss"]
