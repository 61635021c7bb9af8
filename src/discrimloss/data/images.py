"""Images: many in memory or in files, and a batch made ready on the training device.

>>> import torch
>>> from discrimloss.data.images import ImagePreparation
>>> prepare = ImagePreparation(mean=(0.5,), std=(0.5,), padding=4, flip=True)
>>> images = torch.full((2, 1, 28, 28), 255, dtype=torch.uint8)
>>> prepare(images, generator=None).unique()
tensor([1.])
>>> prepare(images, torch.Generator().manual_seed(0)).shape
torch.Size([2, 1, 28, 28])
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from discrimloss.data.decoding import decode_square


def crop_each(
    images: Tensor, top: Tensor, left: Tensor, mirrored: Tensor, height: int, width: int
) -> Tensor:
    """A window out of each image, each at a place of its own.

    Args:
        images: shape (batch, channels, at least `height`, at least `width`), any dtype.
        top: shape (batch,): the first row of each window.
        left: shape (batch,): its first column.
        mirrored: shape (batch,), bool: whether left and right of the window change places.
        height: of the windows.
        width: of the windows.

    Returns:
        Shape (batch, channels, `height`, `width`).
    """
    batch, channels = images.shape[:2]
    column = torch.arange(width, device=images.device)
    columns = left[:, None] + torch.where(mirrored[:, None], width - 1 - column, column)
    rows = top[:, None] + torch.arange(height, device=images.device)
    pixels = rows[:, :, None] * images.shape[3] + columns[:, None, :]
    # All channels share one index: building it costs more than reading the pixels.
    index = pixels.view(batch, 1, height * width).expand(-1, channels, -1)
    return images.flatten(2).gather(2, index).view(batch, channels, height, width)


def normalise(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """From 0…255 to numbers around 0, channel by channel.

    Args:
        images: shape (batch, channels, height, width), uint8.
        mean: of each channel, where white is 1.
        std: standard deviation of each channel, where white is 1.

    Returns:
        Same shape, float32, with the channels last in memory: convolutions are faster so, by an
        eighth to a quarter for small networks on a CPU.
    """
    scale = torch.tensor([1 / (255 * s) for s in std], device=images.device)[:, None, None]
    shift = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)], device=images.device)
    # Written in place: three passes over the floats, but one allocation.
    prepared = images.float().mul_(scale).add_(shift[:, None, None])
    return prepared.to(memory_format=torch.channels_last)


@dataclass(frozen=True)
class ImagePreparation:
    """Makes uint8 images ready for a model, and augments them for training, each by itself.

    For training each image gets a border of black pixels, then a window at a random place is cut
    out, half of the windows are mirrored, and all are normalised. For evaluation the window is in
    the middle and nothing is mirrored. The same generator state gives the same images.

    Args:
        mean: of each channel, where white is 1.
        std: standard deviation of each channel, where white is 1.
        size: side of the window; None for windows as large as the images.
        padding: width of the border.
        flip: whether to mirror.
        augment: without it, training images are prepared as those for evaluation are.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: int | None = None
    padding: int = 0
    flip: bool = False
    augment: bool = True

    def __call__(self, inputs: Tensor, generator: torch.Generator | None) -> Tensor:
        """Shape (batch, channels, height, width), float32; `inputs` likewise, uint8."""
        height, width = inputs.shape[2:] if self.size is None else (self.size, self.size)
        if generator is None or not self.augment:
            images = _middle(inputs, height, width)
        else:
            images = self._random_windows(inputs, height, width, generator)
        return normalise(images, self.mean, self.std)

    def _random_windows(
        self, images: Tensor, height: int, width: int, generator: torch.Generator
    ) -> Tensor:
        room_above = images.shape[2] + 2 * self.padding - height
        room_left = images.shape[3] + 2 * self.padding - width
        if not (room_above or room_left or self.flip):
            return images
        # Drawn where the generator lives, so that a CPU's generator gives a GPU the same images.
        shape, source = (len(images),), generator.device
        drawn = torch.stack(
            [
                torch.randint(room_above + 1, shape, generator=generator, device=source),
                torch.randint(room_left + 1, shape, generator=generator, device=source),
                torch.randint(1 + self.flip, shape, generator=generator, device=source),
            ]
        )
        top, left, mirrored = drawn.to(images.device, non_blocking=True)
        padded = F.pad(images, (self.padding,) * 4) if self.padding else images
        return crop_each(padded, top, left, mirrored.bool(), height, width)


def _middle(images: Tensor, height: int, width: int) -> Tensor:
    top, left = (images.shape[2] - height) // 2, (images.shape[3] - width) // 2
    return images[:, :, top : top + height, left : left + width]


@dataclass(frozen=True)
class ImageFiles:
    """Inputs that are image files, decoded when they are asked for: worker processes do that.

    Args:
        folder: where the files lie.
        names: one per sample, below `folder`.
        size: side of the square that each image is cut to, see `decode_square`.
    """

    folder: Path
    names: tuple[str, ...]
    size: int
    in_memory: bool = False

    def __len__(self) -> int:
        return len(self.names)

    def rows(self, index: Tensor) -> Tensor:
        """Shape (len(index), 3, size, size), uint8. A `DataError` names a file it cannot read."""
        batch = torch.empty((len(index), 3, self.size, self.size), dtype=torch.uint8)
        for row, sample in enumerate(index.tolist()):
            batch[row] = decode_square(self.folder / self.names[sample], self.size)
        return batch

    def select(self, index: Tensor) -> ImageFiles:
        """Only these samples, in this order."""
        names = tuple(self.names[sample] for sample in index.tolist())
        return ImageFiles(self.folder, names, self.size, self.in_memory)


@dataclass(frozen=True)
class SharedRows:
    """Some rows of one tensor, which the parts of a dataset share and nobody copies.

    Args:
        tensor: all samples; may be a file mapped into memory.
        index: shape (samples,): which of its rows these are.
    """

    tensor: Tensor
    index: Tensor
    in_memory: bool = True

    def __len__(self) -> int:
        return len(self.index)

    def rows(self, index: Tensor) -> Tensor:
        """Shape (len(index), ...)."""
        return self.tensor.index_select(0, self.index.index_select(0, index))

    def select(self, index: Tensor) -> SharedRows:
        """Only these samples, in this order."""
        return SharedRows(self.tensor, self.index[index], self.in_memory)
