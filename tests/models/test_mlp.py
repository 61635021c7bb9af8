"""One hidden layer, worked out by hand."""

import pytest
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


def test_dropout_leaves_out_hidden_units_in_training_only():
    model = MLP(TaskShape((3,), 2), hidden=1000, dropout=0.75)
    kept = model.network[:4](torch.ones(1, 3)) / model.network[:3](torch.ones(1, 3))
    kept = kept[kept.isfinite()]
    assert set(kept.round(decimals=3).unique().tolist()) == {0.0, 4.0}
    assert 0.65 < (kept == 0).double().mean() < 0.85
    model.eval()
    assert torch.equal(model(torch.ones(1, 3)), model(torch.ones(1, 3)))


@pytest.mark.parametrize("dropout", [-0.1, 1.0])
def test_a_share_that_is_none(dropout: float):
    with pytest.raises(ValueError, match="dropout must be a fraction"):
        MLP(TaskShape((3,), 2), dropout=dropout)
