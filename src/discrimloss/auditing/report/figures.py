"""The figures of the paper, one by one, as PNG, SVG or PDF."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from discrimloss.auditing.report import statistics
from discrimloss.auditing.report.chart import MOST_POINTS
from discrimloss.auditing.report.charts import MOST_BARS, MOST_CLASSES
from discrimloss.auditing.report.colours import RUN_COLOURS, colour_of, order_of
from discrimloss.auditing.report.comparison import RunGroup
from discrimloss.auditing.report.contents import ReportRun
from discrimloss.auditing.report.trace_charts import TRACED_SAMPLES, truth_of

FORMATS = ("png", "svg", "pdf")
SMALL_MULTIPLES = 6
LABEL_LENGTH = 24
LINES = {"k1": "--", "k_dyn": "-", "k2": ":", "train": "--", "validation": ":", "test": "-"}
MARKS = {"easy": "o", "hard": "D", "incorrect": "x", "unseen": "s", "all samples": "o"}
SETTINGS = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "discrimloss",  # the same file every time
}

Draw = Callable[[ReportRun], Any]


def run_figures(run: ReportRun, kind: str) -> dict[str, bytes]:
    """The figures that can be drawn of a run, by the name of their file without its ending."""
    drawn: dict[str, bytes] = {}
    for name, draw in FIGURES.items():
        content = _drawn(lambda draw=draw: draw(run), kind)  # type: ignore[misc]
        if content is not None:
            drawn[name] = content
    return drawn


def comparison_figure(groups: Sequence[RunGroup], kind: str) -> bytes | None:
    """The test curves of several runs, or those of training where there is no test part."""
    return _drawn(lambda: _comparison(groups), kind)


def _drawn(draw: Callable[[], Any], kind: str) -> bytes | None:
    import matplotlib

    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        # A class name in a script that no installed font has: boxes are drawn for it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = draw()
        if figure is None:
            return None
        written = io.BytesIO()
        metadata = (
            {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else {}
        )
        figure.savefig(written, format=kind, dpi=200, metadata=metadata)
        return written.getvalue()


def _figure(width: float = 4.6, height: float = 3.2, **grid: Any) -> tuple[Any, Any]:
    """A figure without pyplot: nothing global, no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(**grid)


def _plain(text: str) -> str:
    """A name as it is: matplotlib takes dollars for formulas."""
    words = " ".join(text.split())
    short = words if len(words) <= LABEL_LENGTH else f"{words[: LABEL_LENGTH - 1]}…"
    return short.replace("$", r"\$")


def _losses(run: ReportRun) -> Any:
    if run.traces is None:
        return None
    from matplotlib.ticker import LogLocator, NullLocator

    edges = statistics.loss_bin_edges(run.traces.loss)
    steps = statistics.chosen_epochs(len(run.traces.epochs), SMALL_MULTIPLES)
    truth = truth_of(run)
    splits = [run.traced_verdicts()] + ([] if truth is None else [truth])
    figure, axes = _figure(
        1.0 + 1.6 * len(steps), 0.6 + 1.9 * len(splits),
        nrows=len(splits), ncols=len(steps), squeeze=False, sharex=True, sharey=True,
    )  # fmt: skip
    for row, groups in zip(axes, splits, strict=True):
        for axis, step in zip(row, steps, strict=True):
            for group in order_of(groups):
                loss = run.traces.loss[step][groups == group]
                counts = statistics.loss_histogram(loss, edges)
                share = 100.0 * counts / max(counts.sum(), 1)
                axis.stairs(share, 10.0**edges, color=colour_of(group), label=group, fill=True,
                            alpha=0.45)  # fmt: skip
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(numticks=4))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.set_yscale("function", functions=(np.sqrt, np.square))
        row[0].set_ylabel("% of the group")
        row[-1].legend()
    for axis, step in zip(axes[0], steps, strict=True):
        axis.set_title(f"epoch {run.traces.epochs[step]}")
    for axis in axes[-1]:
        axis.set_xlabel("loss")
    return figure


def _columns(run: ReportRun, columns: dict[str, str], y: str) -> Any:
    present = {
        name: words for name, words in columns.items() if any(name in r for r in run.history)
    }
    if not present:
        return None
    figure, axis = _figure()
    for name, words in present.items():
        values = [np.nan if row.get(name) is None else row[name] for row in run.history]
        epochs = [row["epoch"] for row in run.history]
        style = LINES[words] if len(epochs) > 1 else "o"
        axis.plot(epochs, values, style, color=colour_of(words), label=words)
    axis.set(xlabel="epoch", ylabel=y)
    axis.legend()
    return figure


def _thresholds(run: ReportRun) -> Any:
    return _columns(run, {name: name for name in ("k1", "k_dyn", "k2")}, "loss")


def _curves(run: ReportRun) -> Any:
    parts = {f"{part}_{run.metric}": part for part in ("train", "validation", "test")}
    return _columns(run, parts, "mean absolute error" if run.is_regression else "accuracy, %")


def _weights(run: ReportRun) -> Any:
    if run.traces is None or run.traces.weight is None or len(run.traces.epochs) < 2:
        return None
    weight, epochs, groups = run.traces.weight, run.traces.epochs, run.traced_verdicts()
    last = np.nan_to_num(weight[-1].astype(np.float64))
    figure, axis = _figure()
    for group in order_of(groups):
        members = np.flatnonzero(groups == group)
        for sample in statistics.spread_out(members, last, TRACED_SAMPLES):
            axis.plot(epochs, weight[:, sample], color=colour_of(group), linewidth=0.7, alpha=0.7)
        known = [row[~np.isnan(row)] for row in weight[:, members]]
        medians = [np.median(row) if len(row) else np.nan for row in known]
        axis.plot(epochs, medians, color=colour_of(group), linewidth=2.2, label=f"{group}, median")
    axis.set(xlabel="epoch", ylabel="weight")
    axis.legend()
    return figure


def _fluctuation(run: ReportRun) -> Any:
    if run.traces is None or run.traces.weight is None or len(run.traces.epochs) < 2:
        return None
    threshold = statistics.fluctuation_threshold(run.traces.weight)
    if threshold <= 0.0:
        return None
    jumps = statistics.fluctuations(run.traces.weight, threshold)
    truth = truth_of(run)
    figure, axis = _figure()
    boxes, colours = [], []
    for groups in [run.traced_verdicts()] + ([] if truth is None else [truth]):
        for group in order_of(groups):
            box = statistics.box_of(jumps[groups == group])
            boxes.append(
                {
                    "label": group,
                    "whislo": box.low,
                    "q1": box.first_quartile,
                    "med": box.median,
                    "q3": box.third_quartile,
                    "whishi": box.high,
                }
            )
            colours.append(colour_of(group))
    drawn = axis.bxp(boxes, showfliers=False, patch_artist=True, medianprops={"color": "black"})
    for patch, colour in zip(drawn["boxes"], colours, strict=True):
        patch.set(facecolor=colour, alpha=0.6)
    axis.set(ylabel=f"epochs with a jump above {threshold:.3g}")
    return figure


def _scatter(x: Any, y: Any, groups: Any, labels: tuple[str, str]) -> Any:
    generator = np.random.default_rng(0)
    figure, axis = _figure()
    known = np.isfinite(x) & np.isfinite(y)
    for group in order_of(groups):
        members = np.flatnonzero((groups == group) & known)
        chosen = statistics.sampled(members, MOST_POINTS, generator)
        axis.scatter(x[chosen], y[chosen], s=8, alpha=0.5, color=colour_of(group),
                     marker=MARKS[group], linewidths=0.8, label=group)  # fmt: skip
    axis.set(xlabel=labels[0], ylabel=labels[1])
    axis.legend()
    return figure


def _data_map(run: ReportRun) -> Any:
    if run.traces is None or len(run.traces.epochs) < 2:
        return None
    mean, deviation = statistics.data_map(run.traces.loss)
    names = ("standard deviation of the loss", "mean loss")
    return _scatter(deviation, mean, run.traced_verdicts(), names)


def _confusion(run: ReportRun) -> Any:
    if run.samples is None or not run.samples["suggested"].notna().any():
        return None
    if run.is_regression:
        given, suggested = (
            run.samples[name].astype(float).to_numpy() for name in ("given", "suggested")
        )
        verdicts = run.samples["verdict"].to_numpy().astype(str)
        return _scatter(given, suggested, verdicts, ("given target", "prediction"))
    found = statistics.confusion(run.samples)
    if not len(found.counts):
        return None
    if len(run.class_names) > MOST_CLASSES:
        pairs = zip(found.given[:MOST_BARS], found.suggested[:MOST_BARS], strict=True)
        names = [f"{given} → {suggested}" for given, suggested in pairs]
        return _lying_bars(names, found.counts[:MOST_BARS].tolist(), "samples")
    names = [_plain(name) for name in run.class_names]
    figure, axis = _figure(1.8 + 0.32 * len(names), 1.4 + 0.32 * len(names))
    matrix = found.matrix(run.class_names)
    axis.imshow(matrix, cmap="PuRd")
    for (row, column), count in np.ndenumerate(matrix):
        if count and len(names) <= 12:
            colour = "white" if count > 0.6 * matrix.max() else "black"
            axis.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=7)
    axis.set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) > 2 else 0)
    axis.set_yticks(range(len(names)), names)
    axis.set(xlabel="suggested", ylabel="given")
    return figure


def _class_noise(run: ReportRun) -> Any:
    if run.samples is None:
        return None
    groups = statistics.class_noise(run.samples, run.is_regression)[:MOST_BARS]
    if not groups:
        return None
    values = [100 * group.estimated for group in groups]
    true = [100 * group.true for group in groups if group.true is not None]
    return _lying_bars([group.name for group in groups], values, "wrong labels, %", true)


def _lying_bars(names: list[str], values: list[float], x: str, marks: Any = ()) -> Any:
    figure, axis = _figure(5.0, 1.1 + 0.22 * len(names))
    places = range(len(names))
    axis.barh(places, values, color=colour_of("incorrect"), alpha=0.7, label="estimated")
    if len(marks):
        axis.plot(marks, places, "D", color=colour_of("truly wrong"), markersize=5, label="true")
        axis.legend()
    axis.set_yticks(places, [_plain(name) for name in names])
    axis.invert_yaxis()
    axis.set(xlabel=x)
    return figure


def _comparison(groups: Sequence[RunGroup]) -> Any:
    runs = [run for group in groups for run in group.runs if run.history]
    parts = [p for p in ("test", "train") if any(f"{p}_{r.metric}" in r.history[-1] for r in runs)]
    if not parts:
        return None
    figure, axis = _figure(6.0, 3.6)
    for number, group in enumerate(groups):
        colour, label = RUN_COLOURS[number % len(RUN_COLOURS)], _plain(group.label)
        style = ("-", "--", ":", "-.")[number // len(RUN_COLOURS) % 4]
        for run in group.runs:
            name = f"{parts[0]}_{run.metric}"
            rows = [row for row in run.history if name in row]
            epochs, values = [row["epoch"] for row in rows], [row[name] for row in rows]
            axis.plot(epochs, values, style, color=colour, linewidth=1.2, label=label)
            label = "_nolegend_"
    metric = "mean absolute error" if runs[0].is_regression else "accuracy, %"
    axis.set(xlabel="epoch", ylabel=f"{parts[0]}: {metric}")
    axis.legend()
    return figure


FIGURES: dict[str, Draw] = {
    "losses": _losses,
    "thresholds": _thresholds,
    "weights": _weights,
    "fluctuation": _fluctuation,
    "curves": _curves,
    "data_map": _data_map,
    "confusion": _confusion,
    "class_noise": _class_noise,
}
"""Every figure, by the name of its file; each is None where it cannot be drawn."""
