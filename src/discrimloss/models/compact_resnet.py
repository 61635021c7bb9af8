"""A small residual network for two CPU cores."""

from __future__ import annotations

from torch import Tensor, nn

from discrimloss.models.base import TaskShape, models
from discrimloss.models.layers import TaskOutput, channels_last, image_size, images_channels_last


@models.register("compact_resnet")
class CompactResNet(nn.Module):
    """A ResNet of 8 convolutions for small images, made for CPUs.

    Three 3x3 convolutions increase the number of channels, each followed by pooling. So most of the
    computation is on few pixels and many channels, where a CPU is fast. A residual block follows
    the second and the third convolution. Global max pooling precedes the linear head.

    Args:
        shape: shape of the task, with images of at least 8x8 pixels.
        width: number of channels of the first convolution. Later ones have 2 and 4 times as many.
    """

    def __init__(self, shape: TaskShape, *, width: int = 32) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width must be 1 or more, not {width}")
        image_channels, _, _ = image_size(shape, "compact_resnet", smallest=8)
        self.features = nn.Sequential(
            halved(image_channels, width),
            halved(width, 2 * width),
            ResidualBlock(2 * width),
            halved(2 * width, 4 * width),
            ResidualBlock(4 * width),
        )
        self.head = nn.Linear(4 * width, shape.num_outputs)
        self.output = TaskOutput(shape)
        channels_last(self)

    def forward(self, images: Tensor) -> Tensor:
        """Map (batch, channels, height, width) to (batch, classes) or (batch,)."""
        pooled = self.features(images_channels_last(images)).amax((2, 3))
        prediction: Tensor = self.output(self.head(pooled))
        return prediction


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with an identity shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.change = nn.Sequential(
            *(convolution(channels, channels), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)),
            *(convolution(channels, channels), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block, which keeps the shape (batch, channels, height, width)."""
        change: Tensor = self.change(x)
        return x + change


def halved(channels: int, wider: int) -> nn.Sequential:
    """Increase the channels and halve the number of rows and columns.

    Pooling comes before normalization and ReLU, which then process a quarter of the pixels. Outside
    of convolutions, memory access takes most of a CPU's time.
    """
    return nn.Sequential(
        convolution(channels, wider),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(wider),
        nn.ReLU(inplace=True),
    )


def convolution(channels: int, wider: int) -> nn.Conv2d:
    """Return a 3x3 convolution without a bias: the normalization after it would remove the bias."""
    return nn.Conv2d(channels, wider, 3, padding=1, bias=False)
