"""A state dict in the layout of 0.1, and how the run that it was saved in continued."""

from typing import Any

import pytest
import torch
from torch import Tensor

from discrimloss import DiscrimLoss


def saved_by_0_1() -> dict[str, Tensor]:
    """Two epochs, with the losses 0.25, 4.0 and 1.0 of `a`, `b` and `c` in both."""
    return {
        "k1": torch.tensor(1.884308934211731),
        "visits_seen": torch.tensor(3),
        "first_mean_abs": torch.tensor(1.75),
        "first_mean_square": torch.tensor(5.6875),
        "past_first_epoch": torch.tensor(True),
        "epoch_count": torch.tensor(2),
        "table.history": torch.tensor([0.0475, 0.76, 0.19]),
        "table.visits": torch.tensor([2, 2, 2], dtype=torch.int16),
        "table.log_weight": torch.tensor([-0.6931471824645996, 1.3438231945037842, -0.69314718]),
        "table.learned_early": torch.tensor([-1, -1, -1], dtype=torch.int8),
    }


NAMES_OF_0_1 = {
    "ids.text": torch.tensor([115, 97, 115, 98, 115, 99], dtype=torch.uint8),  # sa, sb, sc
    "ids.ends": torch.tensor([2, 4, 6]),
}
OPTIONS_OF_0_1: dict[str, Any] = {"epochs": 4, "weight_range": (0.5, 20.0)}


def assert_continues_as_0_1(criterion: DiscrimLoss, index: Any) -> None:
    assert criterion.epoch == 2
    assert float(criterion(torch.tensor([0.5, 2.0]), index)) == pytest.approx(-0.8891772)
    assert criterion.k_dyn == pytest.approx(1.8843517)
    assert float(criterion.k1) == pytest.approx(1.8843089)
    assert criterion.sample_weights.tolist() == pytest.approx([0.5, 4.7824998, 0.5])
