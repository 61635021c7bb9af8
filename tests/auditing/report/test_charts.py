"""What the charts show, and what they say where they cannot be drawn."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import vl_convert
from report_runs import NASTY, made_run

from discrimloss.auditing.report.chart import MOST_POINTS, Chart, ChartView, short, short_names
from discrimloss.auditing.report.charts import run_charts
from discrimloss.auditing.report.statistics import loss_bin_edges
from discrimloss.auditing.report.trace_charts import MOST_EPOCHS

EVERY_CHART = [
    "losses",
    "thresholds",
    "weights",
    "fluctuation",
    "curves",
    "data_map",
    "confusion",
    "class_noise",
]


def rows_of(view: ChartView, **wanted: Any) -> list[dict[str, Any]]:
    """The rows of a view that have these values."""
    rows: list[dict[str, Any]] = view.spec["data"]["values"]
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def groups_of(view: ChartView) -> list[str]:
    """The groups of a view, without the number of their samples."""
    return list(dict.fromkeys(row["group"].partition(" (")[0] for row in rows_of(view)))


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
def test_every_specification_is_one_that_vega_compiles(run: Any) -> None:
    charts = charts_of(run)
    assert list(charts) == EVERY_CHART
    for chart in charts.values():
        assert bool(chart.views) != bool(chart.left_out)
        for view in chart.views:
            assert chart.caption.endswith(".")
            compiled = vl_convert.vegalite_to_vega({**view.spec, "width": 300})
            assert any(data.get("values") == rows_of(view) for data in compiled["data"])


def test_the_slider_shows_the_counts_of_each_epoch_and_verdict() -> None:
    run = made_run(epochs=4)
    assert run.traces is not None
    by_verdict, by_truth = charts_of(run)["losses"].views
    edges = loss_bin_edges(run.traces.loss)
    for view, groups in (
        (by_verdict, run.traced_verdicts()),
        (by_truth, np.where(run.traced_column("is_wrong"), "truly wrong", "truly clean")),
    ):
        assert view.positions == tuple(f"Epoch {number}" for number in (1, 2, 3, 4))
        names = groups_of(view)
        centres = column(rows_of(view), "loss")
        expected = 10.0 ** ((edges[1:] + edges[:-1]) / 2)
        assert centres == pytest.approx(expected.tolist() * len(names), rel=1e-3)
        for epoch in range(4):
            counted = []
            for group in names:
                counts = [0] * len(expected)
                for loss in run.traces.loss[epoch][groups == group]:
                    above = [
                        place for place in range(len(counts)) if math.log10(loss) >= edges[place]
                    ]
                    counts[max(above, default=0)] += 1
                counted += counts
            assert [row["series"][epoch] for row in rows_of(view)] == counted


def test_the_last_epoch_is_shown_first() -> None:
    view = charts_of(made_run(epochs=6))["losses"].views[0]
    assert view.spec["params"] == [{"name": "position", "value": 5}]


def test_boxes_hold_the_counted_jumps() -> None:
    run = made_run()
    assert run.traces is not None
    assert run.traces.weight is not None
    chart = charts_of(run)["fluctuation"]
    weight = run.traces.weight.astype(float)
    low, high = np.quantile(weight, [0.05, 0.95])
    jumps = (np.abs(weight[1:] - weight[:-1]) > 0.1 * (high - low)).sum(axis=0)
    for row in rows_of(chart.views[0]):
        members = jumps[run.traced_verdicts() == row["group"]]
        assert row["median"] == np.median(members)
        assert row["third"] == np.quantile(members, 0.75)
    assert [view.name for view in chart.views] == ["By verdict", "By truth"]
    assert f"{0.1 * (high - low):.3g}" in chart.caption


def test_weight_traces_are_those_of_single_samples_and_medians() -> None:
    run = made_run()
    assert run.traces is not None
    assert run.traces.weight is not None
    view = charts_of(run)["weights"].views[0]
    assert groups_of(view) == ["easy, median", "hard, median", "incorrect, median"]
    single = {row["name"] for row in rows_of(view, all=False)}
    assert len(single) > 3
    for name in single:
        sample = int(name.rpartition("-")[2])
        values = column(rows_of(view, name=name), "value")
        assert values == pytest.approx(run.traces.weight[:, sample].tolist(), rel=1e-3)
    median = column(rows_of(view, all=True, group="easy, median"), "value")
    easy = run.traces.weight[:, run.traced_verdicts() == "easy"]
    assert median == pytest.approx(np.median(easy, axis=1).tolist(), rel=1e-3)


def test_the_map_draws_some_of_many_samples_and_says_so() -> None:
    run = made_run(8000, epochs=2)
    chart = charts_of(run)["data_map"]
    drawn = len(rows_of(chart.views[0]))
    assert drawn <= 3 * MOST_POINTS
    assert f"{drawn:,} of 8,000 samples are drawn" in chart.caption
    everything = charts_of(made_run(50))["data_map"]
    assert "are drawn" not in everything.caption
    assert len(rows_of(everything.views[0])) == 50


def test_many_epochs_are_thinned_out() -> None:
    run = made_run(20, epochs=300)
    chart = charts_of(run)["losses"]
    view = chart.views[0]
    assert len(view.positions) == MOST_EPOCHS
    assert all(len(row["series"]) == MOST_EPOCHS for row in rows_of(view))
    assert f"{MOST_EPOCHS} of 300 epochs" in chart.caption


def test_confusion_of_many_classes_is_a_list_of_pairs() -> None:
    run = made_run(300, 5)
    assert run.samples is not None
    few = charts_of(run)["confusion"].views[0]
    wrong = run.samples[run.samples["verdict"] == "incorrect"]
    for row in rows_of(few):
        pair = (wrong["given"] == row["given"]) & (wrong["suggested"] == row["suggested"])
        assert row["count"] == pair.sum() > 0
    many = charts_of(made_run(300, 1000))["confusion"].views[0]
    assert len(rows_of(many)) == 25
    assert all(" → " in row["name"] for row in rows_of(many))


def test_regression_targets_are_shown_against_predictions() -> None:
    run = made_run(regression=True)
    assert run.samples is not None
    view = charts_of(run)["confusion"].views[0]
    drawn = sorted((row["x"], row["y"]) for row in rows_of(view))
    pairs = sorted(zip(run.samples["given"], run.samples["suggested"], strict=True))
    assert np.array(drawn) == pytest.approx(np.array(pairs), rel=1e-3)


def test_what_cannot_be_drawn_says_why() -> None:
    bare = replace(made_run(), traces=None, samples=None, history=[])
    charts = charts_of(bare)
    assert not any(chart.views for chart in charts.values())
    assert "has no traces" in charts["losses"].left_out
    assert "no verdicts until" in charts["confusion"].left_out
    assert "no epoch is finished" in charts["curves"].left_out
    one_epoch = charts_of(made_run(epochs=1))
    assert "two epochs" in one_epoch["data_map"].left_out
    run = made_run()
    assert run.traces is not None
    weightless = charts_of(replace(run, traces=replace(run.traces, weight=None)))
    assert "does not weight" in weightless["weights"].left_out


def test_without_truth_there_is_no_such_view() -> None:
    charts = charts_of(made_run(truth=False))
    assert [view.name for view in charts["losses"].views] == ["By verdict"]
    assert len(charts["fluctuation"].views) == 1
    assert all("true" not in row for row in rows_of(charts["class_noise"].views[0]))
    known = charts_of(made_run())["class_noise"].views[0]
    assert all("true" in row for row in rows_of(known))


def test_an_unfinished_run_shows_all_samples_as_one_group() -> None:
    charts = charts_of(replace(made_run(), samples=None, is_finished=False))
    view = charts["losses"].views[0]
    assert (view.name, groups_of(view)) == ("All samples", ["all samples"])


def test_labels_are_short() -> None:
    assert short("two\nlines") == "two lines"
    assert len(short("x" * 500)) == 40


def test_names_that_begin_alike_stay_apart() -> None:
    names = ["balance_not_updated_after_cheque", "balance_not_updated_after_transfer", "top_up"]
    assert short_names(names, 16) == ["balance…r_cheque", "balance…transfer", "top_up"]
    assert short_names(["an_only_one_of_its_kind", "b", "b"], 12) == ["an_only_one…", "b", "b"]
