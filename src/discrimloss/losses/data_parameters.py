"""Data parameters: a learned temperature for every class and every sample."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.losses.base import IndexedLoss, cross_entropy, loss_classes
from discrimloss.state.gathering import gather_rows

JOINT_INSTANCE_START = 0.001
"""Initial instance temperature in the authors' commands if class temperatures, which start at 1,
are learned too. The sum of both is then near 1. The authors' code clips the initial value to the
lowest temperature, 0.05."""
INSTANCE_STEPS = {"instance": (0.2, 0.0), "both": (0.8, 1e-8)}
"""Learning rate and weight decay of the instance temperatures, in the authors' commands."""


def temperature_gradients(logits: Tensor, target: Tensor, temperature: Tensor) -> Tensor:
    """Return the derivative of each cross-entropy in its temperature ``sigma``, shape (batch,).

    It is ``(z_y - sum_j p_j z_j) / sigma**2`` with ``p = softmax(z / sigma)`` and logits ``z``. If
    the network doubts a label, its logit is below the expected one, so gradient descent raises the
    temperature.
    """
    expected = (functional.softmax(logits / temperature[:, None], 1) * logits).sum(1)
    own = logits.gather(1, target[:, None]).flatten()
    return (own - expected) / temperature.square()


class Temperatures(nn.Module):
    """Positive temperatures, learned as logarithms. A step changes only those in the batch.

    They are buffers, and a step uses the closed form of the gradient. Gradients of autograd would
    cover the batch of one process only, and mixed precision could scale them.

    Args:
        number: number of temperatures.
        start: their initial value.
        learning_rate: learning rate of the logarithms.
        weight_decay: weight decay of the logarithms, towards a temperature of 1.
        momentum: momentum of the logarithms. Only temperatures in the batch update their momentum.
        bounds: lowest and highest temperature.
    """

    log_sigma: Tensor
    velocity: Tensor
    visited: Tensor

    def __init__(
        self,
        number: int,
        start: float,
        learning_rate: float,
        weight_decay: float,
        momentum: float,
        bounds: tuple[float, float],
    ) -> None:
        super().__init__()
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.momentum, self.bounds = momentum, bounds
        self.register_buffer("log_sigma", torch.full((number,), math.log(start)))
        self.register_buffer("velocity", torch.zeros(number))
        self.register_buffer("visited", torch.zeros(number, dtype=torch.bool))

    def forward(self, index: Tensor) -> Tensor:
        """Return the temperatures of the given rows, shape (batch,)."""
        return self.log_sigma[index].exp()

    def descend(self, index: Tensor, gradient: Tensor) -> None:
        """Take a step of gradient descent.

        Args:
            index: the temperature of each row of the batch.
            gradient: each row's part of the gradient of the mean loss, shape (batch,).
        """
        rows = self.log_sigma[index]
        # Decay is per row, as in the authors' code: with ten rows, a class decays ten times.
        slope = gradient.to(rows.dtype) * rows.exp() + self.weight_decay * rows
        # Rows of the batch are compared pairwise, so that the cost does not grow with the data.
        total = (index[:, None] == index).to(slope.dtype) @ slope
        self.velocity[index] = velocity = self.momentum * self.velocity[index] + total
        lowest, highest = map(math.log, self.bounds)
        self.log_sigma[index] = (rows - self.learning_rate * velocity).clamp(lowest, highest)
        self.visited[index] = True

    def values(self) -> Tensor:
        """Return all temperatures, shape (number,). NaN for those that were never in a batch."""
        return self.log_sigma.exp().masked_fill(~self.visited, torch.nan)


@loss_classes.register("data_parameters")
class DataParameters(IndexedLoss):
    """Learned temperatures of classes and samples on the logits (Saxena et al. 2019).

    The loss is the cross-entropy of ``logits / sigma``. A high temperature flattens the softmax and
    so reduces the sample's gradient. ``sigma`` is the temperature of the class, of the sample, or
    the sum of both. It follows the gradient of the same mean loss. The paper gives the gradient in
    ``sigma``. Here ``log sigma`` is learned at a constant rate, as in the authors' released code.
    Evaluation uses no temperature. The authors stop noisy runs at epoch 84 of 120, chosen by
    cross-validation; here a run continues to the last epoch.

    Args:
        num_samples: size of the training set. Needed for temperatures of samples.
        num_classes: number of classes. Needed for temperatures of classes.
        parameters: which temperatures to learn: "instance", "class" or "both". The paper uses
            "instance" in its experiment with noisy labels (CIFAR-100).
        instance_lr: learning rate of the samples' temperatures. By default 0.2, which the authors
            publish with their code (apple/ml-data-parameters) for that experiment and all noise
            rates, and 0.8 for "both". The gradient is that of the batch mean, so the step is
            proportional to 1 / batch size; the authors' batch size is 128.
        instance_weight_decay: weight decay of the samples' temperatures. By default 0, and 1e-8 for
            "both", as in the same code.
        class_lr: learning rate of the classes' temperatures. 0.1, the authors' published value for
            class parameters (clean ImageNet, 1000 classes). It is far too high for few classes with
            noisy labels: the temperature of a class may reach the bound, and the class is no longer
            learned (digits, 40 %).
        class_weight_decay: weight decay of the classes' temperatures. 1e-4, as in the same code.
        momentum: momentum of the temperatures. 0.9, as in the authors' released optimizer for
            temperatures, which also updates only temperatures in the batch.
        temperature_range: lowest and highest temperature of a class or a sample. 1/20 and 20, as in
            the authors' released code.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``. The temperatures always follow the mean.
    """

    needs_classes: ClassVar[str | None] = (
        "divides the logits of class probabilities by temperatures"
    )

    def __init__(
        self,
        num_samples: int | None = None,
        num_classes: int | None = None,
        *,
        parameters: Literal["class", "instance", "both"] = "instance",
        instance_lr: float | None = None,
        instance_weight_decay: float | None = None,
        class_lr: float = 0.1,
        class_weight_decay: float = 1e-4,
        momentum: float = 0.9,
        temperature_range: tuple[float, float] = (0.05, 20.0),
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            None if parameters == "class" else num_samples, num_classes, reduction=reduction
        )
        if parameters not in ("class", "instance", "both"):
            raise ValueError(f"parameters must be class, instance or both, not {parameters!r}")
        steps = INSTANCE_STEPS.get(parameters, (0.0, 0.0))
        instance_lr = steps[0] if instance_lr is None else instance_lr
        instance_weight_decay = steps[1] if instance_weight_decay is None else instance_weight_decay
        rates = (instance_lr, instance_weight_decay, class_lr, class_weight_decay)
        if not all(0.0 <= rate < math.inf for rate in rates):
            raise ValueError(
                "instance_lr, instance_weight_decay, class_lr and class_weight_decay must be "
                f"finite and at least 0, not {', '.join(map(str, rates))}"
            )
        if not 0.0 <= momentum < 1.0:
            raise ValueError(f"momentum must be at least 0 and below 1, not {momentum}")
        lowest, highest = temperature_range
        if not 0.0 < lowest <= 1.0 <= highest < math.inf:
            raise ValueError(
                "temperature_range must be a number above 0 and up to 1, then one of at least 1, "
                f"not {lowest}, {highest}"
            )
        self.parameters_of = parameters
        shared = (momentum, temperature_range)
        self.temperatures = nn.ModuleDict()
        if parameters != "instance":
            if num_classes is None:
                raise ValueError("temperatures of classes need num_classes: pass it")
            self.temperatures["class"] = Temperatures(
                num_classes, 1.0, class_lr, class_weight_decay, *shared
            )
        if parameters != "class":
            if num_samples is None:
                raise ValueError("temperatures of samples need num_samples: pass it")
            start = max(JOINT_INSTANCE_START, lowest) if parameters == "both" else 1.0
            self.temperatures["instance"] = Temperatures(
                num_samples, start, instance_lr, instance_weight_decay, *shared
            )

    def _learned(self) -> Iterable[tuple[str, Temperatures]]:
        return cast("Iterable[tuple[str, Temperatures]]", self.temperatures.items())

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the cross-entropies of the divided logits, then update the temperatures."""
        logits = at_least_float32(logits)
        rows = {"class": target, "instance": index}
        summands = [temperatures(rows[name]) for name, temperatures in self._learned()]
        temperature = torch.stack(summands).sum(0)
        losses = cross_entropy(logits / temperature[:, None], target)
        with torch.no_grad():
            gradient = gather_rows(temperature_gradients(logits, target, temperature))
            for name, temperatures in self._learned():
                temperatures.descend(gather_rows(rows[name]), gradient / len(gradient))
        return losses

    def sample_scores(self) -> Tensor | None:
        """Return the temperatures of the samples. None if only those of classes are learned."""
        instances = dict(self._learned()).get("instance")
        return None if instances is None else instances.values()

    def hyperparameters(self) -> dict[str, Any]:
        """Return which temperatures are learned (of samples, classes or both), and how."""
        values: dict[str, Any] = {"parameters": self.parameters_of}
        for name, temperatures in self._learned():
            values[f"{name}_lr"] = temperatures.learning_rate
            values[f"{name}_weight_decay"] = temperatures.weight_decay
            values["momentum"] = temperatures.momentum
            values["temperature_range"] = temperatures.bounds
        return values

    def log_values(self) -> dict[str, float]:
        """Return the mean and the highest temperatures."""
        values = {}
        for name, temperatures in self._learned():
            sigma = temperatures.log_sigma.exp()
            values[f"mean_{name}_temperature"] = float(sigma.mean())
            values[f"highest_{name}_temperature"] = float(sigma.max())
        return values
