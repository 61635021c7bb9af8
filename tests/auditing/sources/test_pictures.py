import io

import numpy as np
import pytest
from PIL import Image
from tiny_images import picture, png

from discrimloss.auditing.sources.pictures import (
    UnreadablePictureError,
    look_at,
    square_pixels,
    thumbnail,
)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM"])
def test_formats(kind: str) -> None:
    buffer = io.BytesIO()
    picture((250, 0, 0), (20, 10)).save(buffer, kind)
    fact = look_at(buffer.getvalue())
    assert (fact.width, fact.height, fact.is_grey) == (20, 10, False)
    red, green, _ = square_pixels(buffer.getvalue(), 8, "RGB").mean((1, 2))
    assert red > 190 > 60 > green


def test_what_is_transparent_is_white() -> None:
    hidden_red = Image.new("RGBA", (9, 9), (255, 0, 0, 0))
    assert look_at(png(hidden_red)).is_grey
    assert square_pixels(png(hidden_red), 4, "RGB").tolist() == np.full((3, 4, 4), 255).tolist()


@pytest.mark.parametrize(
    ("dtype", "top"), [(np.uint16, 65535), (np.uint16, 200), (np.int32, 65535)]
)
def test_many_bits_keep_their_shades(dtype: type, top: int) -> None:
    ramp = np.linspace(0, top, 16).astype(dtype)[None].repeat(16, 0)
    buffer = io.BytesIO()
    Image.fromarray(ramp).save(buffer, "TIFF")
    pixels = square_pixels(buffer.getvalue(), 16, "L")[0, 0]
    expected = np.linspace(0, 255 if top > 255 else top, 16)
    assert np.abs(pixels - expected).max() <= 1
    assert look_at(buffer.getvalue()).is_grey


def test_the_whole_picture_is_in_the_square() -> None:
    wide = np.zeros((10, 40), np.uint8)
    wide[:, 36:] = 255  # far outside of the middle
    assert square_pixels(png(Image.fromarray(wide)), 10, "L")[0, :, -1].min() > 200


def test_a_stamp_of_colour_makes_a_scan_a_colour_picture() -> None:
    scan = Image.new("RGB", (200, 200), "white")
    assert look_at(png(scan)).is_grey
    scan.paste((200, 0, 0), (150, 150, 170, 170))
    assert not look_at(png(scan)).is_grey


def test_a_photo_that_breaks_off() -> None:
    buffer = io.BytesIO()
    picture((250, 0, 0), (400, 300)).save(buffer, "JPEG")
    assert look_at(buffer.getvalue()).width == 400
    with pytest.raises(UnreadablePictureError, match="truncated"):
        look_at(buffer.getvalue()[:-200])


@pytest.mark.parametrize("encoded", [b"", b"GIF89a", b"%PDF-1.4", png(picture(9))[:-40]])
def test_broken_pictures(encoded: bytes) -> None:
    for use in (look_at, thumbnail):
        with pytest.raises(UnreadablePictureError):
            use(encoded)
