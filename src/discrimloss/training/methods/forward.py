"""Forward correction: what the network says passes through the noise before it meets the label."""

from __future__ import annotations

from torch import Tensor

from discrimloss.training.methods.base import Setting, methods
from discrimloss.training.methods.loss_correction import LossCorrection
from discrimloss.training.methods.transition import log_label_probability


@methods.register("forward")
class ForwardCorrection(LossCorrection):
    """Forward loss correction with a known or estimated transition matrix (Patrini et al. 2017).

    The network says how likely each true class is, p; T says how likely each is to be labelled as
    another. The loss of the label y is ``-log((T^T p)_y)``: theorem 2 of the paper.

    Args:
        setting: what may be known of the task.
        transition: T, a row for each true class that adds up to 1; None, as in the paper's
            experiments with an estimated T, if nobody knows it.
        noise_rate: instead of T, the share of wrong labels where each wrong class is as likely: the
            paper's symmetric noise, 1 - rate on the diagonal, the rest shared evenly.
        anchor_percentile: row i of an estimated T is what the network says of the sample that has
            the probability of class i at this percentile. 97 and not 100, the likeliest, is the
            paper's choice, against outliers (section 6); for CIFAR-100 it takes the likeliest, as
            we do for any class of which more than half would be passed over.
        warm_up_epochs: plain training before the estimate; None for 15 % of the run, which is ours:
            the authors estimate from the network of the lowest validation loss, before it
            memorises, and we have no validation labels to find it by.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        transition: tuple[tuple[float, ...], ...] | None = None,
        noise_rate: float | None = None,
        anchor_percentile: float = 97.0,
        warm_up_epochs: int | None = None,
    ) -> None:
        super().__init__(
            setting, "forward", transition, noise_rate, anchor_percentile, warm_up_epochs
        )

    def corrected_losses(self, log_probabilities: Tensor, target: Tensor) -> Tensor:
        """``-log((T^T p)_y)``."""
        return -log_label_probability(log_probabilities, target, self.transition)
