"""Self-adaptive training against a loop over samples."""

from __future__ import annotations

import math

import pytest
import torch

from discrimloss.losses import SelfAdaptiveTraining


def test_the_first_epochs_are_cross_entropy() -> None:
    criterion = SelfAdaptiveTraining(4, 2, epochs=10)  # start 0.3: epochs 1 to 3
    logits, target = torch.tensor([[1.0, 3.0], [0.0, 2.0]]), torch.tensor([0, 1])
    expected = torch.nn.functional.cross_entropy(logits, target)
    for epoch, is_plain in ((1, True), (3, True), (4, False)):
        criterion.set_epoch(epoch)
        loss = criterion(logits, target, torch.tensor([0, 1]))
        assert bool(loss == expected) is is_plain


def test_targets_and_weights_in_a_loop() -> None:
    criterion = SelfAdaptiveTraining(3, 2, epochs=10, start=0.0, target_momentum=0.9)
    soft = {0: [1.0, 0.0], 1: [0.0, 1.0], 2: [1.0, 0.0]}
    target = torch.tensor([0, 1, 0])
    generator = torch.Generator().manual_seed(3)
    for epoch in range(1, 4):
        criterion.set_epoch(epoch)
        logits = torch.randn(3, 2, generator=generator, dtype=torch.float64)
        loss = criterion(logits, target, torch.arange(3))
        weights, losses = [], []
        for row in range(3):
            p = logits[row].softmax(0).tolist()
            soft[row] = [0.9 * t + 0.1 * q for t, q in zip(soft[row], p, strict=True)]
            weights.append(max(soft[row]))
            losses.append(-sum(t * math.log(q) for t, q in zip(soft[row], p, strict=True)))
        expected = sum(w * x for w, x in zip(weights, losses, strict=True)) / sum(weights)
        assert float(loss) == pytest.approx(expected, rel=1e-6)
    scores = [1 - soft[row][int(target[row])] for row in range(3)]
    assert criterion.sample_scores().tolist() == pytest.approx(scores, abs=1e-6)


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="target_momentum must be at least 0 and below 1, not 1"):
        SelfAdaptiveTraining(3, 2, 10, target_momentum=1.0)
    with pytest.raises(ValueError, match="start must be a fraction of the run"):
        SelfAdaptiveTraining(3, 2, 10, start=1.5)
