"""The samples that a report shows, reduced to a small size."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.evidence.why import Evidence
from discrimloss.auditing.report.passage import passage
from discrimloss.auditing.sources.contents import SampleView

if TYPE_CHECKING:
    import pandas

Rows = npt.NDArray[np.int64]
View = Callable[[int], SampleView]
"""Returns the view of a sample by its row."""

GALLERY_SIZE = 24
"""Maximum number of samples in each of the two lists of a gallery."""
SIDE = 160
"""The longer side of an image in pixels. Larger images are scaled down."""
SIMILAR_SIDE = 56
"""The longer side of images of similar samples."""
SIMILAR_LENGTH = 90
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
    why: tuple[str, ...] = ()
    """The evidence, as sentences."""
    similar: tuple[SimilarEntry, ...] = ()
    """The most similar samples."""


@dataclass(frozen=True)
class SimilarEntry:
    """A sample that is similar to the one on the card."""

    id: str
    label: str
    picture: str = ""
    """A data URL."""
    text: str = ""


@dataclass(frozen=True)
class Gallery:
    """The samples of a gallery."""

    worst: tuple[GalleryEntry, ...]
    """The samples whose labels are most likely wrong, most suspicious first, with any verdict."""
    hardest: tuple[GalleryEntry, ...]
    """Other samples that are hard or undecided, hardest first."""
    note: str = ""
    """A note for the reader, such as how to get images."""

    @property
    def has_incorrect(self) -> bool:
        """Whether one of the samples is called incorrect."""
        return any(entry.verdict == "incorrect" for entry in self.worst)

    @property
    def expected_wrong(self) -> str:
        """Return a sentence on how many of the hardest samples are probably wrong."""
        wrong = sum(entry.p_incorrect for entry in self.hardest)
        if wrong < 0.5:
            return ""
        return f"About {wrong:.0f} of these {len(self.hardest)} labels are probably wrong."


def choose_gallery(
    samples: pandas.DataFrame,
    view: View | None,
    size: int = GALLERY_SIZE,
    note: str = "",
    evidence: Evidence | None = None,
) -> Gallery:
    """Return the most suspicious samples, and the hardest of the others.

    The most suspicious samples are returned even if no label is called incorrect.

    Args:
        samples: as in `ReportRun`.
        view: returns the view of a sample by its row; None to show only its values.
        size: maximum number of samples in each of the two lists.
        note: a note on the gallery.
        evidence: why samples are suspicious, by row.
    """
    verdict = samples["verdict"].to_numpy().astype(str)
    loss = samples["average_loss"].to_numpy(dtype=np.float64)
    worst = worst_first(samples)[:size]
    others = np.flatnonzero(np.isin(verdict, ("hard", "undecided")))
    others = others[~np.isin(others, worst)]
    hardest = others[np.argsort(-loss[others], kind="stable")]
    return Gallery(
        tuple(_entry(samples, int(row), view, evidence) for row in worst),
        tuple(_entry(samples, int(row), view, evidence) for row in hardest[:size]),
        note,
    )


def worst_first(samples: pandas.DataFrame) -> Rows:
    """Return the rows of all samples except unseen ones.

    Samples called incorrect come before all others. Within both, the most suspicious come first.

    Args:
        samples: as in `ReportRun`.
    """
    verdict = samples["verdict"].to_numpy().astype(str)
    seen = np.flatnonzero(verdict != "unseen")
    is_kept = verdict[seen] != "incorrect"
    if "rank" in samples:
        order = np.lexsort((samples["rank"].to_numpy()[seen], is_kept))
    else:
        loss = samples["average_loss"].to_numpy(dtype=np.float64)[seen]
        probability = samples["p_incorrect"].to_numpy(dtype=np.float64)[seen]
        order = np.lexsort((-loss, -probability, is_kept))
    return np.asarray(seen[order], dtype=np.int64)


def _entry(
    samples: pandas.DataFrame, row: int, view: View | None, evidence: Evidence | None
) -> GalleryEntry:
    sample = samples.iloc[row]
    suggested = sample["suggested"]
    explained = None if evidence is None else evidence.get(row)
    shown = SampleView() if view is None else view(row)
    if explained is not None:
        shown = clue_columns_first(shown, (*explained.speaks_for, *explained.speaks_against))
    return GalleryEntry(
        id=str(sample["id"]),
        given=label_text(sample["given"]),
        suggested=None if is_missing(suggested) else label_text(suggested),
        verdict=str(sample["verdict"]),
        p_incorrect=float(sample["p_incorrect"]),
        average_loss=float(sample["average_loss"]),
        view=shown,
        why=() if explained is None else explained.sentences,
        similar=()
        if explained is None
        else tuple(_similar(samples, other, view) for other in explained.similar),
    )


def clue_columns_first(view: SampleView, clues: Sequence[str]) -> SampleView:
    """Return a view whose first columns are those of the clues: a card shows only a few columns.

    Args:
        view: the view of a sample.
        clues: the clues for both labels, such as ``colour is red; ...``. Older audits have ``=``.
    """
    names = [
        name
        for clue in clues
        for name, _ in view.fields
        if clue.startswith((f"{name} is ", f"{name} = "))
    ]
    place = {name: number for number, name in enumerate(dict.fromkeys(names))}
    fields = sorted(view.fields, key=lambda field: place.get(field[0], len(place)))
    return replace(view, fields=tuple(fields))


def _similar(samples: pandas.DataFrame, row: int, view: View | None) -> SimilarEntry:
    sample = samples.iloc[row]
    shown = SampleView() if view is None else view(row)
    picture = None if shown.image is None else small_picture(shown.image, SIMILAR_SIDE)
    return SimilarEntry(
        str(sample["id"]),
        label_text(sample["given"]),
        "" if picture is None else picture[0],
        "" if shown.text is None else shortened(" ".join(shown.text.split()), SIMILAR_LENGTH),
    )


def is_missing(label: Any) -> bool:
    """Return whether a label is missing: None, NaN, or the missing value of pandas."""
    return label is None or (not isinstance(label, str) and bool(label != label))


def label_text(label: Any) -> str:
    """Return a label for the page: a name, or a formatted regression target."""
    return label if isinstance(label, str) else format_number(float(label), 4)


def format_number(value: float, digits: int = 3) -> str:
    """Return a rounded number for the page: ``4,960`` and ``0.0312``."""
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


@dataclass(frozen=True)
class Thumbnail:
    """A view that is small enough for a page. Texts are not escaped yet."""

    picture: str = ""
    """A data URL."""
    is_tiny: bool = False
    """Whether the page magnifies the image with visible pixels."""
    text: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    remark: str = ""


def thumbnail(view: SampleView) -> Thumbnail:
    """Reduce the view of a sample to a limited size."""
    fields = tuple(
        (shortened(name, FIELD_LENGTH), shortened(value, FIELD_LENGTH))
        for name, value in view.fields[:FIELDS]
    )
    remarks = []
    if len(view.fields) > FIELDS:
        remarks.append(f"and {len(view.fields) - FIELDS} more fields")
    picture, is_tiny = "", False
    if view.image is not None:
        found = small_picture(view.image)
        if found is None:
            remarks.append("the image cannot be shown")
        else:
            picture, is_tiny = found
    text = "" if view.text is None else shortened(passage(view.text), TEXT_LENGTH)
    return Thumbnail(picture, is_tiny, text, fields, "; ".join(remarks))


def one_line(shown: Thumbnail, id: str, length: int = 90) -> str:
    """Return a description of a sample on one line: its text, its fields, or its id."""
    fields = "" if shown.picture else ", ".join(f"{name} {value}" for name, value in shown.fields)
    return shortened(" ".join((shown.text or fields or id).split()), length)


def shortened(text: str, length: int) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def small_picture(content: bytes, side: int = SIDE) -> tuple[str, bool] | None:
    """Return a data URL, and whether the page must magnify the image."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as opened:
            opened.draft("RGB", (2 * side, 2 * side))  # large photos decode faster this way
            has_alpha = "A" in opened.mode or "transparency" in opened.info
            image = opened.convert("RGBA" if has_alpha else "RGB")
        is_tiny = max(image.size) <= 64
        image.thumbnail((side, side))
        written = io.BytesIO()
        kind = "png" if is_tiny or image.mode == "RGBA" else "jpeg"
        image.save(written, kind, **({"quality": 85} if kind == "jpeg" else {"optimize": True}))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return f"data:image/{kind};base64,{base64.b64encode(written.getvalue()).decode()}", is_tiny
