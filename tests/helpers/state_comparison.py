"""Taking a picture of a criterion's state, and comparing two of them to the last bit."""

import torch
from torch import Tensor

from discrimloss import DiscrimLoss


def state_of(criterion: DiscrimLoss) -> dict[str, Tensor]:
    """A copy, so that later steps do not change it."""
    return {name: value.clone() for name, value in criterion.state_dict().items()}


def assert_same_state(criterion: DiscrimLoss, expected: DiscrimLoss | dict[str, Tensor]) -> None:
    if isinstance(expected, DiscrimLoss):
        assert criterion.k_dyn == expected.k_dyn
        expected = state_of(expected)
    torch.testing.assert_close(state_of(criterion), expected, rtol=0, atol=0, equal_nan=True)
