"""Pages against numbers worked out by hand."""

import csv
import math
from pathlib import Path

import pytest
from reproduce_fixtures import TINY, cell_of, filled, result, tiny_table

from discrimloss.reproduce.claims import compare, table_claims
from discrimloss.reproduce.grids import brief_grid
from discrimloss.reproduce.render import render
from discrimloss.reproduce.results import Spread, collect
from discrimloss.reproduce.store import ResultsStore
from discrimloss.reproduce.table_file import PaperFigure, PaperTable, load_table

PNG = b"\x89PNG"


@pytest.fixture
def store(tmp_path: Path) -> ResultsStore:
    return ResultsStore(tmp_path / "results")


def claims_of(table: PaperTable, store: ResultsStore) -> list[str]:
    return list(table_claims(collect(table, store, is_small=False)))


def test_the_page_has_mean_spread_best_epoch_and_the_papers_figure(
    tmp_path: Path, store: ResultsStore
) -> None:
    table = tiny_table(tmp_path)
    filled(store, table, {("plain", "40"): [88.0, 90.0], ("discrimloss", "40"): [93.0, 91.0]})
    filled(store, table, {("discrimloss", "0"): [97.0]})
    written = {path.name for path in render(table, store)}
    assert written == {"tiny.md", "tiny.csv", "tiny-rows.png", "tiny-curves.png"}
    assert (store.path / "tiny-rows.png").read_bytes().startswith(PNG)
    lines = (store.path / "tiny.md").read_text(encoding="utf-8").splitlines()
    assert "| | 0 % | 40 % | seeds |" in lines
    assert "| Human | – | *99.00* | paper only |" in lines
    assert "| Plain | – | 89.00 ± 1.41 [89.50] | 2 |" in lines
    ours = (
        "| DiscrimLoss | **97.00** [97.50] | **92.00 ± 1.41** [92.50]<br>*90.00 ± 0.50* | 1 to 2 |"
    )
    assert ours in lines
    assert "5 runs, 0.1 hours in all." in lines  # 36 seconds each
    assert any(line.startswith("Machine: processor ") for line in lines)
    assert any("`discrimloss train digits`. Seeds: 1 2." in line for line in lines)


def test_a_table_of_one_seed_is_told_as_one(tmp_path: Path, store: ResultsStore) -> None:
    table = tiny_table(tmp_path)
    chance = "All of it with one seed: a row that is ahead may be so by chance."
    filled(store, table, {("plain", "40"): [88.0], ("discrimloss", "40"): [93.0]})
    assert chance in claims_of(table, store)
    filled(store, table, {("plain", "40"): [88.0, 89.0]})
    assert chance not in claims_of(table, store)


def test_the_claims_are_told_both_ways(tmp_path: Path, store: ResultsStore) -> None:
    table = tiny_table(tmp_path)
    filled(store, table, {("plain", "40"): [88.0, 90.0], ("discrimloss", "40"): [93.0, 91.0]})
    assert claims_of(table, store) == [
        "**Holds:** ahead of the paper's figure in the only column (40 %).",
        "**Holds:** ahead of every other method of ours in the only column (40 %).",
        (
            "**40 %**: DiscrimLoss ends at 92.00 ± 1.41. "
            "Ahead of the paper's 90.00 ± 0.50 by 2.00. Ahead of Plain (by 3.00)."
        ),
    ]
    filled(store, table, {("gce", "40"): [96.0, 96.0], ("discrimloss", "40"): [89.0, 88.0]})
    assert claims_of(table, store) == [
        "**Does not hold:** ahead of the paper's figure in the only column (40 %).",
        "**Does not hold:** ahead of every other method of ours in the only column (40 %).",
        (
            "**40 %**: DiscrimLoss ends at 88.50 ± 0.71. Behind the paper's 90.00 ± 0.50 by 1.50. "
            "Within the spread of Plain (-0.50); behind GCE (by 7.50)."
        ),
    ]
    filled(store, table, {("plain", "0"): [96.0], ("discrimloss", "0"): [97.0]})
    told = claims_of(table, store)
    assert told[1] == (
        "**Holds in part:** ahead of every other method of ours in 1 of 2 columns (0 %); "
        "not in 40 %."
    )
    assert told[2] == "There is no run, so no comparison, of GCE in 0 %."
    assert told[3] == (
        "**0 %**: DiscrimLoss ends at 97.00. Ahead of Plain (by 1.00). "
        "One seed: no spread is known."
    )


def test_it_is_told_where_a_row_has_no_run(tmp_path: Path, store: ResultsStore) -> None:
    """Without it, "every other method" would say too much."""
    more = '[[row]]\nname = "{0}"\ntitle = "{0}"\nmethod = "{0}"\n'
    text = TINY + "".join(more.format(name) for name in ("elr", "superloss"))
    table = tiny_table(tmp_path, text)
    filled(store, table, {("discrimloss", "40"): [93.0], ("discrimloss", "0"): [97.0]})
    filled(store, table, {("plain", "40"): [88.0], ("elr", "0"): [90.0]})
    # GCE does not run by default: nobody misses it.
    told = claims_of(table, store)
    assert told[1] == "**Holds:** ahead of every other method of ours in all 2 columns."
    assert told[2] == (
        "There is no run, so no comparison, of Plain in 0 %; of elr in 40 %; "
        "of superloss in any column."
    )
    filled(store, table, {("superloss", "40"): [88.0], ("superloss", "0"): [88.0]})
    filled(store, table, {("plain", "0"): [88.0], ("elr", "40"): [90.0]})
    assert not any(sentence.startswith("There is no run") for sentence in claims_of(table, store))


@pytest.mark.parametrize(
    ("ours", "other", "lower", "word"),
    [
        (Spread(90.0, 1.0, 4), Spread(89.0, 1.0, 4), False, "ahead"),
        (Spread(90.0, 1.0, 4), Spread(89.0, 1.0, 4), True, "behind"),
        # Standard errors of 0.5 and 0.5: 0.707 together.
        (Spread(90.0, 1.0, 4), Spread(89.3, 1.0, 4), False, "within the spread"),
        (Spread(90.0, 1.0, 4), Spread(90.72, 1.0, 4), False, "behind"),
        (Spread(90.0, 1.0, 4), PaperFigure(89.9, 0.5), False, "within the spread"),
        (Spread(90.0, None, 1), PaperFigure(89.9, 0.5), False, "ahead"),
        (Spread(90.0, None, 1), Spread(90.0, None, 1), False, "within the spread"),
    ],
)
def test_comparing(ours: Spread, other: Spread | PaperFigure, lower: bool, word: str) -> None:
    told, gain, is_known = compare(ours, other, lower)
    assert told == word
    assert math.isclose(gain, (other.mean - ours.mean) * (1 if lower else -1))
    assert is_known == (ours.count > 1)


def test_errors_are_better_when_lower(tmp_path: Path, store: ResultsStore) -> None:
    table = tiny_table(tmp_path, TINY.replace('"accuracy"', '"mae"'))
    filled(store, table, {("plain", "40"): [88.0, 90.0], ("discrimloss", "40"): [93.0, 91.0]})
    results = collect(table, store, is_small=False)
    assert results.best_row("40") == "plain"
    assert "Behind the paper's 90.00 ± 0.50 by 2.00. Behind Plain" in list(table_claims(results))[2]


def test_reduced_size_is_marked_and_not_held_against_the_paper(
    tmp_path: Path, store: ResultsStore
) -> None:
    table = tiny_table(tmp_path)
    cell = cell_of(table, "discrimloss", is_small=True)
    store.write(cell, result(cell, 80.0))
    files = {path.name for path in render(table, store)}
    assert "tiny-rows-small.png" in files
    page = (store.path / "tiny.md").read_text(encoding="utf-8")
    assert "## Reduced size" in page
    assert "**80.00** [80.00]†<br>*90.00 ± 0.50*" in page
    assert "by 10.00" not in page
    assert "Made by `discrimloss reproduce tiny.toml --small`" in page


def test_the_papers_training_accuracies_stand_beside_ours(
    tmp_path: Path, store: ResultsStore
) -> None:
    ours = 'method = "discrimloss"\n'
    text = TINY.replace(ours, f'{ours}paper_train = {{ "40" = 60.38 }}\n')
    table = tiny_table(tmp_path, text)
    cell = cell_of(table, "discrimloss")
    store.write(cell, result(cell, 90.0, train_accuracy_noisy=61.5))
    render(table, store)
    page = (store.path / "tiny.md").read_text(encoding="utf-8")
    head = "Accuracy on the training labels as given, in %, at the last epoch; in italics"
    assert head in page
    assert "| DiscrimLoss | 61.50<br>*60.38* | 1 |" in page.partition(head)[2]
    with (store.path / "tiny.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["statistic"]: row["value"] for row in csv.DictReader(file)}
    assert rows["train_accuracy_noisy"] == "61.5"
    assert rows["paper_train_accuracy_noisy_mean"] == "60.38"


def test_a_figure_of_another_dataset_has_its_name(tmp_path: Path, store: ResultsStore) -> None:
    table = tiny_table(tmp_path, TINY.replace("[small]", '[small]\nrecipe = "mnist"'))
    cell = cell_of(table, "discrimloss", is_small=True)
    store.write(cell, result(cell, 80.0))
    render(table, store)
    page = (store.path / "tiny.md").read_text(encoding="utf-8")
    assert "**80.00** [80.00]†<br>*90.00 ± 0.50 (digits)*" in page


def test_stale_results_do_not_count_and_are_named(tmp_path: Path, store: ResultsStore) -> None:
    filled(store, tiny_table(tmp_path), {("discrimloss", "40"): [93.0]})
    changed = tiny_table(tmp_path, TINY.replace("epochs=1", "epochs=3"))
    render(changed, store)
    page = (store.path / "tiny.md").read_text(encoding="utf-8")
    assert "93.00" not in page
    assert "No run counts here, as told below." in page
    assert "made with other settings: discrimloss-40-1 (epochs was 1, is 3)." in page


def test_the_csv_has_a_row_for_each_cell_and_statistic(tmp_path: Path, store: ResultsStore) -> None:
    table = tiny_table(tmp_path)
    filled(store, table, {("plain", "40"): [88.0, 90.0]})
    render(table, store)
    with (store.path / "tiny.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    last = [row for row in rows if row["statistic"] == "test_accuracy_last"]
    assert [(row["row"], row["column"], row["seed"], float(row["value"])) for row in last] == [
        ("plain", "40", "1", 88.0),
        ("plain", "40", "2", 90.0),
    ]
    paper = [row for row in rows if row["size"] == "paper"]
    assert [(row["statistic"], float(row["value"])) for row in paper] == [
        ("paper_accuracy_mean", 99.0),
        ("paper_accuracy_mean", 90.0),
        ("paper_accuracy_spread", 0.5),
    ]


def test_before_the_first_run_the_page_has_the_papers_figures(
    tmp_path: Path, store: ResultsStore
) -> None:
    render(tiny_table(tmp_path), store)
    assert (store.path / "tiny.md").read_text(encoding="utf-8").splitlines()[4:] == [
        "Nothing has been run here yet.",
        "",
        "The paper's figures. Test accuracy in %, higher is better.",
        "",
        "| | 40 % | seeds |",
        "|---|---|---|",
        "| Human | *99.00* | paper only |",
        "| DiscrimLoss | *90.00 ± 0.50* | paper only |",
        "",
        "---",
        "",
        (
            "`discrimloss reproduce tiny.toml` runs it, and "
            "`discrimloss reproduce tiny.toml --small` at reduced size."
        ),
    ]


def test_before_the_first_run_a_table_without_figures_of_the_paper_has_no_grid(
    tmp_path: Path, store: ResultsStore
) -> None:
    lines = [line for line in TINY.splitlines(keepends=True) if not line.startswith("paper = {")]
    render(tiny_table(tmp_path, "".join(lines)), store)
    page = (store.path / "tiny.md").read_text(encoding="utf-8")
    assert "Nothing has been run here yet." in page
    assert "|" not in page


def test_the_command_has_the_table_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_table(tmp_path)
    (tmp_path / "my tables").mkdir()
    (tmp_path / "tiny.toml").rename(tmp_path / "my tables" / "tiny.toml")
    monkeypatch.chdir(tmp_path)
    given = Path("my tables", "tiny.toml")
    assert load_table(str(given)).name_for_command == "'my tables/tiny.toml'"
    assert load_table(str(tmp_path / given)).name_for_command == "tiny.toml"
    assert load_table("mnist").name_for_command == "mnist"


def test_other_rows_are_counted_as_well_if_the_table_asks_for_it(
    tmp_path: Path, store: ResultsStore
) -> None:
    table = tiny_table(
        tmp_path, TINY.replace('"discrimloss"\n', '"discrimloss"\nalso = ["gce"]\n', 1)
    )
    filled(store, table, {("discrimloss", "40"): [93.0, 91.0], ("gce", "40"): [96.0, 96.0]})
    assert claims_of(table, store)[2:4] == [
        "GCE. **Holds:** ahead of the paper's figure in the only column (40 %).",
        "GCE. **Holds:** ahead of every other method of ours in the only column (40 %).",
    ]


def test_the_brief_table_has_the_chosen_rows_at_the_last_epoch(
    tmp_path: Path, store: ResultsStore
) -> None:
    table = tiny_table(tmp_path)
    filled(store, table, {("plain", "40"): [88.0, 90.0], ("discrimloss", "40"): [93.0, 91.0]})
    filled(store, table, {("plain", "0"): [96.0], ("gce", "0"): [97.0]})
    rows = [row for row in table.rows if row.name in ("plain", "discrimloss")]
    assert list(brief_grid(collect(table, store, is_small=False), rows))[2:] == [
        "| Plain | 96.00 | 89.00 ± 1.41 | 1 to 2 |",
        "| DiscrimLoss | – | **92.00 ± 1.41** | 2 |",
        "| *the paper's DiscrimLoss* | *–* | *90.00 ± 0.50* | |",
    ]


def test_the_brief_table_marks_what_ran_at_reduced_size(
    tmp_path: Path, store: ResultsStore
) -> None:
    table = tiny_table(tmp_path)
    cell = cell_of(table, "plain", is_small=True)
    store.write(cell, result(cell, 88.0))
    assert list(brief_grid(collect(table, store, is_small=True), table.rows))[2:] == [
        "| Plain | **88.00**† | 1 |",
    ]
