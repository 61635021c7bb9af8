"""The page of results shows what is in the store."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks import results_page

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def small_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A store with one table, and no other page to fill."""
    store = tmp_path / "results"
    store.mkdir()
    shutil.copy(BENCHMARKS / "results" / "generalization.jsonl", store)
    monkeypatch.setattr(results_page, "RESULTS", store)
    monkeypatch.setattr(results_page, "TABLES", ("generalization",))
    monkeypatch.setattr(results_page, "PAGES", ())
    return store


def run(*words: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["results_page", *words])
        results_page._stored.cache_clear()
        results_page.main()


def test_the_pages_are_those_of_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    run("--check")
    assert capsys.readouterr().out == "behind: none\n"


REPRODUCED = sorted(
    BENCHMARKS / "results" / f"{table.stem}.jsonl"
    for table in (BENCHMARKS / "paper" / "tables").glob("*.toml")
)


@pytest.mark.parametrize("file", [f for f in REPRODUCED if f.exists()], ids=lambda p: p.stem)
def test_the_summary_of_every_stored_run_is_that_of_its_history(file: Path) -> None:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        cell = json.loads(line)
        summary, history = cell["summary"], cell["history"]
        curve = history[f"test_{summary['metric']}"]
        best = max(curve) if summary["metric"] == "accuracy" else min(curve)
        test = summary["test"]  # histories are rounded
        assert test["last"] == pytest.approx(curve[-1], rel=1e-5), number
        assert test["best"] == pytest.approx(best, rel=1e-5), number
        assert curve[history["epoch"].index(test["best_epoch"])] == best, number


def test_a_page_that_is_behind_is_told_and_filled(
    small_store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run()
    page = tmp_path / "page.md"
    page.write_text(
        "Before\n\n<!-- results: generalization brief=plain -->\nold\n<!-- end -->\nAfter\n"
    )
    monkeypatch.setattr(results_page, "PAGES", (page,))
    with pytest.raises(SystemExit, match=r"^page\.md do not show benchmarks/results"):
        run("--check")
    run()
    new = page.read_text()
    assert "old" not in new
    start = "Before\n\n<!-- results: generalization brief=plain -->\n\n| | 40 % | seeds |\n"
    assert new.startswith(start)
    assert "\n| CE | " in new
    assert new.endswith("|\n\n<!-- end -->\nAfter\n")


def test_pages_of_a_table_that_are_behind_its_runs_are_told_and_written(
    small_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = r"^generalization\.md, generalization\.csv"
    with pytest.raises(SystemExit, match=both):  # they are not there
        run("--check")
    run()
    run("--check")
    assert capsys.readouterr().out.endswith("behind: none\n")
    results = small_store / "generalization.jsonl"
    lines = results.read_text(encoding="utf-8").splitlines(keepends=True)
    results.write_text("".join(line for line in lines if '"row": "plain"' not in line))
    with pytest.raises(SystemExit, match=f"{both} do not show"):
        run("--check")
    run()
    run("--check")
    (small_store / "generalization.csv").write_text("by hand\n")
    with pytest.raises(SystemExit, match=r"^generalization\.csv do not show"):
        run("--check")


def test_a_figure_that_is_not_there_is_told(small_store: Path) -> None:
    run()
    figure = next(small_store.glob("*.png"))
    figure.unlink()
    with pytest.raises(SystemExit, match=f"^{figure.name} do not show"):
        run("--check")


def test_a_block_of_a_table_without_runs_says_so(small_store: Path) -> None:
    block = "<!-- results: clothing1m -->\n<!-- end -->"
    assert "No run yet." in results_page.filled(block, "results")
