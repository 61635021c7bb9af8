"""Samples to look at: which ones a report shows, and how small."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discrimloss.auditing.sources.base import SampleView

if TYPE_CHECKING:
    import pandas

View = Callable[[int], SampleView]
"""Shows a sample, given its row."""

GALLERY_SIZE = 24
"""Samples on each side of a gallery."""
SIDE = 160
"""The longer side of a picture in pixels: larger pictures are scaled down."""
TEXT_LENGTH = 600
FIELDS = 6
FIELD_LENGTH = 60


@dataclass(frozen=True)
class GalleryEntry:
    """One sample of a gallery."""

    id: str
    given: str
    suggested: str | None
    verdict: str
    p_incorrect: float
    average_loss: float
    view: SampleView


@dataclass(frozen=True)
class Gallery:
    """Samples to look at."""

    worst: tuple[GalleryEntry, ...]
    """The samples that are most likely incorrect, worst first."""
    hardest: tuple[GalleryEntry, ...]
    """The samples that count as correct and were the hardest to learn, hardest first."""
    note: str = ""
    """What the reader should know, such as how to get pictures."""


def choose_gallery(
    samples: pandas.DataFrame, view: View | None, size: int = GALLERY_SIZE, note: str = ""
) -> Gallery:
    """The worst samples, and the hardest of those that count as correct.

    Args:
        samples: as in `ReportRun`.
        view: shows a sample, given its row; None to show its values only.
        size: the number of samples on each side.
        note: what the reader should know of the gallery.
    """
    verdict = samples["verdict"].to_numpy().astype(str)
    loss = samples["average_loss"].to_numpy(dtype=np.float64)
    probability = samples["p_incorrect"].to_numpy(dtype=np.float64)
    incorrect = np.flatnonzero(verdict == "incorrect")
    if "rank" in samples:
        rank = samples["rank"].to_numpy()[incorrect]
        worst = incorrect[np.argsort(rank, kind="stable")]
    else:
        worst = incorrect[np.lexsort((-loss[incorrect], -probability[incorrect]))]
    correct = np.flatnonzero(np.isin(verdict, ("hard", "undecided", "easy")))
    hardest = correct[np.lexsort((-loss[correct], verdict[correct] == "easy"))]
    return Gallery(
        tuple(_entry(samples, int(row), view) for row in worst[:size]),
        tuple(_entry(samples, int(row), view) for row in hardest[:size]),
        note,
    )


def _entry(samples: pandas.DataFrame, row: int, view: View | None) -> GalleryEntry:
    sample = samples.iloc[row]
    suggested = sample["suggested"]
    return GalleryEntry(
        id=str(sample["id"]),
        given=label_text(sample["given"]),
        suggested=None if is_missing(suggested) else label_text(suggested),
        verdict=str(sample["verdict"]),
        p_incorrect=float(sample["p_incorrect"]),
        average_loss=float(sample["average_loss"]),
        view=SampleView() if view is None else view(row),
    )


def is_missing(label: Any) -> bool:
    """Whether there is no label here: None, NaN, or the missing value of pandas."""
    return label is None or (not isinstance(label, str) and bool(label != label))


def label_text(label: Any) -> str:
    """A label for the page: a name, or a formatted regression target."""
    return label if isinstance(label, str) else format_number(float(label), 4)


def format_number(value: float, digits: int = 3) -> str:
    """A rounded number for the page: ``4,960`` and ``0.0312``."""
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


@dataclass(frozen=True)
class Thumbnail:
    """A view that is small enough for a page. Texts are not escaped yet."""

    picture: str = ""
    """A data URL."""
    is_tiny: bool = False
    """Whether its pixels are to be seen as squares."""
    text: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    remark: str = ""


def thumbnail(view: SampleView) -> Thumbnail:
    """The view of a sample, cut down to a bounded size."""
    fields = tuple(
        (shortened(name, FIELD_LENGTH), shortened(value, FIELD_LENGTH))
        for name, value in view.fields[:FIELDS]
    )
    remarks = []
    if len(view.fields) > FIELDS:
        remarks.append(f"and {len(view.fields) - FIELDS} more fields")
    picture, is_tiny = "", False
    if view.image is not None:
        found = _small_picture(view.image)
        if found is None:
            remarks.append("the picture cannot be shown")
        else:
            picture, is_tiny = found
    text = "" if view.text is None else shortened(view.text, TEXT_LENGTH)
    return Thumbnail(picture, is_tiny, text, fields, "; ".join(remarks))


def shortened(text: str, length: int) -> str:
    """The beginning of a text."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _small_picture(content: bytes) -> tuple[str, bool] | None:
    """A data URL, and whether the picture is so small that it is to be magnified."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as opened:
            opened.draft("RGB", (2 * SIDE, 2 * SIDE))  # large photographs decode faster so
            has_alpha = "A" in opened.mode or "transparency" in opened.info
            image = opened.convert("RGBA" if has_alpha else "RGB")
        is_tiny = max(image.size) <= 64
        image.thumbnail((SIDE, SIDE))
        written = io.BytesIO()
        kind = "png" if is_tiny or image.mode == "RGBA" else "jpeg"
        image.save(written, kind, **({"quality": 85} if kind == "jpeg" else {"optimize": True}))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return f"data:image/{kind};base64,{base64.b64encode(written.getvalue()).decode()}", is_tiny
