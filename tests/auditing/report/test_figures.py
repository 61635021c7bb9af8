"""Charts as files for a paper."""

from dataclasses import replace

import pytest
from report_runs import NASTY, made_run

from discrimloss.auditing.report.chart import Chart
from discrimloss.auditing.report.charts import run_charts
from discrimloss.auditing.report.comparison import comparison_curves, group_runs
from discrimloss.auditing.report.contents import ReportRun
from discrimloss.auditing.report.figures import figure_file

BEGINNINGS = {"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF"}


def chart_of(run: ReportRun, key: str) -> Chart:
    return next(chart for chart in run_charts(run) if chart.key == key)


@pytest.mark.parametrize("regression", [False, True])
def test_every_chart_can_be_drawn(regression: bool) -> None:
    names = None if regression else ("$x", "日本", "c", "d")
    run = made_run(30, epochs=2, regression=regression, class_names=names)
    for chart in run_charts(run):
        assert figure_file(chart, "svg").startswith(b"<svg"), chart.key


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_a_figure_has_its_format(kind: str) -> None:
    assert figure_file(chart_of(made_run(10), "class_noise"), kind).startswith(BEGINNINGS[kind])


def test_names_of_classes_are_texts() -> None:
    run = made_run(50, class_names=("$a$", NASTY, "c", "d"))
    svg = figure_file(chart_of(run, "class_noise"), "svg").decode()
    assert ">$a$<" in svg
    assert "<script" not in svg
    assert "&lt;/script&gt;" in svg


def test_a_figure_has_all_views_and_some_positions_of_the_slider() -> None:
    svg = figure_file(chart_of(made_run(20, epochs=12), "losses"), "svg").decode()
    for text in ("By verdict", "By truth", "Epoch 1", "Epoch 12"):
        assert f">{text}<" in svg
    assert svg.count(">Epoch ") == 2 * 6


def test_a_figure_is_the_same_every_time() -> None:
    chart = chart_of(made_run(10), "class_noise")
    assert figure_file(chart, "svg") == figure_file(chart, "svg")


def test_runs_beside_each_other() -> None:
    runs = [made_run(10, seed=seed) for seed in (1, 2)]
    compared = comparison_curves(group_runs(runs))
    assert ">Test: accuracy, %<" in figure_file(compared, "svg").decode()
    assert not comparison_curves(group_runs([replace(runs[0], history=[])])).views
