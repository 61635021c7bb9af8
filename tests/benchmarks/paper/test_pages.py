"""Pages against numbers worked out by hand."""

import csv
from pathlib import Path

import pytest
from paper_tables import TINY, cell_of, filled, result, tiny_table

from benchmarks.paper.grids import brief_grid, grids
from benchmarks.paper.pages import render
from benchmarks.paper.results import Spread, collect, mark
from benchmarks.paper.store import ResultsStore
from benchmarks.paper.table_file import PaperValue, load_table

PNG = b"\x89PNG"


@pytest.fixture
def store(tmp_path: Path) -> ResultsStore:
    return ResultsStore(tmp_path / "results")


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
    ours = "**92.00 ± 1.41** ▲ [92.50]<br>*90.00 ± 0.50*"
    assert f"| DiscrimLoss | **97.00** [97.50] | {ours} | 1 to 2 |" in lines
    assert "5 runs, 0.1 hours in all." in lines  # 36 seconds each
    assert any(line.startswith("Machine: processor ") for line in lines)
    assert any("`discrimloss train digits`. Seeds: 1 2." in line for line in lines)


@pytest.mark.parametrize(
    ("ours", "other", "lower", "sign"),
    [
        (Spread(90.0, 1.0, 4), Spread(89.0, 1.0, 4), False, "▲"),
        (Spread(90.0, 1.0, 4), Spread(89.0, 1.0, 4), True, "▼"),
        # Standard errors of 0.5 and 0.5: 0.707 together.
        (Spread(90.0, 1.0, 4), Spread(89.3, 1.0, 4), False, ""),
        (Spread(90.0, 1.0, 4), Spread(90.72, 1.0, 4), False, "▼"),
        (Spread(90.0, 1.0, 4), PaperValue(89.9, 0.5), False, ""),
        (Spread(90.0, 1.0, 4), PaperValue(89.4), False, "▲"),
        (Spread(90.0, None, 1), PaperValue(80.0, 0.5), False, ""),  # no spread of ours is known
        (Spread(90.0, 0.0, 2), Spread(90.0, 0.0, 2), False, ""),
    ],
)
def test_marks_need_a_difference_beyond_the_standard_error(
    ours: Spread, other: Spread | PaperValue, lower: bool, sign: str
) -> None:
    assert mark(ours, other, lower) == sign


def test_a_row_is_marked_against_its_own_value_of_the_paper(
    tmp_path: Path, store: ResultsStore
) -> None:
    gce = 'method = "gce"\n'
    table = tiny_table(tmp_path, TINY.replace(gce, f'{gce}paper = {{ "40" = [95.0, 0.1] }}\n'))
    filled(store, table, {("gce", "40"): [93.0, 93.5], ("discrimloss", "40"): [93.0, 91.0]})
    lines = list(grids(collect(table, store, is_small=False)))
    assert "| GCE | **93.25 ± 0.35** ▼ [93.75]<br>*95.00 ± 0.10* | 2 |" in lines
    assert "| DiscrimLoss | 92.00 ± 1.41 ▲ [92.50]<br>*90.00 ± 0.50* | 2 |" in lines


def test_a_variant_of_the_main_row_is_marked_against_the_papers_main_row(
    tmp_path: Path, store: ResultsStore
) -> None:
    text = TINY.replace('"discrimloss"\n', '"discrimloss"\nalso = ["gce"]\n', 1)
    table = tiny_table(tmp_path, text)
    filled(store, table, {("gce", "40"): [96.0, 96.0], ("plain", "40"): [80.0, 80.0]})
    lines = list(grids(collect(table, store, is_small=False)))
    assert "| GCE | **96.00 ± 0.00** ▲ [96.50] | 2 |" in lines
    assert "| Plain | 80.00 ± 0.00 [80.50] | 2 |" in lines


def test_a_main_row_of_our_own_is_marked_against_the_papers_best(
    tmp_path: Path, store: ResultsStore
) -> None:
    more = (
        '[[row]]\nname = "{0}"\ntitle = "{0}"\nmethod = "discrimloss"\npaper = {{ "40" = {1} }}\n'
    )
    text = TINY.replace('paper = { "40" = [90.0, 0.5] }\n', "")
    text += more.format("ema", 85.0) + more.format("mean", 88.0)
    table = tiny_table(tmp_path, text)
    filled(store, table, {("discrimloss", "40"): [87.0, 87.0]})
    assert "| DiscrimLoss | **87.00 ± 0.00** ▼ [87.50] | 2 |" in list(
        grids(collect(table, store, is_small=False))
    )


def test_errors_are_better_when_lower(tmp_path: Path, store: ResultsStore) -> None:
    table = tiny_table(tmp_path, TINY.replace('"accuracy"', '"mae"'))
    filled(store, table, {("plain", "40"): [88.0, 90.0], ("discrimloss", "40"): [93.0, 91.0]})
    results = collect(table, store, is_small=False)
    assert results.best_row("40") == "plain"
    assert "| DiscrimLoss | 92.00 ± 1.41 ▼ [92.50]<br>*90.00 ± 0.50* | 2 |" in list(grids(results))


def test_an_ablation_has_the_difference_of_each_change(tmp_path: Path, store: ResultsStore) -> None:
    text = TINY.replace('method = "plain"\n', 'method = "plain"\npaper_cost = "considerable"\n')
    table = tiny_table(tmp_path, f'kind = "ablation"\n{text}')
    filled(store, table, {("plain", "40"): [88.0, 89.0], ("gce", "40"): [92.5, 92.7]})
    filled(store, table, {("discrimloss", "40"): [93.0, 92.0]})
    lines = list(grids(collect(table, store, is_small=False)))
    assert lines[lines.index("| | 40 % | cost in the paper |") :] == [
        "| | 40 % | cost in the paper |",
        "|---|---|---|",
        "| Plain | -4.00 ▼ | considerable |",
        "| GCE | +0.10 | – |",
        "",
    ]


def test_the_papers_two_claims_are_about_the_rows_that_they_name() -> None:
    costs = {row.name: row.paper_cost for row in load_table("ablation").rows}
    assert {name for name, cost in costs.items() if cost == "considerable"} == {
        "without-history",
        "without-suppression",
    }
    assert {name.split("-")[0] for name, cost in costs.items() if cost == "little"} == {
        *("gain", "rate", "epoch")
    }


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
    assert "▲" not in page
    assert "▼" not in page
    assert "Made by `python -m benchmarks.paper tiny.toml --small`" in page


def test_the_papers_training_accuracies_stand_beside_ours(
    tmp_path: Path, store: ResultsStore
) -> None:
    ours = 'method = "discrimloss"\n'
    text = TINY.replace(ours, f'{ours}paper_train = {{ "40" = 60.38 }}\n')
    table = tiny_table(tmp_path, text)
    cell = cell_of(table, "discrimloss")
    store.write(cell, result(cell, 90.0, train_accuracy_noisy=61.5, noise_true=0.4))
    render(table, store)
    page = (store.path / "tiny.md").read_text(encoding="utf-8")
    head = "Accuracy in % on the training labels as given, at the last epoch; in italics"
    assert head in page
    assert "| DiscrimLoss | 61.50<br>*60.38* | 1 |" in page.partition(head)[2]
    assert "| *right labels* | 60.00 | |" in page.partition(head)[2]
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
    assert "No run counts: see below." in page
    assert "Left out with outdated settings: discrimloss-40-1 (epochs was 1, is 3)." in page


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
        "No run yet.",
        "",
        "The paper's values. Test accuracy in %, higher is better.",
        "",
        "| | 40 % | seeds |",
        "|---|---|---|",
        "| Human | *99.00* | paper only |",
        "| DiscrimLoss | *90.00 ± 0.50* | paper only |",
        "",
        "---",
        "",
        (
            "`python -m benchmarks.paper tiny.toml` runs it, and "
            "`python -m benchmarks.paper tiny.toml --small` at reduced size."
        ),
    ]


def test_before_the_first_run_a_table_without_figures_of_the_paper_has_no_grid(
    tmp_path: Path, store: ResultsStore
) -> None:
    lines = [line for line in TINY.splitlines(keepends=True) if not line.startswith("paper = {")]
    render(tiny_table(tmp_path, "".join(lines)), store)
    page = (store.path / "tiny.md").read_text(encoding="utf-8")
    assert "No run yet." in page
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
        "| *the paper's DiscrimLoss* | – | *90.00 ± 0.50* | |",
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
