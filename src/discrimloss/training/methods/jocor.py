"""JoCoR: two networks with similar predictions, and one selection by their joint loss."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from discrimloss.functional import at_least_float32
from discrimloss.state.gathering import weighted_mean
from discrimloss.training.methods.base import Batch, Setting, StepResult, methods
from discrimloss.training.methods.small_loss import Schedule, SmallLossMethod


def symmetric_divergence(output: Tensor, other: Tensor) -> Tensor:
    """Return ``KL(p1 || p2) + KL(p2 || p1)`` of two networks' probabilities, shape (batch,).

    The sum equals ``sum over classes of (p1 - p2) * (log p1 - log p2)``.

    Args:
        output: logits of the first network, shape (batch, classes).
        other: logits of the second.
    """
    log_first, log_second = (
        at_least_float32(logits).log_softmax(dim=1) for logits in (output, other)
    )
    return ((log_first.exp() - log_second.exp()) * (log_first - log_second)).sum(dim=1)


@methods.register("jocor")
class JoCoR(SmallLossMethod):
    """JoCoR: small-loss samples of a joint loss with co-regularisation (Wei et al. 2020).

    A sample's joint loss is ``(1 - lambda) * (CE1 + CE2) + lambda * (KL(p1||p2) + KL(p2||p1))``
    (the supervised and the contrastive part). The samples with the smallest joint loss are
    selected, and both networks learn from the mean over them. Gradients pass through both sides of
    the divergences. The first network is evaluated.

    Args:
        setting: the task, which must be classification.
        noise_rate: tau, the final fraction of labels to forget. The paper assumes a known noise
            rate, like co-teaching. By default it is estimated from the losses. Until the first
            estimate, nothing is forgotten.
        gradual_epochs: T_k, the number of epochs until the forget rate reaches tau: 10 of 200 in
            the paper. The default is 10, but at most a quarter of the run, because our runs are
            shorter.
        co_regularization: lambda, the weight of the divergences. The authors search it for each
            dataset on validation data: 0.95 for MNIST, 0.9 for CIFAR-10 (0.65 at 80 % noise),
            0.85 for CIFAR-100 and Clothing1M, with Adam. The page of their code says that lambda
            depends on data, noise and network, and is between 0.5 and 0.9. Our default is 0.5: the
            gradient of the divergences has no bound, so a larger lambda needs smaller steps of SGD.
            With the steps of our recipes, a lambda of 0.9 reduces the accuracy on clean digits by 6
            points, and 0.65 by one. Adam's steps do not grow with the gradient, so use
            ``optimizer.kind=adamw`` for the paper's values.
        schedule: "paper", or "released" as in the authors' code (hongxin001/JoCoR), which starts at
            tau / (T_k - 1) and reaches tau in epoch T_k - 1.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        noise_rate: float | None = None,
        gradual_epochs: int | None = None,
        co_regularization: float = 0.5,
        schedule: Schedule = "paper",
    ) -> None:
        setting.require_classes("jocor", "compares the class probabilities of two networks")
        if not 0.0 <= co_regularization < 1.0:
            raise ValueError(
                f"co_regularization must be at least 0 and below 1, not {co_regularization}"
            )
        super().__init__(
            setting, noise_rate=noise_rate, gradual_epochs=gradual_epochs, schedule=schedule
        )
        self.co_regularization = co_regularization

    def training_step(self, batch: Batch) -> StepResult:
        """Return the mean joint loss of the selected samples."""
        (output, other), (losses, others_losses) = self.predictions(batch)
        weight = self.co_regularization
        divergence = symmetric_divergence(output, other)
        joint = (1.0 - weight) * (losses + others_losses) + weight * divergence
        (kept,) = self.small_losses(batch, joint)
        loss = weighted_mean(joint, kept.to(joint.dtype))
        return StepResult(loss, losses.detach(), output.detach())

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of the schedule, and lambda."""
        return {**super().hyperparameters(), "co_regularization": self.co_regularization}
