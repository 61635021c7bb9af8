"""Learned temperatures against a naive loop over the paper's equations."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from discrimloss.losses import DataParameters
from discrimloss.losses.base import cross_entropy
from discrimloss.losses.data_parameters import temperature_gradients

CLASSES, SAMPLES = 3, 5
TARGET = torch.tensor([0, 2, 1, 1, 0])
LOWEST, HIGHEST = 0.7, 1.5
Whose = Literal["class", "instance", "both"]


def data_parameters(**options: Any) -> DataParameters:
    return DataParameters(SAMPLES, CLASSES, **options)


def batch(logits: Tensor, index: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    rows = torch.tensor(index)
    return logits, TARGET[rows], rows


class Naive:
    """One kind of temperatures, its logarithms in a list, moved row by row."""

    def __init__(self, number: int, start: float, rate: float, decay: float) -> None:
        self.log = [math.log(start)] * number
        self.velocity = [0.0] * number
        self.rate, self.decay = rate, decay

    def move(self, where: list[int], slopes: list[float]) -> None:
        for number in sorted(set(where)):
            s = self.log[number]
            rows = [row for row, other in enumerate(where) if other == number]
            total = sum(slopes[row] * math.exp(s) + self.decay * s for row in rows)
            self.velocity[number] = 0.9 * self.velocity[number] + total
            moved = s - self.rate * self.velocity[number]
            self.log[number] = min(max(moved, math.log(LOWEST)), math.log(HIGHEST))


@pytest.mark.parametrize("whose", ["class", "instance", "both"])
def test_several_steps(whose: Whose) -> None:
    # Bounds so close, and steps so long, that some temperatures run into them.
    criterion = data_parameters(
        parameters=whose,
        instance_lr=1.5,
        instance_weight_decay=0.05,
        class_lr=0.3,
        class_weight_decay=0.02,
        temperature_range=(LOWEST, HIGHEST),
    )
    start = LOWEST if whose == "both" else 1.0
    classes, instances = Naive(CLASSES, 1.0, 0.3, 0.02), Naive(SAMPLES, start, 1.5, 0.05)
    generator = torch.Generator().manual_seed(3)
    seen = set()
    for index in ([0, 1, 2], [3, 1], [0, 3, 2, 1], [2, 1, 3, 0], [1, 2]):
        logits = 2.0 * torch.randn(len(index), CLASSES, generator=generator)
        loss = criterion(*batch(logits, index))
        labels = TARGET[index].tolist()
        total, slopes = 0.0, []
        for row, (sample, label) in enumerate(zip(index, labels, strict=True)):
            sigma = 0.0
            if whose != "instance":
                sigma += math.exp(classes.log[label])
            if whose != "class":
                sigma += math.exp(instances.log[sample])
            z = logits[row].tolist()
            powers = [math.exp(value / sigma) for value in z]
            p = [power / sum(powers) for power in powers]
            total -= math.log(p[label])
            mean_logit = sum(p[c] * z[c] for c in range(CLASSES))
            slopes.append((z[label] - mean_logit) / sigma**2 / len(index))
        if whose != "instance":
            classes.move(labels, slopes)
            actual = criterion.temperatures["class"].log_sigma
            torch.testing.assert_close(actual, torch.tensor(classes.log))
        if whose != "class":
            instances.move(index, slopes)
            actual = criterion.temperatures["instance"].log_sigma
            torch.testing.assert_close(actual, torch.tensor(instances.log))
            seen |= {round(math.exp(instances.log[sample]), 6) for sample in index}
        assert float(loss) == pytest.approx(total / len(index), rel=1e-5)
    if whose == "instance":
        assert {LOWEST, HIGHEST} < seen


def test_the_closed_form_is_the_gradient() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = 4.0 * torch.randn(SAMPLES, CLASSES, generator=generator, dtype=torch.float64)
    sigma = (0.2 + torch.rand(SAMPLES, generator=generator, dtype=torch.float64)).requires_grad_()
    cross_entropy(logits / sigma[:, None], TARGET).sum().backward()
    torch.testing.assert_close(temperature_gradients(logits, TARGET, sigma.detach()), sigma.grad)


def test_by_hand() -> None:
    # Two classes at play, z = (2, 0, -inf-like), sigma 1: p = 1 / (1 + e^-2) = 0.8807970780.
    logits = torch.tensor([[2.0, 0.0, -99.0], [2.0, 0.0, -99.0]])
    sigma = torch.ones(2)
    slopes = temperature_gradients(logits, torch.tensor([0, 1]), sigma)
    # 2 - 2 p = 0.2384058440 and 0 - 2 p = -1.7615941560
    torch.testing.assert_close(slopes, torch.tensor([0.2384058440, -1.7615941560]))

    criterion = data_parameters()
    criterion(*batch(logits, [0, 2]))  # labels 0 and 1
    # log sigma = -lr * slope / 2, with lr = 0.2
    expected = torch.tensor([-0.0238405844, 0.0, 0.1761594156, 0.0, 0.0])
    torch.testing.assert_close(criterion.temperatures["instance"].log_sigma, expected)


def test_only_what_is_in_the_batch_moves() -> None:
    criterion = data_parameters(
        parameters="both", instance_weight_decay=0.1, class_weight_decay=0.1
    )
    logits = torch.tensor([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]])
    criterion(*batch(logits, [0, 1]))  # labels 0 and 2
    before = {name: value.clone() for name, value in criterion.temperatures.state_dict().items()}
    criterion(*batch(logits[:1], [0]))
    for name, value in criterion.temperatures.state_dict().items():
        if name.endswith(("log_sigma", "velocity")):  # momentum and decay rest, too
            unmoved = [row for row in range(len(value)) if row != 0]
            assert torch.equal(value[unmoved], before[name][unmoved]), name
    assert not torch.equal(criterion.temperatures["class"].velocity, before["class.velocity"])


def test_the_network_learns_less_from_a_hot_sample() -> None:
    logits = torch.tensor([[0.0, 2.0, 0.0]])  # the label is 0
    gradients = []
    for log_sigma in (0.0, math.log(10.0)):
        criterion = data_parameters()
        criterion.temperatures["instance"].log_sigma[0] = log_sigma
        inputs = logits.clone().requires_grad_()
        criterion(*batch(inputs, [0])).backward()
        assert inputs.grad is not None
        gradients.append(inputs.grad.norm())
    assert gradients[1] < gradients[0] / 5


def test_the_score_is_the_instance_temperature() -> None:
    criterion = data_parameters()
    answers = torch.tensor([[3.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
    for _ in range(5):
        criterion(*batch(answers, [0, 1]))  # right about label 0, wrong about label 2
    scores = criterion.sample_scores()
    assert scores is not None
    assert scores[0] < 1.0 < scores[1]
    assert scores[2:].isnan().all()
    log_values = criterion.log_values()
    assert log_values["highest_instance_temperature"] == scores[1].item()
    assert log_values["mean_instance_temperature"] == pytest.approx(
        (scores[0].item() + scores[1].item() + 3.0) / 5
    )
    assert data_parameters(parameters="class").sample_scores() is None


def test_a_sample_that_is_twice_in_a_batch_moves_by_both() -> None:
    criterion = data_parameters(instance_lr=1.0)
    logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    criterion(*batch(logits, [4, 4]))
    slopes = temperature_gradients(logits, TARGET[[4, 4]], torch.ones(2))
    moved = criterion.temperatures["instance"].log_sigma[4]
    torch.testing.assert_close(moved, -slopes.sum() / 2)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"parameters": "all"}, "parameters must be"),
        ({"instance_lr": -0.1}, "instance_lr"),
        ({"class_weight_decay": math.inf}, "class_weight_decay"),
        ({"momentum": 1.0}, "momentum"),
        ({"temperature_range": (0.0, 20.0)}, "temperature_range"),
        ({"temperature_range": (2.0, 20.0)}, "temperature_range"),
        ({"temperature_range": (0.1, 0.5)}, "temperature_range"),
    ],
)
def test_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        data_parameters(**options)


def test_it_says_which_size_it_needs() -> None:
    with pytest.raises(ValueError, match="need num_samples"):
        DataParameters(num_classes=CLASSES)
    with pytest.raises(ValueError, match="need num_classes"):
        DataParameters(SAMPLES, parameters="both")
    of_classes = DataParameters(num_classes=CLASSES, parameters="class")
    assert of_classes(torch.zeros(2, CLASSES), TARGET[:2]).isfinite()  # without an index


def test_hyperparameters() -> None:
    assert data_parameters().hyperparameters() == {
        "parameters": "instance",
        "instance_lr": 0.2,
        "instance_weight_decay": 0.0,
        "momentum": 0.9,
        "temperature_range": (0.05, 20.0),
    }
    both = data_parameters(parameters="both").hyperparameters()
    assert (both["class_lr"], both["class_weight_decay"]) == (0.1, 1e-4)
    assert (both["instance_lr"], both["instance_weight_decay"]) == (0.8, 1e-8)


def test_both_start_at_the_lowest_temperature_of_the_authors() -> None:
    criterion = data_parameters(parameters="both")
    instances = criterion.temperatures["instance"](torch.arange(SAMPLES))
    assert instances.tolist() == pytest.approx([0.05] * SAMPLES)
    # The first loss divides the logits by 1 + 0.05.
    loss = criterion(torch.tensor([[2.1, 0.0, 0.0]]), torch.tensor([0]), torch.tensor([0]))
    assert float(loss) == pytest.approx(math.log(1 + 2 * math.exp(-2)))
