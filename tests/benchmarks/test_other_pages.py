"""The other benchmarks: their pages are those of the stored results, and their runs are made."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks import defaults, methods, recipes, training_runs, wikihow_head
from benchmarks.training_runs import RESULTS, Run


@pytest.mark.parametrize("program", [methods, recipes, wikihow_head], ids=lambda p: p.__name__)
def test_a_page_is_that_of_its_results(program: ModuleType) -> None:
    name = program.__name__.rpartition(".")[2]
    results = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    assert program.render(results) == (RESULTS / f"{name}.md").read_text("utf-8")


def test_the_page_of_the_defaults_is_that_of_its_results() -> None:
    results = json.loads((RESULTS / "defaults.json").read_text("utf-8"))
    page = (RESULTS / "defaults.md").read_text("utf-8")
    assert defaults.render(results, "defaults", "test") == page


def test_results_of_the_head_are_those_on_the_page_of_all_results() -> None:
    def rows(text: str, columns: int) -> dict[str, list[str]]:
        table = [line for line in text.splitlines() if line.count("|") == columns + 2]
        cells = [[cell.strip().strip("*") for cell in line.split("|")[1:-1]] for line in table]
        return {row[0]: row[1:] for row in cells if " ± " in row[1]}

    own = rows((RESULTS / "wikihow_head.md").read_text("utf-8"), columns=4)
    page = (RESULTS.parents[1] / "docs" / "results.md").read_text("utf-8")
    shown = rows(page.partition("## WikiHow")[2].partition("wikihow_head.md")[0], columns=3)
    assert shown == {name: [clean, noisy, fit] for name, (clean, noisy, _, fit) in own.items()}
    assert len(shown) == len(wikihow_head.METHODS)


def test_new_runs_replace_stored_ones_of_the_same_seed() -> None:
    old: dict[str, Any] = {"b": [{"seed": 1, "v": 0}, {"seed": 2, "v": 0}], "gone": [{"seed": 1}]}
    new: dict[str, Any] = {"a": [{"seed": 3, "v": 1}], "b": [{"seed": 2, "v": 1}]}
    assert training_runs.updated(old, new, ["a", "b", "b", "c"]) == {
        "a": [{"seed": 3, "v": 1}],
        "b": [{"seed": 1, "v": 0}, {"seed": 2, "v": 1}],
    }


def test_stored_summaries_of_other_settings_are_dropped() -> None:
    run = Run("mnist/plain", "mnist", ("train_size=10000", "method=plain"), 1)
    stored = (
        "discrimloss train mnist train_size=10000 method=plain seed=1 threads=1 tensorboard=false"
    )
    assert run.command == stored
    all_images = {"seed": 2, "command": stored.replace("train_size=10000 ", "")}
    old = {"mnist/plain": [{"seed": 1, "command": stored}, all_images], "mnist/elr": [all_images]}
    kept = training_runs.with_same_command(old, [run])
    assert kept == {"mnist/plain": [{"seed": 1, "command": stored}]}


def test_the_stored_summaries_of_all_methods_are_of_its_runs() -> None:
    results = json.loads((RESULTS / "methods.json").read_text("utf-8"))
    runs = [run for _, _, run in methods.design()]
    assert training_runs.with_same_command(results, runs) == results


def test_runs_are_made_once_and_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ("epochs=1", "train_size=100", "method=plain")
    runs = [Run("digits/plain", "digits", settings, seed) for seed in (1, 2)]
    training_runs.train_all(runs, tmp_path, tmp_path, jobs=2)
    assert capsys.readouterr().out.count(": done after ") == 2
    training_runs.train_all(runs, tmp_path, tmp_path, jobs=2)
    assert capsys.readouterr().out == ""
    found = training_runs.collect(runs, tmp_path)
    assert [summary["seed"] for summary in found["digits/plain"]] == [1, 2]
    assert found["digits/plain"][0]["command"].startswith("discrimloss train digits epochs=1")


def test_a_run_that_fails_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[Any]) -> None:
    run = Run("mnist/plain", "mnist", ("epochs=1",), 1)
    with pytest.raises(SystemExit, match="some runs failed"):
        training_runs.train_all([run], tmp_path, tmp_path / "runs", jobs=1)
    assert "mnist/plain-1: failed (no mnist data" in capsys.readouterr().out
