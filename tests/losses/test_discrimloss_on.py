"""DiscrimLoss on top of another loss is both used by hand, one on the other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from discrimloss import DiscrimLoss, SampleIds
from discrimloss.losses import DiscrimLossOn, EarlyLearningRegularization, GeneralizedCrossEntropy
from discrimloss.losses.base import cross_entropy

SAMPLES, CLASSES, EPOCHS = 12, 3, 4
LOGITS = 2.0 * torch.randn(SAMPLES, CLASSES, generator=torch.Generator().manual_seed(0))
TARGET = torch.arange(SAMPLES) % CLASSES


def in_steps(criterion: Any, *others: Any) -> Any:
    """Epoch after epoch, the rows of each batch."""
    for epoch in range(1, EPOCHS + 1):
        for each in (criterion, *others):
            each.set_epoch(epoch)
        yield from torch.arange(SAMPLES).split(5)


@pytest.mark.parametrize("options", [{}, {"variant": "released"}, {"threshold": 0.7}])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_on_the_task_loss(options: dict[str, Any], reduction: Any) -> None:
    on = DiscrimLossOn(SAMPLES, EPOCHS, reduction=reduction, **options)
    by_hand = DiscrimLoss(SAMPLES, EPOCHS, reduction=reduction, **options)
    for index in in_steps(on, by_hand):
        losses = cross_entropy(LOGITS[index], TARGET[index])
        expected = by_hand(losses, index)
        assert torch.equal(on(LOGITS[index], TARGET[index], index), expected)
    for name, value in by_hand.state_dict().items():
        assert torch.equal(on.state_dict()[f"criterion.{name}"], value), name


def test_on_a_loss_with_state_of_its_own() -> None:
    on = DiscrimLossOn(SAMPLES, EPOCHS, task_loss=EarlyLearningRegularization(SAMPLES, CLASSES))
    inner = EarlyLearningRegularization(SAMPLES, CLASSES, reduction="none")
    by_hand = DiscrimLoss(SAMPLES, EPOCHS)
    for index in in_steps(on, inner, by_hand):
        expected = by_hand(inner(LOGITS[index], TARGET[index], index), index)
        assert torch.equal(on(LOGITS[index], TARGET[index], index), expected)
    for name, value in inner.state_dict().items():
        assert torch.equal(on.state_dict()[f"task_loss.{name}"], value), name
    on.eval()
    assert torch.equal(on(LOGITS, TARGET), cross_entropy(LOGITS, TARGET).mean())


def test_the_gradient_passes_through_both() -> None:
    on = DiscrimLossOn(SAMPLES, EPOCHS, task_loss=GeneralizedCrossEntropy(exponent=1.0))
    logits = LOGITS.clone().requires_grad_()
    on(logits, TARGET, torch.arange(SAMPLES)).backward()
    reference = LOGITS.clone().requires_grad_()
    probability = reference.softmax(1).gather(1, TARGET[:, None]).squeeze(1)
    (0.5 * (1.0 - probability).mean()).backward()  # early suppression: 1 / 2 in the first epoch
    torch.testing.assert_close(logits.grad, reference.grad)


def test_under_another_loss_it_is_not_reduced() -> None:
    inner = DiscrimLossOn(SAMPLES, EPOCHS)
    losses = inner.unreduced(LOGITS, TARGET, torch.arange(SAMPLES))
    assert losses.shape == (SAMPLES,)
    assert inner(LOGITS, TARGET, torch.arange(SAMPLES)).shape == ()


def test_samples_may_have_names() -> None:
    on = DiscrimLossOn(epochs=EPOCHS, ids=SampleIds(), task_loss=nn.MSELoss(reduction="none"))
    predictions, target = torch.tensor([1.0, 3.0]), torch.tensor([1.0, 1.0])
    assert float(on(predictions, target, ["a", "b"])) == pytest.approx(-1.0, abs=10)
    assert on.criterion.average_losses.tolist() == [0.0, 4.0]


def test_an_option_that_does_not_exist() -> None:
    with pytest.raises(TypeError, match="switch_gains"):
        DiscrimLossOn(SAMPLES, EPOCHS, switch_gains=0.1)
