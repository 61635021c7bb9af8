"""LeNet, the paper's model for MNIST."""

from __future__ import annotations

from torch import Tensor, nn

from discrimloss.models.base import TaskShape, models
from discrimloss.models.layers import TaskOutput, channels_last, image_size, images_channels_last


@models.register("lenet")
class LeNet(nn.Module):
    """LeNet: 6 and 16 channels of 5x5, ReLU, max pooling, then 120 and 84 units.

    Args:
        shape: shape of the task, with images of at least 16x16 pixels.
    """

    def __init__(self, shape: TaskShape) -> None:
        super().__init__()
        channels, height, width = image_size(shape, "lenet", smallest=16)
        # ReLU is monotonic, so ReLU after pooling gives the same result as the usual order, with a
        # quarter of the computation.
        self.network = nn.Sequential(
            nn.Conv2d(channels, 6, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(6, 16, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * side_after(height) * side_after(width), 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, shape.num_outputs),
        )
        self.output = TaskOutput(shape)
        channels_last(self)

    def forward(self, images: Tensor) -> Tensor:
        """Map (batch, channels, height, width) to (batch, classes) or (batch,)."""
        prediction: Tensor = self.output(self.network(images_channels_last(images)))
        return prediction


def side_after(side: int) -> int:
    """Return the side of the feature map after both convolutions and poolings.

    >>> side_after(28), side_after(32), side_after(16)
    (4, 5, 1)
    """
    for _ in range(2):
        side = (side - 4) // 2
    return side
