"""The default threshold: between two groups of losses, and out of the way of one."""

import pytest
import torch
from torch import Tensor

from discrimloss import DiscrimLoss

NUM_SAMPLES = 2000


def uniform(lowest: float, highest: float, number: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return lowest + (highest - lowest) * torch.rand(number, generator=generator)


def after_epochs(losses: Tensor, epochs: int = 4) -> DiscrimLoss:
    """First an epoch in which everybody loses about 2.3, then epochs with the given losses."""
    criterion = DiscrimLoss(len(losses), epochs=20, history_decay=0.0)
    everyone = torch.arange(len(losses))
    criterion(uniform(2.2, 2.4, len(losses)), everyone)
    for epoch in range(2, epochs + 1):
        criterion.set_epoch(epoch)
        criterion(losses, everyone)
    criterion.set_epoch(epochs + 1)
    return criterion


@pytest.mark.parametrize("wrong_share", [0.05, 0.4, 0.8])
def test_the_threshold_stands_between_two_groups_whatever_their_sizes(wrong_share: float) -> None:
    wrong = round(wrong_share * NUM_SAMPLES)
    losses = torch.cat([uniform(0.0, 0.4, NUM_SAMPLES - wrong), uniform(3.0, 15.0, wrong)])
    criterion = after_epochs(losses)
    assert 0.4 < float(criterion.k1) < 3.0


def test_a_long_tail_does_not_draw_the_threshold_into_it_as_the_plain_split_is_drawn() -> None:
    wrong = torch.cat([uniform(2.0, 5.0, 900), uniform(20.0, 40.0, 100)])
    losses = torch.cat([uniform(0.0, 0.4, NUM_SAMPLES - len(wrong)), wrong])
    bounded = after_epochs(losses)
    plain = DiscrimLoss(NUM_SAMPLES, epochs=20, history_decay=0.0, threshold="split")
    plain(losses, torch.arange(NUM_SAMPLES))
    plain.set_epoch(2)
    assert float(bounded.k1) < 2.0 < 5.0 < float(plain.k1)


def test_while_losses_form_one_group_the_threshold_is_at_least_their_first_scale() -> None:
    criterion = after_epochs(uniform(0.0, 2.0, NUM_SAMPLES))  # half-learned, no two groups
    assert float(criterion.k1) >= float(criterion.loss_scale) * 0.99
    assert float(criterion.loss_scale) == pytest.approx(2.3, abs=0.02)


def test_two_groups_of_small_losses_leave_the_threshold_at_half_the_scale() -> None:
    losses = torch.cat([uniform(0.0, 0.01, 1000), uniform(0.2, 0.3, 1000)])
    criterion = after_epochs(losses)
    assert float(criterion.k1) == pytest.approx(0.5 * float(criterion.loss_scale))


def test_losses_below_zero_are_split_too() -> None:
    losses = torch.cat([uniform(-1.0, -0.8, 1000), uniform(4.0, 6.0, 1000)])
    assert -0.8 < float(after_epochs(losses).k1) < 4.0
