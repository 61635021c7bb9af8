"""Peer loss: the schedule against its published form, the loss in a loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from discrimloss.losses import PeerLoss
from discrimloss.losses.peer_loss import risen_weight


def test_the_schedule_of_the_authors() -> None:
    published = np.concatenate([np.zeros(20), np.linspace(0, 1, 20), np.ones(260)])
    ours = [risen_weight(epoch, 300, 1.0, 20 / 300, 40 / 300) for epoch in range(1, 301)]
    assert ours == pytest.approx(published.tolist())


def test_before_the_rise_it_is_cross_entropy() -> None:
    criterion = PeerLoss(2, epochs=30)
    loss = criterion(torch.zeros(2, 4), torch.tensor([0, 1]), torch.arange(2))
    assert float(loss) == pytest.approx(-math.log(0.25 + 1e-5))


def test_the_loss_in_a_loop() -> None:
    criterion = PeerLoss(5, epochs=4, peer_weight=2.0, begin=0.0, end=0.0, reduction="none")
    criterion.set_epoch(3)
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    target, index = torch.tensor([0, 2, 1, 1, 0]), torch.tensor([3, 0, 4, 1, 2])
    losses = criterion(logits, target, index)
    in_order = [int(target[index.tolist().index(sample)]) for sample in range(5)]
    for row, sample in enumerate(index.tolist()):
        distance = 1 + int(float(criterion.draws_of_epoch[sample]) * 4)
        peer = in_order[(sample + distance) % 5]
        p = (logits[row].softmax(0) + 1e-5).tolist()
        expected = (-math.log(p[int(target[row])]) + 2 * math.log(p[peer])) / 3
        assert float(losses[row]) == pytest.approx(expected)


def test_peers_are_other_rows_and_all_of_them() -> None:
    criterion = PeerLoss(4, epochs=10)
    seen = set()
    for epoch in range(1, 60):
        criterion.set_epoch(epoch)
        peers = criterion._peer_labels(torch.arange(4), torch.arange(4)).tolist()
        seen |= set(zip(range(4), peers, strict=True))
    assert seen == {(a, b) for a in range(4) for b in range(4) if a != b}


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="peer_weight must be finite and at least 0"):
        PeerLoss(2, 10, peer_weight=-1.0)
    with pytest.raises(ValueError, match="begin and end must be fractions of the run"):
        PeerLoss(2, 10, begin=0.5, end=0.4)
