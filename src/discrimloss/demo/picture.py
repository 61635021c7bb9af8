"""Draws the most suspicious digits."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from discrimloss.demo.experiment import SeedRun

COLUMNS = 6
MOST_PANELS = 24
DOTS_PER_INCH = 100

# Lengths in inches. Panels have a fixed size, so margins do not depend on their number.
WIDTH = 10.0
MARGIN = 0.4
HEADER = 0.75
FOOTER = 0.7
PANEL = 1.38
CAPTION = 0.3
ROW_GAP = 0.15

# Colour-blind readers can distinguish these colours.
RIGHTLY_FLAGGED = "#009e73"
WRONGLY_FLAGGED = "#d55e00"
INK = "#222222"
QUIET = "#666666"


def save_picture(run: SeedRun, path: Path) -> None:
    """Write a PNG of the flagged digits with given and suggested labels, most suspicious first."""
    worst = run.verdicts.order
    shown = worst[run.verdicts.verdict[worst] == "incorrect"][:MOST_PANELS]
    rows = math.ceil(len(shown) / COLUMNS)
    height = MARGIN + HEADER + rows * (CAPTION + PANEL + ROW_GAP) + FOOTER
    figure = Figure(figsize=(WIDTH, height), dpi=DOTS_PER_INCH, facecolor="white")

    _write_headline(figure, height, run, len(shown))
    for position, sample in enumerate(shown):
        _draw_panel(figure, height, position, run, int(sample))
    if len(shown):
        _draw_legend(figure, height)
    figure.savefig(path, format="png")


def _write_headline(figure: Figure, height: float, run: SeedRun, num_shown: int) -> None:
    total = f"{len(run.verdicts):,} labels"
    headline = (
        f"The {num_shown} most suspicious of {total}" if num_shown else f"None of {total} flagged"
    )
    values = run.values
    facts = (
        f"Made wrong on purpose: {values.wrong_labels:,}. Flagged: {values.flagged_labels:,}, "
        f"of these, wrong: {values.flagged_and_wrong:,}. Seed {run.digits.config.seed}."
    )
    for below_margin, line, size, weight, color in (
        (0.0, headline, 17, "bold", INK),
        (0.36, facts, 11, "normal", QUIET),
    ):
        top = 1 - (MARGIN + below_margin) / height
        figure.text(MARGIN / WIDTH, top, line, va="top", size=size, weight=weight, color=color)


def _draw_panel(figure: Figure, height: float, position: int, run: SeedRun, sample: int) -> None:
    row, column = divmod(position, COLUMNS)
    left = MARGIN + column * (WIDTH - 2 * MARGIN - PANEL) / (COLUMNS - 1)
    top = MARGIN + HEADER + row * (CAPTION + PANEL + ROW_GAP) + CAPTION
    bottom = height - top - PANEL
    axes = figure.add_axes((left / WIDTH, bottom / height, PANEL / WIDTH, PANEL / height))
    # A white margin, so that the frame covers no part of the digit.
    axes.imshow(
        np.pad(run.digits.images[sample], 1), cmap="gray_r", vmin=0, vmax=1, interpolation="bicubic"
    )
    axes.set(xticks=[], yticks=[], xlim=(0, 9), ylim=(9, 0))
    given, suggested = run.verdicts.given_label, run.verdicts.suggested_label
    assert given is not None  # the experiment sets both
    assert suggested is not None
    caption = f"given {given[sample]} → suggests {suggested[sample]}"
    axes.set_title(caption, loc="left", size=9.2, color=INK, pad=6)
    is_wrong = bool(run.digits.labels.is_wrong[sample])
    for edge in axes.spines.values():
        edge.set(color=RIGHTLY_FLAGGED if is_wrong else WRONGLY_FLAGGED, linewidth=3)


def _draw_legend(figure: Figure, height: float) -> None:
    handles = [
        Patch(facecolor="white", edgecolor=color, linewidth=3, label=label)
        for color, label in (
            (RIGHTLY_FLAGGED, "correctly flagged: the given label is wrong"),
            (WRONGLY_FLAGGED, "falsely flagged: the given label is right"),
        )
    ]
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(MARGIN / WIDTH, MARGIN / height),
        borderpad=0,
        borderaxespad=0,
        ncols=2,
        frameon=False,
        fontsize=10.5,
        labelcolor=INK,
        handlelength=1.2,
        handleheight=1.2,
        columnspacing=3,
    )
