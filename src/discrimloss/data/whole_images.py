"""Image files of any shape, and windows at any position in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from discrimloss.data.images import crop_each, decode_whole, normalise

Images = dict[str, Tensor]
"""A batch of images of different sizes, padded to a common size on the right and at the bottom:
``pixels``, shape (batch, 3, max height, max width), uint8, and the ``height`` and ``width`` of each
image, shape (batch,)."""


@dataclass(frozen=True)
class WholeImageFiles:
    """Inputs that are image files, decoded without cropping when a batch needs them.

    Args:
        folder: folder with the files.
        names: paths in `folder`, one per sample.
        size: length of the shorter side of each image after scaling.
    """

    folder: Path
    names: tuple[str, ...]
    size: int
    in_memory: bool = False

    def __len__(self) -> int:
        return len(self.names)

    def rows(self, index: Tensor) -> Images:
        """Return the images of some samples. Raise a `DataError` that names an unreadable file."""
        images = [decode_whole(self.folder / self.names[i], self.size) for i in index.tolist()]
        height = torch.tensor([image.shape[1] for image in images], dtype=torch.int64)
        width = torch.tensor([image.shape[2] for image in images], dtype=torch.int64)
        largest = (int(height.amax()), int(width.amax())) if images else (self.size, self.size)
        pixels = torch.zeros((len(images), 3, *largest), dtype=torch.uint8)
        for row, image in enumerate(images):
            pixels[row, :, : image.shape[1], : image.shape[2]] = image
        return {"pixels": pixels, "height": height, "width": width}

    def select(self, index: Tensor) -> WholeImageFiles:
        """Return only these samples, in this order."""
        names = tuple(self.names[sample] for sample in index.tolist())
        return WholeImageFiles(self.folder, names, self.size, self.in_memory)


@dataclass(frozen=True)
class WindowPreparation:
    """Cuts a square window out of each image and normalises it.

    For training, the window has a random position and is mirrored with probability 0.5. For
    evaluation, it is centred.

    Args:
        mean: of each channel, where white is 1.
        std: standard deviation of each channel, where white is 1.
        size: side of the window. No image may be smaller.
        augment: whether to augment training images. Otherwise they are prepared as for evaluation.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: int
    augment: bool = True

    def __call__(self, inputs: Images, generator: torch.Generator | None) -> Tensor:
        """Return the windows, shape (batch, 3, size, size), float32."""
        pixels = inputs["pixels"]
        room = torch.stack([inputs["height"], inputs["width"]]) - self.size
        if generator is None or not self.augment:
            place = room // 2
            mirrored = torch.zeros(len(pixels), dtype=torch.bool, device=pixels.device)
        else:
            # Drawn on the generator's device: a CPU generator gives the same on any device.
            drawn = torch.rand(3, len(pixels), generator=generator, device=generator.device)
            drawn = drawn.to(pixels.device, non_blocking=True)
            place = (drawn[:2] * (room + 1)).long().minimum(room)
            mirrored = drawn[2] < 0.5
        windows = crop_each(pixels, place[0], place[1], mirrored, self.size, self.size)
        return normalise(windows, self.mean, self.std)
