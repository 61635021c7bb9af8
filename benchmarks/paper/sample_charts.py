"""The paper's figures about training: generalization, loss histograms, fluctuation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.paper.drawing import Draw, epochs_below, legend_below, panels
from benchmarks.paper.results import Group, Results
from benchmarks.paper.sample_figures import BINS, GROUPS
from benchmarks.paper.table_charts import draw_curves
from discrimloss.auditing.report.colours import colour_of

COLOURS = {"clean": colour_of("truly clean"), "wrong": colour_of("truly wrong")}
TITLES = {
    "train_accuracy": "training accuracy, labels as given, %",
    "test_accuracy": "test accuracy, %",
    "test_loss": "test loss",
}


def generalization_charts(results: Results) -> dict[str, Draw]:
    """Fit, test accuracy and test loss over the epochs, a figure for each column."""
    return {c.name: partial(_generalization, results, c.name) for c in results.columns}


def histogram_charts(results: Results) -> dict[str, Draw]:
    """Losses of clean and wrong samples, a line of panels for each row; the first seed's."""
    groups = [group for group in results.groups if _first(group, "histograms")]
    return {"losses": lambda: _histograms(groups)} if groups else {}


def fluctuation_charts(results: Results) -> dict[str, Draw]:
    """Numbers of jumps as boxes, and one sample of each kind; the first seed's."""
    groups = [group for group in results.groups if _first(group, "fluctuation")]
    if not groups:
        return {}
    return {"jumps": lambda: _jumps(groups), "traces": lambda: _traced(groups)}


def _first(group: Group, key: str) -> Any:
    """An entry about samples, from the first seed that has it."""
    for cell in group.cells:
        found = (cell.content.get("samples") or {}).get(key)
        if found:
            return found
    return None


def _generalization(results: Results, column: str) -> Any:
    figure, axes = panels(len(TITLES), 3)
    for axis, (name, title) in zip(axes, TITLES.items(), strict=True):
        draw_curves(axis, results, column, name)
        axis.set_title(title)
        epochs_below(axis)
    rates = [value for g in results.groups for value in g.values("noise_true")]
    if rates:
        right = 100.0 * (1.0 - float(np.mean(rates)))
        axes[0].axhline(right, color="#555555", linewidth=0.8, linestyle=":", label="right labels")
    legend_below(figure, axes, 4)
    return figure


def _histograms(groups: list[Group]) -> Any:
    across = max(len(_first(group, "histograms")) for group in groups)
    figure, axes = panels(across * len(groups), across, width=2.6, height=2.1)
    edges = np.linspace(0.0, 1.0, BINS + 1)
    for line, group in enumerate(groups):
        for place, drawn in enumerate(_first(group, "histograms")):
            axis = axes[line * across + place]
            for name in GROUPS:
                counts = np.array(drawn["counts"][name], dtype=np.float64)
                percent = 100.0 * counts / max(counts.sum(), 1.0)
                axis.stairs(percent, edges, fill=True, alpha=0.5, color=COLOURS[name], label=name)
            axis.set(title=f"{group.row.title}, epoch {drawn['epoch']}", xlabel="normalised loss")
            axis.set_yscale("symlog", linthresh=1.0)
            axis.set_ylim(0.0, 110.0)
            axis.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
            if place == 0:
                axis.set_ylabel("samples, %")
    legend_below(figure, axes, 2)
    return figure


def _jumps(groups: list[Group]) -> Any:
    figure, axes = panels(len(groups), 4, width=2.6)
    for axis, group in zip(axes, groups, strict=True):
        found = _first(group, "fluctuation")
        for place, name in enumerate(name for name in GROUPS if name in found):
            box = found[name]["box"]
            drawn = {"whislo": box["low"], "q1": box["first_quartile"], "med": box["median"]}
            drawn |= {"q3": box["third_quartile"], "whishi": box["high"], "label": name}
            look = {"facecolor": COLOURS[name], "alpha": 0.5}
            axis.bxp(
                [drawn],
                positions=[place],
                widths=0.6,
                showfliers=False,
                patch_artist=True,
                boxprops=look,
                medianprops={"color": "black"},
            )
            axis.plot(place, found[name]["mean"], "D", color="black", markersize=4)
        axis.set(title=group.row.title, xlim=(-0.6, 1.6))
    top = max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set_ylim(-0.05 * top, top)
    axes[0].set_ylabel("jumps of a sample\n(diamond: mean)")
    return figure


def _traced(groups: list[Group]) -> Any:
    figure, axes = panels(len(groups), 4)
    for axis, group in zip(axes, groups, strict=True):
        found = _first(group, "fluctuation")
        for name in (name for name in GROUPS if name in found):
            values = found[name]["traced"]["importance"]
            epochs = range(1, len(values) + 1)
            axis.plot(epochs, values, color=COLOURS[name], linewidth=1.3, label=f"{name} sample")
        axis.set_title(group.row.title)
        epochs_below(axis)
    axes[0].set_ylabel("importance")
    legend_below(figure, axes, 2)
    return figure
