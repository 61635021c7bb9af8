"""CDR: parameters with little effect on the loss are not updated by its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from discrimloss.losses.noise_rate import NoiseRate
from discrimloss.training.methods.base import Setting, methods
from discrimloss.training.methods.plain import Plain


def critical_threshold(importance: Tensor, fraction: float) -> Tensor:
    """Return the smallest importance among the most important `fraction`, at least one parameter.

    >>> critical_threshold(torch.tensor([3.0, 1.0, 4.0, 2.0]), fraction=0.5)
    tensor(3.)
    """
    count = importance.numel()
    critical = min(max(int(fraction * count), 1), count)
    return importance.kthvalue(count - critical + 1).values


@torch.no_grad()
def keep_critical_gradients(weights: Sequence[Tensor], noise_rate: float) -> None:
    """Change the gradients of `weights` in place. All weights are ranked together.

    The fraction ``1 - noise_rate`` with the largest ``|gradient * value|`` is critical. Critical
    gradients are multiplied by ``1 - noise_rate``, all others by 0.
    """
    fraction = 1.0 - noise_rate
    pairs = [(weight.grad, weight) for weight in weights if weight.grad is not None]
    if not pairs or fraction == 1.0:
        return
    everything = torch.cat([(gradient * weight).abs().flatten() for gradient, weight in pairs])
    threshold = critical_threshold(everything, fraction)
    for gradient, weight in pairs:
        # Multiplied, not filled: 0 times infinity is NaN, so an overflow in half precision remains
        # visible to the gradient scaler.
        gradient.mul_((gradient * weight).abs() >= threshold).mul_(fraction)


@methods.register("cdr")
class CDR(Plain):
    """CDR: only the critical parameters follow the gradient (Xia et al. 2021).

    In every step, weights are ranked by ``|gradient * value|``, the paper's criterion. The fraction
    ``1 - tau`` with the largest values is critical, where ``tau`` is the noise rate. Critical
    weights follow ``1 - tau`` times the gradient and decay. All others only decay.

    If the paper is not specific, or its code differs, we follow the code (xiaoboxia/CDR):

    - All weights of a network are ranked together, not layer by layer. Only tensors with two or
      more dimensions are ranked. Biases and normalisation follow their gradient as usual.
    - Decay and momentum are the optimizer's. The decay of ``optimizer.weight_decay`` is
      proportional to the weight, while the paper's equations use the sign of the weight. With
      momentum, a weight that becomes non-critical still moves by the momentum of earlier steps.
      AdamW cancels the factor ``1 - tau``, as it cancels any constant factor of the gradient. It
      does not cancel the choice of the critical weights.

    The paper stops training early, by the accuracy on noisy validation labels. Without early
    stopping, the method gains less in a long run.

    Args:
        setting: the task.
        noise_rate: ``tau``, which the paper assumes to be known or estimated beforehand. By
            default it is estimated during the run, which is our addition. Until the first estimate,
            all weights are critical.
    """

    needs: ClassVar[str] = "noise rate, given or estimated"

    def __init__(self, setting: Setting, *, noise_rate: float | None = None) -> None:
        rate = NoiseRate(noise_rate, setting.epochs)
        super().__init__(setting)
        self.noise_rate = rate
        self._rate_now = float(rate)  # on the host, so that no step waits for the device

    def begin_epoch(self, epoch: int) -> None:
        """Update the noise rate, if it is estimated."""
        super().begin_epoch(epoch)
        self.noise_rate.begin_epoch(epoch, self.history)
        self._rate_now = float(self.noise_rate)

    def after_backward(self) -> None:
        """Set the gradient of non-critical weights to 0. All processes have equal gradients."""
        weights = [weight for weight in self.trainable_parameters() if weight.dim() >= 2]
        keep_critical_gradients(weights, self._rate_now)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the noise rate and its source."""
        return self.noise_rate.record()

    def log_values(self) -> dict[str, float]:
        """Return the noise rate, which is the fraction of weights that only decay."""
        return {"noise_rate": float(self.noise_rate)}
