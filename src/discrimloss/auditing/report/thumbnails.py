"""What a page shows of a sample: a small picture, the beginning of a text, some fields."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

from discrimloss.auditing.sources.base import SampleView

SIDE = 160
"""Of a picture, in pixels: larger ones are made smaller, whatever the source holds."""
TEXT_LENGTH = 600
FIELDS = 6
FIELD_LENGTH = 60


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
