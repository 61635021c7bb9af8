"""What the charts show, and what they say where they cannot be drawn."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects
import pytest
from report_runs import NASTY, made_run

from discrimloss.auditing.report.chart import MOST_POINTS, Chart, plain
from discrimloss.auditing.report.charts import run_charts
from discrimloss.auditing.report.statistics import loss_bin_edges
from discrimloss.auditing.report.trace_charts import MOST_EPOCHS

EVERY_CHART = [
    "losses",
    "thresholds",
    "weights",
    "fluctuation",
    "curves",
    "map",
    "confusion",
    "noise",
]


def charts_of(run: Any) -> dict[str, Chart]:
    return {chart.key: chart for chart in run_charts(run)}


@pytest.mark.parametrize(
    "run",
    [
        made_run(),
        made_run(regression=True),
        made_run(2, 2, 1),
        made_run(200, 60, 3),
        made_run(class_names=(NASTY, "b", "c", "d")),
    ],
    ids=["classes", "regression", "two samples", "many classes", "nasty"],
)
def test_every_figure_is_one_that_plotly_knows(run: Any) -> None:
    charts = charts_of(run)
    assert list(charts) == EVERY_CHART
    for chart in charts.values():
        assert bool(chart.views) != bool(chart.left_out)
        for view in chart.views:
            assert chart.caption.endswith(".")
            figure = plotly.graph_objects.Figure({"data": view.data, "layout": view.layout})
            assert len(figure.data) == len(view.data)


def test_the_slider_shows_the_counts_of_each_epoch_and_verdict() -> None:
    run = made_run(epochs=4)
    assert run.traces is not None
    by_verdict, by_truth = charts_of(run)["losses"].views
    assert [step["label"] for step in by_verdict.steps] == [f"Epoch {n}" for n in (1, 2, 3, 4)]
    edges = loss_bin_edges(run.traces.loss)
    for view, groups in (
        (by_verdict, run.traced_verdicts()),
        (by_truth, np.where(run.traced_column("is_wrong"), "truly wrong", "truly clean")),
    ):
        centres = view.data[0]["x"]
        assert centres == pytest.approx(((edges[1:] + edges[:-1]) / 2).tolist(), rel=1e-3)
        for epoch, step in enumerate(view.steps):
            for number, trace in enumerate(view.data):
                group = trace["name"].partition(" (")[0]
                counts = [0] * len(centres)
                for loss in run.traces.loss[epoch][groups == group]:
                    above = [
                        place for place in range(len(counts)) if math.log10(loss) >= edges[place]
                    ]
                    counts[max(above, default=0)] += 1
                shown = step["update"]["customdata"][number]
                assert shown == counts
                shares = [math.sqrt(100 * count / sum(shown)) for count in shown]
                assert step["update"]["y"][number] == pytest.approx(shares, rel=1e-3)


def test_the_last_epoch_is_shown_first() -> None:
    view = charts_of(made_run())["losses"].views[0]
    assert [trace["y"] for trace in view.data] == view.steps[-1]["update"]["y"]


def test_boxes_hold_the_counted_jumps() -> None:
    run = made_run()
    assert run.traces is not None
    assert run.traces.weight is not None
    chart = charts_of(run)["fluctuation"]
    weight = run.traces.weight.astype(float)
    low, high = np.quantile(weight, [0.05, 0.95])
    jumps = (np.abs(weight[1:] - weight[:-1]) > 0.1 * (high - low)).sum(axis=0)
    for trace in chart.views[0].data:
        members = jumps[run.traced_verdicts() == trace["name"]]
        assert trace["median"] == [np.median(members)]
        assert trace["q3"] == [np.quantile(members, 0.75)]
    assert [view.name for view in chart.views] == ["By verdict", "By truth"]
    assert f"{0.1 * (high - low):.3g}" in chart.caption


def test_weight_traces_are_those_of_single_samples_and_medians() -> None:
    run = made_run()
    assert run.traces is not None
    assert run.traces.weight is not None
    traces = charts_of(run)["weights"].views[0].data
    single = [trace for trace in traces if trace.get("showlegend") is False]
    assert {trace["legendgroup"] for trace in single} == {"easy", "hard", "incorrect"}
    for trace in single:
        sample = int(trace["name"].rpartition("-")[2])
        assert trace["y"] == pytest.approx(run.traces.weight[:, sample].tolist(), rel=1e-3)
    median = next(trace for trace in traces if trace["name"] == "easy, median")
    easy = run.traces.weight[:, run.traced_verdicts() == "easy"]
    assert median["y"] == pytest.approx(np.median(easy, axis=1).tolist(), rel=1e-3)


def test_the_map_draws_some_of_many_samples_and_says_so() -> None:
    run = made_run(8000, epochs=2)
    chart = charts_of(run)["map"]
    drawn = sum(len(trace["x"]) for trace in chart.views[0].data)
    assert drawn <= 3 * MOST_POINTS
    assert f"{drawn:,} of 8,000 samples are drawn" in chart.caption
    everything = charts_of(made_run(50))["map"]
    assert "are drawn" not in everything.caption
    assert sum(len(trace["x"]) for trace in everything.views[0].data) == 50


def test_many_epochs_are_thinned_out() -> None:
    run = made_run(20, epochs=300)
    chart = charts_of(run)["losses"]
    assert len(chart.views[0].steps) == MOST_EPOCHS
    assert f"{MOST_EPOCHS} of 300 epochs" in chart.caption


def test_confusion_of_many_classes_is_a_list_of_pairs() -> None:
    few = charts_of(made_run(300, 5))["confusion"]
    assert few.views[0].data[0]["type"] == "heatmap"
    many = charts_of(made_run(300, 1000))["confusion"]
    assert many.views[0].data[0]["type"] == "bar"
    assert len(many.views[0].data[0]["x"]) == 25


def test_numbers_are_shown_against_predictions() -> None:
    run = made_run(regression=True)
    assert run.samples is not None
    chart = charts_of(run)["confusion"]
    points = [trace for trace in chart.views[0].data if trace["mode"] == "markers"]
    drawn = sorted((x, y) for trace in points for x, y in zip(trace["x"], trace["y"], strict=True))
    pairs = sorted(zip(run.samples["given"], run.samples["suggested"], strict=True))
    assert np.array(drawn) == pytest.approx(np.array(pairs), rel=1e-3)


def test_what_cannot_be_drawn_says_why() -> None:
    bare = replace(made_run(), traces=None, samples=None, history=[])
    charts = charts_of(bare)
    assert not any(chart.views for chart in charts.values())
    assert "kept no traces" in charts["losses"].left_out
    assert "no verdicts yet" in charts["confusion"].left_out
    assert "no epoch has ended" in charts["curves"].left_out
    one_epoch = charts_of(made_run(epochs=1))
    assert "two epochs" in one_epoch["map"].left_out
    run = made_run()
    assert run.traces is not None
    weightless = charts_of(replace(run, traces=replace(run.traces, weight=None)))
    assert "does not weigh" in weightless["weights"].left_out


def test_without_truth_there_is_no_such_view() -> None:
    charts = charts_of(made_run(truth=False))
    assert [view.name for view in charts["losses"].views] == ["By verdict"]
    assert len(charts["fluctuation"].views) == 1
    assert len(charts["noise"].views[0].data) == 1


def test_an_unfinished_run_shows_all_samples_as_one_group() -> None:
    charts = charts_of(replace(made_run(), samples=None, is_finished=False))
    assert [trace["name"] for trace in charts["losses"].views[0].data] == ["all samples (120)"]


def test_labels_are_harmless_and_short() -> None:
    assert plain("<b>x</b> &") == "&lt;b&gt;x&lt;/b&gt; &amp;"
    assert plain("two\nlines") == "two lines"
    assert len(plain("x" * 500)) == 22
