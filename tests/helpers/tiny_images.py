"""Small pictures in files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {"blue": (0, 0, 255), "green": (0, 255, 0), "red": (255, 0, 0)}


def picture(colour: tuple[int, ...] | int, size: tuple[int, int] = (40, 36)) -> Image.Image:
    """Noise around a colour, or around a grey for a single number; the same every time."""
    channels = () if isinstance(colour, int) else (3,)
    noise = np.random.default_rng(sum(np.atleast_1d(colour))).integers(
        -20, 20, (*size[::-1], *channels)
    )
    return Image.fromarray(np.clip(np.asarray(colour) * 0.8 + 25 + noise, 0, 255).astype(np.uint8))


def png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def write_colours(folder: Path, per_class: int = 3) -> Path:
    """A folder with three classes."""
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for number in range(per_class):
            picture(colour).save(folder / name / f"{number}.png")
    return folder
