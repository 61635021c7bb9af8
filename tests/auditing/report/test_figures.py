"""Figures for a paper, one file each."""

from dataclasses import replace

import pytest
from report_runs import NASTY, made_run

from discrimloss.auditing.report.comparison import group_runs
from discrimloss.auditing.report.figures import FIGURES, comparison_figure, run_figures

BEGINNINGS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def test_every_figure_is_drawn() -> None:
    drawn = run_figures(made_run(30, epochs=2, class_names=("$x", "日本", "c", "d")), "svg")
    assert list(drawn) == list(FIGURES)


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_a_figure_has_its_format(kind: str) -> None:
    drawn = run_figures(replace(made_run(10), traces=None, history=[]), kind)
    assert list(drawn) == ["confusion", "class_noise"]
    assert all(content.startswith(BEGINNINGS[kind]) for content in drawn.values())


def test_names_of_classes_are_texts_and_not_formulas() -> None:
    run = replace(made_run(50, class_names=("$a$", NASTY, "c", "d")), traces=None, history=[])
    svg = run_figures(run, "svg")["class_noise"].decode()
    assert "<!-- $a$ -->" in svg
    assert "<script" not in svg


def test_what_cannot_be_drawn_is_not_written() -> None:
    run = made_run(20)
    bare = run_figures(replace(run, traces=None, samples=None), "svg")
    assert list(bare) == ["thresholds", "curves"]
    assert run_figures(replace(run, traces=None, samples=None, history=[]), "svg") == {}
    regression = run_figures(replace(made_run(20, regression=True), traces=None), "svg")
    assert list(regression) == ["thresholds", "curves", "confusion", "class_noise"]


def test_a_figure_is_the_same_every_time() -> None:
    run = replace(made_run(10), traces=None, history=[])
    assert run_figures(run, "svg") == run_figures(run, "svg")


def test_runs_beside_each_other() -> None:
    runs = [made_run(10, seed=seed) for seed in (1, 2)]
    figure = comparison_figure(group_runs(runs), "svg")
    assert figure is not None
    assert b"test: accuracy, %" in figure
    assert comparison_figure(group_runs([replace(runs[0], history=[])]), "svg") is None
