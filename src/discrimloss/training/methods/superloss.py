"""SuperLoss: each loss weighed by a confidence that follows from the loss itself."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from discrimloss.losses.sample_state import SampleMean
from discrimloss.training.methods.base import Batch, Method, Setting, StepResult, methods
from discrimloss.training.methods.confidence import SuperLoss, SuperLossTerms


@methods.register("superloss")
class SuperLossMethod(Method):
    """SuperLoss: a confidence for every loss, in closed form by Lambert W (Castells et al. 2020).

    The confidence is above 1, at most e, for losses below a threshold, and sinks towards 0 for
    those far above it. The loss may be any.

    Args:
        setting: what may be known of the task.
        confidence_threshold: ``tau``, what divides easy from hard. ``"log_classes"``: log C, the
            loss of a uniform guess; ``"ema"``: moving average of the batch mean with their decay
            0.9; ``"mean"``: mean of all losses seen; or a number. None is ``"log_classes"``, as in
            the classification experiments of their paper (section 4), and for a regression, where
            there is no such constant, ``"ema"``, one of the two averages it offers (section 3).
        confidence_regularization: ``lambda``: the larger, the nearer all confidences are to 1. None
            is 1, what their paper takes for CIFAR-10 (section 4; for CIFAR-100 it takes 0.25). For
            a regression None is ``tau / log 10``, ours: lambda has the unit of the loss, so that no
            constant fits every task; this is its ratio to tau on CIFAR-10.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        confidence_threshold: Literal["log_classes", "ema", "mean"] | float | None = None,
        confidence_regularization: float | None = None,
    ) -> None:
        superloss = SuperLoss(setting.num_classes, confidence_threshold, confidence_regularization)
        super().__init__(setting)
        self.superloss = superloss
        self.distrust = SampleMean(setting.num_samples)

    def training_step(self, batch: Batch) -> StepResult:
        """The mean SuperLoss."""
        output = self.networks[0](batch.inputs)
        losses = self.setting.task_losses(output, batch.target)
        terms: SuperLossTerms = self.superloss(losses)
        self.distrust.add(-terms.log_confidence, batch.index)
        return StepResult(terms.values.mean(), losses.detach(), output.detach())

    def sample_scores(self) -> Tensor | None:
        """The mean of ``-log sigma`` over the visits: -1 is trusted most."""
        return self.distrust.values()

    def hyperparameters(self) -> dict[str, Any]:
        """Those of SuperLoss."""
        return self.superloss.hyperparameters()

    def log_values(self) -> dict[str, float]:
        """``tau``."""
        return {"confidence_threshold": float(self.superloss.tau)}
