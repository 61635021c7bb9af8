"""The map of the data: a few thousand points, with similar samples close to each other."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discrimloss.auditing.report.chart import rounded, short
from discrimloss.auditing.report.colours import RUN_COLOURS, colour_of, order_of
from discrimloss.auditing.report.gallery import Rows, is_missing, label_text, worst_first
from discrimloss.auditing.report.passage import passage
from discrimloss.auditing.report.projection import map_features, plane
from discrimloss.auditing.report.sample_table import thousandths
from discrimloss.auditing.report.statistics import sampled
from discrimloss.auditing.sources.base import AuditSource

if TYPE_CHECKING:
    import pandas

MOST_POINTS = 3_000
MOST_PICTURES = 1_000
"""Maximum number of points of a map of images. It is low, because each image must be read again."""
SUSPICIOUS_POINTS = 0.25
"""Largest fraction of most suspicious samples among the points. The others are random."""
FEWEST_SAMPLES = 10
TEXT_LENGTH = 220
FIELDS = 5
TILE = 40
"""The side of an image in pixels."""
COLOURS = (*RUN_COLOURS, "#e07be0", "#2f4b9b", "#9bc53d", "#f25f3a")
"""Colours of the most frequent classes; all others are grey."""
LARGEST = 1000
"""Coordinates are whole numbers up to this."""


@dataclass(frozen=True)
class DataMap:
    """Samples in a plane."""

    columns: dict[str, Any]
    """The columns in the format of `map.js`."""
    points: int
    samples: int


def make_map(
    samples: pandas.DataFrame, source: AuditSource, cache: Path | None = None
) -> DataMap | None:
    """Return a map of the samples, or None if there are too few.

    Args:
        samples: as in `ReportRun`.
        source: the audited source.
        cache: the directory with cached results of the audit, or None.
    """
    if len(samples) < FEWEST_SAMPLES:
        return None
    rows = chosen_rows(samples, MOST_PICTURES if source.kind == "images" else MOST_POINTS)
    target = source.target.numpy()[rows]
    features = map_features(source, rows.tolist(), cache)
    placed = plane(features, target, source.is_regression)
    chosen = samples.iloc[rows]
    columns: dict[str, Any] = {
        "index": rows.tolist(),
        "x": _places(placed[:, 0]),
        "y": _places(placed[:, 1]),
        "id": [short(value) for value in chosen["id"]],
        "given": [short(label_text(label)) for label in chosen["given"]],
        "suggested": [
            None if is_missing(label) else short(label_text(label)) for label in chosen["suggested"]
        ],
        "verdict": chosen["verdict"].astype(str).tolist(),
        "p": thousandths(chosen["p_incorrect"]),
        "verdicts": [[name, colour_of(name)] for name in order_of(chosen["verdict"])],
    }
    if source.is_regression:
        columns["value"] = rounded(chosen["given"].tolist())
    else:
        columns["classes"] = _classes(samples)
    return DataMap(columns | _views(source, rows), len(rows), len(samples))


def chosen_rows(samples: pandas.DataFrame, most: int) -> Rows:
    """Return the samples of the map, by row: the most suspicious ones and random others."""
    order = worst_first(samples)
    if len(order) <= most:
        return np.sort(order)
    verdict = samples["verdict"].to_numpy().astype(str)
    incorrect = order[verdict[order] == "incorrect"][: int(SUSPICIOUS_POINTS * most)]
    others = np.setdiff1d(order, incorrect)
    drawn = sampled(others, most - len(incorrect), np.random.default_rng(0))
    return np.sort(np.concatenate([incorrect, drawn]))


def _places(values: Any) -> list[int]:
    """Return whole numbers from 0 to `LARGEST`. The outermost half percent is clipped."""
    low, high = np.quantile(values, (0.005, 0.995))
    room = max(float(high - low), 1e-9)
    places = np.clip((values - low + 0.03 * room) / (1.06 * room), 0.0, 1.0)
    found: list[int] = np.rint(LARGEST * places).astype(int).tolist()
    return found


def _classes(samples: pandas.DataFrame) -> list[list[str]]:
    """Return the classes with a colour: the most frequent ones, by name."""
    number = samples["given"].astype(str).value_counts()
    names = sorted(number.index, key=lambda name: (-number[name], name))[: len(COLOURS)]
    return [[short(name), colour] for name, colour in zip(sorted(names), COLOURS, strict=False)]


def _views(source: AuditSource, rows: Rows) -> dict[str, Any]:
    """Return the tooltip: the beginning of a text, some values, or a small image."""
    if source.kind == "images":
        return _atlas(source, rows.tolist())
    texts = []
    for row in rows.tolist():
        view = source.view(row)
        if view.text is not None:
            texts.append(short(passage(view.text[:4000]), TEXT_LENGTH))
        else:
            shown = (
                f"{short(name, 24)}: {short(value, 30)}" for name, value in view.fields[:FIELDS]
            )
            texts.append("; ".join(shown))
    return {"text": texts}


def _atlas(source: AuditSource, rows: Sequence[int]) -> dict[str, Any]:
    """Return all images as one image of tiles."""
    from PIL import Image

    across = int(np.ceil(np.sqrt(len(rows))))
    sheet = Image.new("RGB", (across * TILE, across * TILE))
    for place, row in enumerate(rows):
        content = source.view(row).image
        if content is None:
            continue
        with Image.open(io.BytesIO(content)) as opened:
            opened.draft("RGB", (2 * TILE, 2 * TILE))
            picture = opened.convert("RGB")
        picture.thumbnail((TILE, TILE))
        sheet.paste(picture, (place % across * TILE, place // across * TILE))
    written = io.BytesIO()
    sheet.save(written, "jpeg", quality=75)
    encoded = base64.b64encode(written.getvalue()).decode()
    return {"atlas": f"data:image/jpeg;base64,{encoded}", "tile": TILE, "across": across}
