"""CORES2: the schedule against its published form, the loss and the sieve in a loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from discrimloss.losses import CORES


def test_the_schedules_of_the_authors() -> None:
    published = np.concatenate([np.zeros(10), np.linspace(0, 2, 30), np.full(60, 2.0)])
    criterion = CORES(2, 2, epochs=100)
    betas = []
    for epoch in range(1, 101):
        criterion.set_epoch(epoch)
        betas.append(criterion.current_beta)
    assert betas == pytest.approx(published.tolist())
    assert criterion.last_unsieved_epoch == 31  # their epochs 0 to 30 take all samples


def test_the_loss_in_a_loop() -> None:
    criterion = CORES(6, 3, epochs=10, beta=0.5, begin=0.0, end=0.0, sieve_from=0.0)
    logits = torch.randn(6, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    target = torch.tensor([0, 0, 0, 1, 2, 1])
    criterion.set_targets(target)
    frequency = [3 / 6, 2 / 6, 1 / 6]
    for epoch in (1, 2, 3):  # the sieve begins in the second
        criterion.set_epoch(epoch)
        loss = criterion(logits, target, torch.arange(6))
        kept, passed = [], []
        for row in range(6):
            of_classes = [-math.log(p + 1e-8) for p in logits[row].softmax(0).tolist()]
            own = of_classes[int(target[row])]
            passed.append(epoch == 1 or own <= sum(of_classes) / 3)
            if passed[-1]:
                expected = sum(f * x for f, x in zip(frequency, of_classes, strict=True))
                kept.append((own - 0.5 * expected) / 1.5)
        assert float(loss) == pytest.approx(sum(kept) / len(kept), rel=1e-6)
        counted = [int(label) for label, ok in zip(target, passed, strict=True) if ok]
        frequency = [counted.count(k) / len(counted) for k in range(3)]
    assert 0 < len(kept) < 6  # the sieve did something
    assert criterion.sample_scores().tolist() == [0.0 if ok else 1.0 for ok in passed]


def test_if_no_sample_passes_the_loss_is_zero() -> None:
    criterion = CORES(2, 2, epochs=1, sieve_from=0.0)
    criterion.last_unsieved_epoch = 0
    logits = torch.tensor([[3.0, 0.0], [0.0, 3.0]], requires_grad=True)
    loss = criterion(logits, torch.tensor([1, 0]), torch.arange(2))
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="beta must be finite and at least 0"):
        CORES(2, 2, 10, beta=-1.0)
    with pytest.raises(ValueError, match="begin, end and sieve_from must be fractions"):
        CORES(2, 2, 10, begin=0.6)
