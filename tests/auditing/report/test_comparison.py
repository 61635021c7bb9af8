"""Several runs beside each other."""

import statistics
from typing import Any

import pytest
from report_runs import made_run

from discrimloss.auditing.report.comparison import (
    comparison_curves,
    comparison_table,
    group_runs,
    mean_and_spread,
)


def run_of(method: str, seed: int, rate: float = 0.3, last: float = 90.0, **changes: Any) -> Any:
    history = [{"epoch": n, "test_accuracy": value} for n, value in enumerate((95.0, last), 1)]
    settings = {"method": method, "seed": seed, "noise.rate": rate, **changes}
    return made_run(10, history=history, settings=settings, summary={"auroc": 0.9, "seed": seed})


def test_runs_that_differ_in_their_seed_only_are_one_method() -> None:
    runs = [run_of("plain", 1), run_of("elr", 1), run_of("plain", 2, threads=4)]
    groups = group_runs(runs)
    assert [(group.label, len(group.runs)) for group in groups] == [("plain", 2), ("elr", 1)]


def test_a_label_says_what_differs() -> None:
    runs = [run_of("plain", 1, 0.2), run_of("plain", 1, 0.4)]
    assert [g.label for g in group_runs(runs)] == ["plain, noise.rate=0.2", "plain, noise.rate=0.4"]
    options = [run_of("gce", 1, **{"options.q": q}) for q in (0.5, 0.7)] + [run_of("plain", 1)]
    assert [g.label for g in group_runs(options)] == [
        "gce, options.q=0.5",
        "gce, options.q=0.7",
        "plain",
    ]


def test_the_table_has_the_last_epoch_first_with_the_spread_over_seeds() -> None:
    lasts = (90.0, 91.0, 94.0)
    runs = [run_of("plain", n, last=last) for n, last in enumerate(lasts)] + [run_of("elr", 1)]
    table = comparison_table(group_runs(runs))
    assert table.headings == ("method", "runs", "test, last epoch", "test, best epoch", "AUROC")
    mean, deviation = sum(lasts) / 3, statistics.stdev(lasts)
    assert table.rows[0] == (
        "plain",
        "3",
        f"{mean:.2f} ± {deviation:.2f} %",
        "95.00 ± 0.00 %",
        "0.900 ± 0.000",
    )
    assert table.rows[1] == ("elr", "1", "90.00 %", "95.00 %", "0.900")


@pytest.mark.parametrize(
    ("values", "text"), [([], "–"), ([1.0], "1.00"), ([1.0, 3.0], "2.00 ± 1.41")]
)
def test_mean_and_spread(values: list[float], text: str) -> None:
    assert mean_and_spread(values, "") == text


def test_curves_share_axes_with_one_colour_for_each_method() -> None:
    runs = [run_of("plain", 1), run_of("plain", 2), run_of("elr", 1)]
    view = comparison_curves(group_runs(runs)).views[0]
    scale = view.spec["encoding"]["color"]["scale"]
    assert scale["domain"] == ["plain", "elr"]
    assert len(set(scale["range"])) == 2
    curves: dict[tuple[str, int], list[float]] = {}
    for row in view.spec["data"]["values"]:
        curves.setdefault((row["group"], row["line"]), []).append(row["value"])
    assert curves == {key: [95.0, 90.0] for key in (("plain", 0), ("plain", 1), ("elr", 0))}
