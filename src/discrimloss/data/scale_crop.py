"""Random crops of random size, resampled to the size of the image.

>>> import torch
>>> from discrimloss.data.scale_crop import ScaleCropPreparation
>>> prepare = ScaleCropPreparation(mean=(0.5,), std=(0.5,))
>>> images = torch.full((2, 1, 28, 28), 255, dtype=torch.uint8)
>>> prepare(images, torch.Generator().manual_seed(0)).shape
torch.Size([2, 1, 28, 28])
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from discrimloss.data.images import normalise

SMALLEST_AREA = 0.08
HIGHEST_RATIO = 4 / 3
"""Maximum of width over height, and of height over width. The values here are the defaults of
torchvision's ``RandomResizedCrop``, which the authors' released code uses."""
ATTEMPTS = 10


@dataclass(frozen=True)
class ScaleCropPreparation:
    """Normalises square uint8 images, and crops windows of random size out of training images.

    A window has 8 to 100 % of the area of its image, an aspect ratio of 3 : 4 to 4 : 3, and a
    random position. It is resampled to the size of the image, and mirrored with probability 0.5.
    For evaluation, the image is not cropped. (The authors' released code crops test images too.)

    Args:
        mean: mean of each channel, where white is 1.
        std: standard deviation of each channel, where white is 1.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, inputs: Tensor, generator: torch.Generator | None) -> Tensor:
        """Prepare uint8 images of shape (batch, channels, height, width). Return float32."""
        if generator is not None:
            width, height, left, top, mirrored = random_windows(len(inputs), generator)
            place = torch.zeros(len(inputs), 2, 3)
            # The coordinates of `affine_grid` run from -1 to 1.
            place[:, 0, 0] = torch.where(mirrored, -width, width)
            place[:, 0, 2] = 2 * left + width - 1
            place[:, 1, 1] = height
            place[:, 1, 2] = 2 * top + height - 1
            grid = F.affine_grid(place.to(inputs.device), list(inputs.shape), align_corners=False)
            inputs = F.grid_sample(inputs.float(), grid, padding_mode="border", align_corners=False)
        return normalise(inputs, self.mean, self.std)


def random_windows(
    count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return width, height, left, top and mirroring of `count` windows, each of shape (count,).

    Lengths are fractions of the side of an image.
    """

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device=generator.device).cpu()

    area = SMALLEST_AREA + (1.0 - SMALLEST_AREA) * uniform(count, ATTEMPTS)
    ratio = torch.exp(math.log(HIGHEST_RATIO) * (2.0 * uniform(count, ATTEMPTS) - 1.0))
    widths, heights = (area * ratio).sqrt(), (area / ratio).sqrt()
    fits = (widths <= 1.0) & (heights <= 1.0)
    first = fits.int().argmax(1, keepdim=True)
    is_whole = ~fits.any(1)  # no drawn window fits: use the whole image
    width = widths.gather(1, first).squeeze(1).masked_fill(is_whole, 1.0)
    height = heights.gather(1, first).squeeze(1).masked_fill(is_whole, 1.0)
    left, top = (1.0 - width) * uniform(count), (1.0 - height) * uniform(count)
    return width, height, left, top, uniform(count) < 0.5
