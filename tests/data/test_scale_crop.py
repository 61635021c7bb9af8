"""Crops at random scale."""

from __future__ import annotations

import math

import torch

from discrimloss.data.scale_crop import (
    HIGHEST_RATIO,
    SMALLEST_AREA,
    ScaleCropPreparation,
    random_windows,
)

PREPARE = ScaleCropPreparation(mean=(0.0,), std=(1 / 255,))
"""Leaves the pixels as they are."""


def test_windows_lie_in_the_image_and_have_the_sizes_of_the_released_code() -> None:
    width, height, left, top, mirrored = random_windows(5000, torch.Generator().manual_seed(0))
    area, ratio = width * height, width / height
    assert SMALLEST_AREA <= float(area.min()) < 0.09
    assert 0.95 < float(area.max()) <= 1.0
    assert float(ratio.min()) >= 1 / HIGHEST_RATIO - 1e-6
    assert float(ratio.max()) < 4 / 3 + 1e-6
    assert abs(float(ratio.log().mean())) < 0.02
    for start, length in ((left, width), (top, height)):
        assert float(start.min()) >= 0.0
        assert float((start + length).max()) <= 1.0 + 1e-6
    assert abs(float(mirrored.float().mean()) - 0.5) < 0.03


def test_a_window_shows_its_part_of_the_image() -> None:
    side = 32
    ramp = torch.arange(side, dtype=torch.uint8) * 4
    images = ramp.expand(200, 1, side, side)  # brighter to the right
    found = PREPARE(images, torch.Generator().manual_seed(1))
    assert found.shape == images.shape
    width, _, left, _, mirrored = random_windows(200, torch.Generator().manual_seed(1))
    # The middle of a window has the brightness of the middle of its place.
    middle = 4 * ((left + width / 2) * side - 0.5)
    seen = found[:, 0, 0, side // 2 - 1 : side // 2 + 1].mean(1)
    assert torch.allclose(seen, middle, atol=0.1)
    rises = found[:, 0, 0, -1] > found[:, 0, 0, 0]
    assert torch.equal(rises, ~mirrored)


def test_evaluation_sees_the_whole_image() -> None:
    images = torch.randint(256, (2, 1, 8, 8), dtype=torch.uint8)
    assert torch.allclose(PREPARE(images, None), images.float(), atol=1e-3)


def test_the_same_generator_gives_the_same_images() -> None:
    images = torch.randint(256, (3, 1, 8, 8), dtype=torch.uint8)
    first, again = (PREPARE(images, torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first, again)
    assert not math.isnan(float(first.sum()))
