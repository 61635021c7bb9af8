"""Wide residual networks, the paper's model for CIFAR."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from discrimloss.models.base import TaskShape, models
from discrimloss.models.layers import TaskOutput, channels_last, image_size, images_channels_last


@models.register("wide_resnet")
class WideResNet(nn.Module):
    """WideResNet (Zagoruyko and Komodakis, 2016), by default WRN-28-10.

    It has three groups of (depth - 4) / 6 blocks, with 16, 32 and 64 channels times the width. As
    in its authors' code, the weights start from He's normal distribution with fan-out, and
    convolutions have no bias.

    Args:
        shape: shape of the task, with images of any size. The publication uses 32x32 pixels.
        depth: number of layers, 6n + 4, e.g. 16, 22, 28 or 40.
        width: factor on the number of channels.
        dropout: fraction of activations that are dropped between the convolutions of a block.
        form: ``"published"``, or ``"released"`` for the network in the released code of
            DiscrimLoss. There, convolutions have biases and torch's initial weights, the second
            convolution of a block has the stride, a projection starts from the input of the block,
            and the last normalization has momentum 0.9.
    """

    def __init__(
        self,
        shape: TaskShape,
        *,
        depth: int = 28,
        width: int = 10,
        dropout: float = 0.0,
        form: Literal["published", "released"] = "published",
    ) -> None:
        super().__init__()
        image_channels, _, _ = image_size(shape, "wide_resnet")
        blocks = blocks_per_group(depth)
        if width < 1:
            raise ValueError(f"the width of a wide_resnet must be at least 1, not {width}")
        channels, released = 16, form == "released"
        first = nn.Conv2d(image_channels, channels, 3, padding=1, bias=released)
        layers: list[nn.Module] = [first]
        for group in range(3):
            for block in range(blocks):
                wider = 16 * 2**group * width
                stride = 2 if group > 0 and block == 0 else 1
                layers.append(WideBlock(channels, wider, stride, dropout, released=released))
                channels = wider
        last = nn.BatchNorm2d(channels, momentum=0.9 if released else 0.1)
        layers += [last, nn.ReLU(inplace=True)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(channels, shape.num_outputs)
        self.output = TaskOutput(shape)
        if not released:
            for module in self.modules():
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(self.head.bias)
        channels_last(self)

    def forward(self, images: Tensor) -> Tensor:
        """Map (batch, channels, height, width) to (batch, classes) or (batch,)."""
        pooled = self.features(images_channels_last(images)).mean((2, 3))
        prediction: Tensor = self.output(self.head(pooled))
        return prediction


class WideBlock(nn.Module):
    """Two 3x3 convolutions, each after a normalization and a ReLU, with a shortcut."""

    def __init__(
        self, channels: int, wider: int, stride: int, dropout: float, *, released: bool
    ) -> None:
        super().__init__()
        self.released = released
        strides = (1, stride) if released else (stride, 1)
        self.normalization1 = nn.BatchNorm2d(channels)
        self.convolution1 = nn.Conv2d(channels, wider, 3, strides[0], padding=1, bias=released)
        self.normalization2 = nn.BatchNorm2d(wider)
        self.dropout = nn.Dropout(dropout)
        self.convolution2 = nn.Conv2d(wider, wider, 3, strides[1], padding=1, bias=released)
        self.projection = (
            nn.Conv2d(channels, wider, 1, stride=stride, bias=released)
            if channels != wider or stride != 1
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map to `wider` channels, with height and width divided by the stride."""
        active = F.relu(self.normalization1(x), inplace=True)
        # In the publication, a projection starts from the normalized activations.
        shortcut = x
        if self.projection is not None:
            shortcut = self.projection(x if self.released else active)
        hidden = F.relu(self.normalization2(self.convolution1(active)), inplace=True)
        change: Tensor = self.convolution2(self.dropout(hidden))
        return shortcut + change


def blocks_per_group(depth: int) -> int:
    """Return the number of blocks in each of the three groups, for this depth.

    >>> blocks_per_group(28)
    4
    """
    blocks, rest = divmod(depth - 4, 6)
    if blocks < 1 or rest:
        raise ValueError(
            f"the depth of a wide_resnet must be 6n + 4 (10, 16, 22, 28, 34, 40, …), not {depth}"
        )
    return blocks
