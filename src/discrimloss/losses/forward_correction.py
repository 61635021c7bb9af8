"""Forward correction: the loss compares the label with predictions times the transition matrix."""

from __future__ import annotations

from torch import Tensor

from discrimloss.losses.base import loss_classes
from discrimloss.losses.loss_correction import LossCorrection
from discrimloss.losses.transition import log_label_probability


@loss_classes.register("forward")
class ForwardCorrection(LossCorrection):
    """Forward loss correction with a known or estimated transition matrix (Patrini et al. 2017).

    The network predicts the probability p of each true class. The matrix T contains, for each
    true class, the probabilities of the given labels. The loss of the label y is ``-log((T^T
    p)_y)``.

    Args:
        num_samples: size of the training set.
        num_classes: number of classes.
        epochs: length of the run. Needed if T is estimated.
        transition: T, with one row for each true class, which sums to 1. By default T is estimated,
            as in the paper.
        noise_rate: instead of T, the fraction of wrong labels, if all wrong classes are equally
            likely. This is the paper's symmetric noise: 1 - rate on the diagonal, equal entries
            elsewhere.
        anchor_percentile: row i of an estimated T is the prediction for the sample whose
            probability of class i is at this percentile. 97, as in the paper and its code
            (giorgiop/loss-correction), ignores outliers. For CIFAR-100, the paper uses 100, the
            most probable sample. We use 100 for every class in which the percentile would skip more
            than half of the samples.
        warm_up_epochs: epochs of cross-entropy before the estimate. By default 15 % of the run,
            which is our choice. The authors estimate T from the network with the lowest validation
            loss, before it memorises, but here there are no validation labels.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def corrected_losses(self, log_probabilities: Tensor, target: Tensor) -> Tensor:
        """Return ``-log((T^T p)_y)`` for each sample, shape (batch,)."""
        return -log_label_probability(log_probabilities, target, self.transition)
