"""`python -m benchmarks.paper` from outside: what it runs, skips, refuses and writes."""

import json
from pathlib import Path
from typing import Any

import pytest
from paper_tables import TINY, cell_of, filled, result, tiny_table
from tiny_data import write_cifar10, write_mnist

from benchmarks.paper.__main__ import main, why_missing
from benchmarks.paper.cells import all_cells
from benchmarks.paper.run_cells import Outcome
from benchmarks.paper.store import ResultsStore
from benchmarks.paper.table_file import load_table

ONE = ("mnist", "--methods", "plain", "--noise", "0.4")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory, and no data directory unless a test names one."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("DISCRIMLOSS_DATA", raising=False)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The sentence on stderr of a command that must fail with exit code 2."""
    try:
        code: object = main(arguments)
    except SystemExit as stopped:  # by argparse, which also prints the usage
        code = stopped.code
    assert code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.strip().splitlines()[-1].removeprefix("benchmarks.paper: ")


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a cell is started."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("started")

    monkeypatch.setattr("benchmarks.paper.run_cells.Job", refuse)


def test_a_table_is_run_once_then_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_table(tmp_path)
    words = ("../tiny.toml", "--methods", "discrimloss", "--noise", "0.4")
    assert main([*words, "--seeds", "1", "--jobs", "1"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "Cells: 1, 0 in the store, 1 to run"
    assert told[1].startswith("tiny discrimloss-40-1: ")
    results = Path("benchmarks", "results")
    content = json.loads((results / "tiny.jsonl").read_text())
    assert content["summary"]["seed"] == 1
    assert content["config"]["train_size"] == 100
    assert content["method_defaults"]["threshold"]
    assert {"torch", "discrimloss"} <= set(content["versions"])
    assert "test_loss" in content["history"]
    assert list(Path("runs", "paper", "tiny").iterdir()) == []
    last = f"{content['summary']['test']['last']:.2f}"
    assert last in told[1]
    assert f"**{last}**" in (results / "tiny.md").read_text(encoding="utf-8")

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("started")

    monkeypatch.setattr("benchmarks.paper.run_cells.Job", refuse)
    assert main([*words, "--seeds", "1"]) == 0
    assert "1 in the store, 0 to run" in capsys.readouterr().out


@pytest.mark.usefixtures("nothing_runs")
def test_a_stale_cell_is_neither_used_nor_run_unless_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ResultsStore(Path("results"))
    filled(store, tiny_table(tmp_path), {("plain", "40"): [93.0]})
    tiny_table(tmp_path, TINY.replace("epochs=1", "epochs=3"))
    words = ["../tiny.toml", "--methods", "plain", "--noise", "40", "--seeds", "1"]
    words += ["--results", "results"]
    assert main(words) == 1
    captured = capsys.readouterr()
    assert "Outdated settings: 1 cell (plain-40-1: epochs was 1, is 3)" in captured.out
    assert "--overwrite runs them again" in captured.out
    sentence = "1 cell left out with outdated settings: --overwrite runs such cells again"
    assert captured.err == f"benchmarks.paper: {sentence}\n"
    with pytest.raises(AssertionError, match="started"):
        main([*words, "--overwrite"])


@pytest.mark.usefixtures("nothing_runs")
def test_pages_are_made_without_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tiny_table(tmp_path)
    filled(ResultsStore(Path("results")), table, {("plain", "40"): [93.0]})
    assert main(["../tiny.toml", "--results", "results", "--render-only"]) == 0
    assert "Wrote results/tiny.md" in capsys.readouterr().out
    page = Path("results", "tiny.md").read_text(encoding="utf-8")
    assert "93.00" in page
    assert "Made by `python -m benchmarks.paper ../tiny.toml`" in page


def test_why_cells_are_missing_and_what_to_do(tmp_path: Path) -> None:
    store, table = ResultsStore(Path("results")), tiny_table(tmp_path)
    failed, done, stale, absent = (
        cell_of(table, row, column) for row in ("plain", "gce") for column in ("0", "40")
    )
    store.write(done, result(done, 90.0))
    store.write(stale, result(stale, 90.0) | {"method_defaults": {}})
    outcome = Outcome([done], [failed], [done, stale, absent])
    left = store.read(stale)
    assert left is not None
    assert why_missing(outcome, [left], store) == [
        "1 cell failed, see above: the same command tries again",
        "2 cells left to another process: the same command runs what it leaves",
        "1 cell left out with outdated settings: --overwrite runs such cells again",
    ]
    assert why_missing(Outcome([done], [], [done]), [], store) == []


@pytest.mark.usefixtures("nothing_runs")
def test_damaged_results_are_named_and_the_pages_are_made_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, table = ResultsStore(Path("results")), tiny_table(tmp_path)
    filled(store, table, {("plain", "40"): [93.0, 94.0], ("plain", "0"): [95.0]})
    words = ["../tiny.toml", "--results", "results"]
    file = store.file("tiny")
    file.write_text(file.read_text().replace('"last": 93.0', '"last": "x"'))
    sentence = (
        f"cannot read the result of plain-40-1 in line 2 of {file} (summary.test.last is not a "
        "number): remove the line"
    )
    assert main([*words, "--render-only"]) == 2
    assert capsys.readouterr().err == f"benchmarks.paper: {sentence}\n"
    page = Path("results", "tiny.md").read_text(encoding="utf-8")
    assert "94.00" in page
    assert f"Left out: {sentence}." in page
    assert refused(capsys, *words) == sentence
    with file.open("a") as lines:
        lines.write("{\n")
    first = f"cannot read line 4 of {file}: remove the line"
    assert main([*words, "--render-only"]) == 2
    end = "; results/tiny.md names 1 more\n"
    assert capsys.readouterr().err == f"benchmarks.paper: {first}{end}"
    assert refused(capsys, *words) == first


def test_without_a_table_it_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    told = capsys.readouterr().out
    assert [line.split()[:5] for line in told.splitlines() if line.startswith("mnist")] == [
        ["mnist", "168", "0", "112", "0"]  # 8 rows and 7 columns, 3 seeds or 2
    ]
    assert "ablation" in told


def test_the_list_counts_only_results_that_count(capsys: pytest.CaptureFixture[str]) -> None:
    store, table = ResultsStore(Path("benchmarks", "results")), load_table("digitsum")
    good, stale, broken = all_cells(table, seeds=1)[:3]
    store.write(good, result(good, 90.0))
    store.write(stale, result(stale, 90.0) | {"method_defaults": {}})
    store.write(broken, {})
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines if line.startswith("digitsum ")] == ["1"]


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("minst",), "unknown table 'minst': did you mean 'mnist'?"),
        (("none.toml",), "there is no table file none.toml"),
        ((*ONE, "--seeds", "1"), "name the data directory with --data DIR"),
        ((*ONE, "--data", "nowhere"), "the data directory nowhere does not exist"),
        (("mnist", "--seeds", "0"), "--seeds"),
        (("mnist", "--jobs", "0"), "--jobs"),
        (("mnist", "--noise", "0.5"), "--noise 0.5 selects nothing: there are 0 (0.0), 20 (0.2)"),
        (("mnist", "--methods", "human"), "--methods human selects nothing: there are plain, "),
        (
            ("mnist", "--render-only", "--methods", "foo"),
            "--methods foo selects nothing: there are",
        ),
        (("mnist", "--render-only", "--noise", "77"), "--noise 77 selects nothing: there are"),
        (("digitsum", "--results", "/dev/null/results"), "is not a directory: choose another path"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in refused(capsys, *words)
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (ONE, "no mnist data in ../data"),
        (("utkface", "--small"), "no utkface data in ../data"),
        (("cifar", "--small", "--noise", "cifar10-worse"), "no cifar10 data in ../data"),
    ],
)
def test_data_that_is_not_there_is_told_before_anything_runs(
    words: tuple[str, ...], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    assert sentence in refused(capsys, *words, "--data", "../data")
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("nothing_runs")
def test_human_labels_that_are_not_there_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_cifar10(tmp_path / "data")
    words = ("cifar", "--small", "--noise", "cifar10-worse", "--data", "../data")
    assert "CIFAR-10_human" in refused(capsys, *words)
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("nothing_runs")
def test_data_that_is_not_quite_the_published_is_taken(tmp_path: Path) -> None:
    write_mnist(tmp_path / "data")
    with pytest.raises(AssertionError, match="started"):
        main([*ONE, "--data", "../data"])
