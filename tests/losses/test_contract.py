"""Every loss of `discrimloss.losses` holds to the contract, and can be imported from there."""

from __future__ import annotations

import pytest
from loss_contract import LossContract

import discrimloss.losses
from discrimloss.losses.base import IndexedLoss, loss_classes


@pytest.mark.parametrize("name", loss_classes.names())
class TestContract(LossContract):
    """In a plain loop. `tests/training/methods` tests the same losses in the harness."""


def test_every_loss_is_exported() -> None:
    exported = discrimloss.losses.__all__
    assert exported == sorted(exported)
    assert set(exported) == {loss_classes.get(name).__name__ for name in loss_classes.names()}
    assert dir(discrimloss.losses) == exported
    for name in exported:
        assert issubclass(getattr(discrimloss.losses, name), IndexedLoss)


def test_there_is_no_other_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Unknown'"):
        discrimloss.losses.Unknown  # noqa: B018
