"""Forward correction: predictions pass through the noise before they are compared with labels."""

from __future__ import annotations

from torch import Tensor

from discrimloss.losses.base import loss_classes
from discrimloss.losses.loss_correction import LossCorrection
from discrimloss.losses.transition import log_label_probability


@loss_classes.register("forward")
class ForwardCorrection(LossCorrection):
    """Forward loss correction with a known or estimated transition matrix (Patrini et al. 2017).

    The network predicts the probability p of each true class. The matrix T holds, for each true
    class, the probabilities of the given labels. The loss of the label y is ``-log((T^T p)_y)``.

    Args:
        num_samples: size of the training set.
        num_classes: number of classes.
        epochs: length of the run; needed where T is estimated.
        transition: T, one row for each true class that sums to 1; None, as in the paper's
            experiments with an estimated T, if it is not known.
        noise_rate: instead of T, the fraction of wrong labels where each wrong class is as likely:
            the paper's symmetric noise, 1 - rate on the diagonal, equal entries elsewhere.
        anchor_percentile: row i of an estimated T is the prediction for the sample that has the
            probability of class i at this percentile. 97 and not 100, the likeliest, is the choice
            of the paper and of its code (giorgiop/loss-correction), against outliers; for CIFAR-100
            the paper takes the likeliest, as we do for any class of which more than half would be
            passed over.
        warm_up_epochs: epochs of cross-entropy before the estimate; None for 15 % of the run, which
            is ours: the authors estimate from the network of the lowest validation loss, before it
            memorises, and we have no validation labels to find it by.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def corrected_losses(self, log_probabilities: Tensor, target: Tensor) -> Tensor:
        """``-log((T^T p)_y)``."""
        return -log_label_probability(log_probabilities, target, self.transition)
