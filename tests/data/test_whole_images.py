"""Windows that lie anywhere in images of different shapes."""

import pytest
import torch
from PIL import Image

from discrimloss.data import DataError
from discrimloss.data.images import decode_square
from discrimloss.data.whole_images import WholeImageFiles, WindowPreparation

OUTSIDE = 255
SIZE = 4


def prepared(shapes, generator, **options):
    """The places of the windows of images of these shapes, and which of them are mirrored."""
    height, width = (torch.tensor(sides) for sides in zip(*shapes, strict=True))
    pixels = torch.full((len(shapes), 3, 12, 8), OUTSIDE, dtype=torch.uint8)
    for row, (rows, columns) in enumerate(shapes):
        pixels[row, 0, :rows, :columns] = torch.arange(rows)[:, None]
        pixels[row, 1, :rows, :columns] = torch.arange(columns)
    prepare = WindowPreparation((0.0,) * 3, (1 / 255,) * 3, SIZE, **options)
    windows = prepare({"pixels": pixels, "height": height, "width": width}, generator).round()
    assert windows.shape == (len(shapes), 3, SIZE, SIZE)
    assert windows[:, :2].max() < OUTSIDE
    mirrored = windows[:, 1, 0, 0] > windows[:, 1, 0, 1]
    top, left = windows[:, 0].amin((1, 2)), windows[:, 1].amin((1, 2))
    return list(zip(top.int().tolist(), left.int().tolist(), strict=True)), mirrored


def test_training_windows_lie_anywhere_in_their_image():
    shapes = [(9, 5), (4, 8)] * 300
    places, mirrored = prepared(shapes, torch.Generator().manual_seed(0))
    assert set(places[::2]) == {(top, left) for top in range(6) for left in range(2)}
    assert set(places[1::2]) == {(0, left) for left in range(5)}
    assert mirrored.float().mean() == pytest.approx(0.5, abs=0.07)
    assert places == prepared(shapes, torch.Generator().manual_seed(0))[0]


@pytest.mark.parametrize(
    ("generator", "options"), [(None, {}), (torch.Generator(), {"augment": False})]
)
def test_other_windows_are_in_the_middle(generator, options):
    places, mirrored = prepared([(9, 5), (12, 8), (4, 4)], generator, **options)
    assert places == [(2, 0), (4, 2), (0, 0)]
    assert not mirrored.any()


def test_files_are_scaled_by_their_shorter_side(tmp_path):
    for name, size in (("high.png", (20, 50)), ("wide.png", (30, 20))):
        image = Image.new("RGB", size)
        image.putdata([(x, y, 100) for y in range(size[1]) for x in range(size[0])])
        image.save(tmp_path / name)
    files = WholeImageFiles(tmp_path, ("high.png", "wide.png"), 10)
    images = files.rows(torch.tensor([0, 1]))
    assert images["height"].tolist() == [25, 10]
    assert images["width"].tolist() == [10, 15]
    assert images["pixels"].shape == (2, 3, 25, 15)
    assert not images["pixels"][0, :, :, 10:].any()
    only = files.select(torch.tensor([1])).rows(torch.tensor([0]))["pixels"][0]
    assert only.shape == (3, 10, 15)
    # The middle square is the same as where only that is read, up to a pixel at its edge.
    square = decode_square(tmp_path / "wide.png", 10)
    assert (only[:, :, 2:12].int() - square.int()).abs().max() <= 2


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"there is no image .*gone\.png"):
        WholeImageFiles(tmp_path, ("gone.png",), 10).rows(torch.tensor([0]))
