"""WideResNet against what is published about it."""

import math

import pytest
import torch
from torch import nn

from discrimloss.models import TaskShape
from discrimloss.models.wide_resnet import WideResNet


def number_of_parameters(num_classes: int, **options) -> int:
    with torch.device("meta"):
        model = WideResNet(TaskShape((3, 32, 32), num_classes), **options)
    return sum(parameter.numel() for parameter in model.parameters())


def test_28_10_has_the_published_number_of_parameters():
    assert number_of_parameters(10) == 36_479_194  # "36.5M"
    assert number_of_parameters(100) == 36_479_194 + 90 * 641


@pytest.mark.parametrize(
    ("depth", "width", "millions"), [(40, 4, 8.9), (16, 8, 11.0), (22, 8, 17.2), (16, 10, 17.1)]
)
def test_other_sizes_have_the_published_number_of_parameters(depth, width, millions):
    assert number_of_parameters(10, depth=depth, width=width) / 1e6 == pytest.approx(
        millions, abs=0.06
    )


def test_resolution_falls_by_four_and_convolutions_are_as_many_as_the_depth_says():
    model = WideResNet(TaskShape((3, 32, 32), 10), depth=16, width=1)
    assert model.features(torch.zeros(1, 3, 32, 32)).shape == (1, 64, 8, 8)
    kernels = [m.kernel_size for m in model.modules() if isinstance(m, nn.Conv2d)]
    # The published depth counts two projections, which stand beside, and the head.
    assert kernels.count((3, 3)) == 16 - 3
    assert kernels.count((1, 1)) == 2


def test_weights_start_with_he_s_spread():
    model = WideResNet(TaskShape((3, 32, 32), 10), depth=10, width=4)
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 10_000:
            outputs = module.out_channels * math.prod(module.kernel_size)
            spread = float(module.weight.detach().std())
            assert spread == pytest.approx(math.sqrt(2 / outputs), rel=0.05)
    assert not model.head.bias.any()


def test_dropout_acts_in_training_only():
    model = WideResNet(TaskShape((3, 16, 16), 4), depth=10, width=1, dropout=0.5)
    images = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    assert not torch.equal(model(images), model(images))
    model.eval()
    assert torch.equal(model(images), model(images))


@pytest.mark.parametrize("depth", [4, 27, 30, -2])
def test_a_depth_that_does_not_exist_is_refused(depth):
    with pytest.raises(ValueError, match=rf"must be 6n \+ 4 .*28.*, not {depth}"):
        WideResNet(TaskShape((3, 32, 32), 10), depth=depth)


def test_a_width_of_nothing_is_refused():
    with pytest.raises(ValueError, match="width of a wide_resnet must be at least 1, not 0"):
        WideResNet(TaskShape((3, 32, 32), 10), width=0)


def test_the_released_form_by_hand():
    torch.manual_seed(0)
    model = WideResNet(TaskShape((3, 8, 8), 10), depth=10, width=1, form="released").eval()
    first, *blocks, last, _ = model.features
    assert all(layer.bias is not None for layer in model.modules() if isinstance(layer, nn.Conv2d))
    assert (last.momentum, blocks[0].normalization1.momentum) == (0.9, 0.1)
    block = blocks[1]
    assert (block.convolution1.stride, block.convolution2.stride) == ((1, 1), (2, 2))
    x = torch.randn(2, 16, 8, 8)
    hidden = block.convolution1(block.normalization1(x).relu())
    wanted = block.convolution2(block.normalization2(hidden).relu()) + block.projection(x)
    assert torch.allclose(block(x), wanted, atol=1e-6)
    spread = float(first.weight.detach().std())  # torch's default is uniform up to 1 / sqrt(inputs)
    assert spread == pytest.approx(1 / math.sqrt(3 * 9) / math.sqrt(3), rel=0.1)
