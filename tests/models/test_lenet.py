"""LeNet by the book, and on other image sizes."""

import pytest
import torch
from torch.nn import functional as F

from discrimloss.models import TaskShape
from discrimloss.models.lenet import LeNet


def test_it_has_the_published_number_of_parameters():
    # 156 + 2416 + 30840 + 10164 + 850
    model = LeNet(TaskShape((1, 28, 28), 10))
    assert sum(parameter.numel() for parameter in model.parameters()) == 44_426


def test_relu_after_pooling_gives_what_relu_before_it_gives():
    model = LeNet(TaskShape((1, 28, 28), 10))
    weights = dict(model.network.named_parameters())
    images = torch.randn(3, 1, 28, 28, generator=torch.Generator().manual_seed(1))

    x = F.max_pool2d(F.relu(F.conv2d(images, weights["0.weight"], weights["0.bias"])), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, weights["3.weight"], weights["3.bias"])), 2).flatten(1)
    x = F.relu(F.linear(x, weights["7.weight"], weights["7.bias"]))
    x = F.relu(F.linear(x, weights["9.weight"], weights["9.bias"]))
    expected = F.linear(x, weights["11.weight"], weights["11.bias"])

    torch.testing.assert_close(model(images), expected)


@pytest.mark.parametrize("size", [(1, 16, 16), (3, 32, 32), (2, 17, 40)])
def test_other_image_sizes(size):
    assert LeNet(TaskShape(size, 5))(torch.zeros(2, *size)).shape == (2, 5)


def test_images_that_would_vanish_are_refused():
    with pytest.raises(ValueError, match=r"at least 16 x 16 pixels.*\(1, 15, 28\)"):
        LeNet(TaskShape((1, 15, 28), 10))
