"""Active-passive losses with probabilities whose logarithms are easy."""

from __future__ import annotations

import math

import pytest
import torch

from discrimloss.losses import ActivePassiveLoss

# log p is -2, -1, -1 times log 2
LOGITS = torch.tensor([[0.25, 0.25, 0.5]], dtype=torch.float64).log()


def test_nce_and_rce_by_hand() -> None:
    loss = ActivePassiveLoss()(LOGITS, torch.tensor([0]))
    # NCE: log 4 / (log 4 + log 4 + log 2); RCE: -log(1e-4) (1 - 0.25)
    assert float(loss) == pytest.approx(2 / 5 + 4 * math.log(10) * 0.75)


def test_nce_and_mae_by_hand() -> None:
    criterion = ActivePassiveLoss(passive="mae", active_weight=10.0, passive_weight=0.5)
    loss = criterion(LOGITS, torch.tensor([2]))
    assert float(loss) == pytest.approx(10 * 1 / 5 + 0.5 * 0.5)


def test_the_normalised_losses_of_all_classes_sum_to_one() -> None:
    criterion = ActivePassiveLoss(passive_weight=0.0, reduction="sum")
    assert float(criterion(LOGITS.expand(3, 3), torch.arange(3))) == pytest.approx(1.0)


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="passive must be 'rce' or 'mae', not 'gce'"):
        ActivePassiveLoss(passive="gce")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="active_weight and passive_weight must be finite"):
        ActivePassiveLoss(active_weight=math.inf)
