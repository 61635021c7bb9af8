"""One hidden layer, worked out by hand."""

import torch

from discrimloss.models import TaskShape
from discrimloss.models.mlp import MLP


def test_it_is_one_hidden_layer_with_relu():
    model = MLP(TaskShape((3,), 2), hidden=5)
    first, _, second = list(model.network)[1:]
    features = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    hidden = (features @ first.weight.T + first.bias).clamp(min=0)
    torch.testing.assert_close(model(features), hidden @ second.weight.T + second.bias)
    assert hidden.shape == (4, 5)


def test_the_hidden_layer_has_256_units_unless_told_otherwise():
    model = MLP(TaskShape((64,), 10))
    expected = 64 * 256 + 256 + 256 * 10 + 10
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_images_are_flattened():
    assert MLP(TaskShape((1, 8, 8), 10))(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
