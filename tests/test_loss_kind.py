"""What kind of loss a batch has."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from discrimloss import DiscrimLoss
from discrimloss.loss_kind import kind_of_losses
from discrimloss.losses import GeneralizedCrossEntropy

GENERATOR = torch.Generator().manual_seed(0)
ROWS, LABELS = torch.randn(6, 4, generator=GENERATOR), torch.arange(6) % 3
TARGET = torch.rand(6, generator=GENERATOR)


def focal(logits: Tensor) -> Tensor:
    losses = functional.cross_entropy(logits, LABELS, reduction="none")
    return (1 - torch.exp(-losses)) ** 2 * losses


DISTANCES: dict[str, Callable[[Tensor], Tensor]] = {
    "mse": lambda out: functional.mse_loss(out[:, 0], TARGET, reduction="none"),
    "l1": lambda out: functional.l1_loss(out[:, 0], TARGET, reduction="none"),
    "huber": lambda out: functional.huber_loss(out[:, 0], TARGET, reduction="none"),
    "smooth l1": lambda out: functional.smooth_l1_loss(out[:, 0], TARGET, reduction="none"),
    "by hand": lambda out: (out[:, 0] - TARGET) ** 2,
    "by hand, absolute": lambda out: 3.0 * (out[:, 0] - TARGET).abs(),
    "two outputs": lambda out: functional.mse_loss(out, torch.ones(6, 3), reduction="none").mean(1),
}
OF_CLASSES: dict[str, Callable[[Tensor], Tensor]] = {
    "cross-entropy": lambda out: functional.cross_entropy(out, LABELS, reduction="none"),
    "smoothed": lambda out: functional.cross_entropy(
        out, LABELS, reduction="none", label_smoothing=0.1
    ),
    "soft targets": lambda out: functional.cross_entropy(
        out, functional.one_hot(LABELS, 3).float(), reduction="none"
    ),
    "binary": lambda out: functional.binary_cross_entropy_with_logits(
        out[:, 0], TARGET.round(), reduction="none"
    ),
    "nll": lambda out: functional.nll_loss(out.log_softmax(1), LABELS, reduction="none"),
    "focal": focal,
    "Brier": lambda out: functional.mse_loss(
        out.softmax(1), functional.one_hot(LABELS, 3).float(), reduction="none"
    ).sum(1),
    "generalized": lambda out: GeneralizedCrossEntropy(reduction="none")(out, LABELS),
    "of sequences": lambda out: functional.cross_entropy(
        out.view(2, 3, 3).transpose(1, 2), LABELS.view(2, 3), reduction="none"
    ).mean(1),
}


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_of_regression_targets(name: str) -> None:
    assert kind_of_losses(DISTANCES[name](torch.nn.Linear(4, 3)(ROWS))) == "distances"


@pytest.mark.parametrize("name", OF_CLASSES)
def test_losses_of_classes(name: str) -> None:
    assert kind_of_losses(OF_CLASSES[name](torch.nn.Linear(4, 3)(ROWS))) == "other"


@pytest.mark.parametrize("weight", [(1.0, 1.0, 5.0), (2.0, 2.0, 2.0)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_class_weights(weight: tuple[float, ...], smoothing: float) -> None:
    losses = functional.cross_entropy(
        torch.nn.Linear(4, 3)(ROWS),
        LABELS,
        weight=torch.tensor(weight),
        reduction="none",
        label_smoothing=smoothing,
    )
    assert kind_of_losses(losses) == ("other" if len(set(weight)) == 1 else "weighted")


def test_weights_of_the_positive_class() -> None:
    outputs, positive = torch.nn.Linear(4, 3)(ROWS), torch.tensor([1.0, 4.0, 1.0])
    target = functional.one_hot(LABELS, 3).float()
    losses = functional.binary_cross_entropy_with_logits(
        outputs, target, pos_weight=positive, reduction="none"
    )
    assert kind_of_losses(losses.mean(1)) == "weighted"


def test_nothing_is_known_of_losses_without_a_gradient() -> None:
    assert kind_of_losses(torch.rand(3)) == "other"


def test_the_criterion_notes_and_saves_the_kind_of_the_first_losses() -> None:
    outputs = torch.nn.Linear(4, 3)(ROWS)
    criterion = DiscrimLoss(6, epochs=3)
    kinds = []
    for losses in (torch.rand(6), DISTANCES["mse"](outputs), OF_CLASSES["nll"](outputs)):
        criterion(losses, torch.arange(6))
        kinds.append(criterion.watch.loss_kind)
    assert kinds == [None, "distances", "distances"]
    resumed = DiscrimLoss(6, epochs=3)
    resumed.load_state_dict(criterion.state_dict())
    assert resumed.watch.loss_kind == "distances"
