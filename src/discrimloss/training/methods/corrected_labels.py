"""Labels that are mixed with what a network predicts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discrimloss.functional import at_least_float32
from discrimloss.state.gathering import gather_rows

UNKNOWN = -1.0  # no loss is below 0


def soft_losses(output: Tensor, soft_target: Tensor) -> Tensor:
    """``-sum(t log p)``, shape (batch,), of targets (batch, classes) that may be any numbers."""
    return -(soft_target * F.log_softmax(at_least_float32(output), dim=1)).sum(1)


def label_weights(losses: Tensor) -> Tensor:
    """How much of each label is kept: its loss, scaled to [0, 1]; all of it where none is known."""
    known = losses[losses > UNKNOWN]
    if not len(known):
        return torch.ones_like(losses)
    span = (known.max() - known.min()).clamp(min=torch.finfo(losses.dtype).tiny)
    return torch.where(losses > UNKNOWN, (losses - known.min()) / span, 1.0)


class CorrectedLabels(nn.Module):
    """Labels mixed with predictions, renewed in each epoch from those of the epoch before.

    Args:
        target: shape (num_samples,): all labels, as given. So are the corrected ones at first.
    """

    prediction: Tensor
    label_weight: Tensor
    next_prediction: Tensor
    next_loss: Tensor
    renewed_in: Tensor

    def __init__(self, target: Tensor) -> None:
        super().__init__()
        self.register_buffer("prediction", target.clone())
        self.register_buffer("label_weight", torch.ones(len(target)))
        self.register_buffer("next_prediction", target.clone())
        self.register_buffer("next_loss", torch.full((len(target),), UNKNOWN))
        self.register_buffer("renewed_in", torch.tensor(0))

    def renew(self, epoch: int) -> None:
        """Correct the labels by what was recorded; an epoch resumed half-way keeps its own."""
        if epoch > int(self.renewed_in):
            self.prediction.copy_(self.next_prediction)
            self.label_weight.copy_(label_weights(self.next_loss))
            self.renewed_in.fill_(epoch)

    def mixed(self, label: Tensor, index: Tensor) -> Tensor:
        """``w y + (1 - w) prediction``, shape (batch, classes), of one-hot labels."""
        weight = self.label_weight[index, None]
        prediction = F.one_hot(self.prediction[index], label.shape[1])
        return weight * label + (1.0 - weight) * prediction

    def record(self, prediction: Tensor, losses: Tensor, index: Tensor) -> None:
        """What is predicted now, and the loss of the labels as corrected so far, of some rows."""
        index = gather_rows(index)
        self.next_prediction[index] = gather_rows(prediction)
        self.next_loss[index] = gather_rows(losses.float())
