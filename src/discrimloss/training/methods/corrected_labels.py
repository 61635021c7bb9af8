"""Labels that are mixed with the predictions of a network."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from discrimloss.state.gathering import gather_rows

UNKNOWN = -1.0  # no loss is below 0


def label_weights(losses: Tensor) -> Tensor:
    """How much of each label is kept: its loss, scaled to [0, 1]; 1 where no loss is known."""
    known = losses[losses > UNKNOWN]
    if not len(known):
        return torch.ones_like(losses)
    span = (known.max() - known.min()).clamp(min=torch.finfo(losses.dtype).tiny)
    return torch.where(losses > UNKNOWN, (losses - known.min()) / span, 1.0)


class CorrectedLabels(nn.Module):
    """Labels mixed with predictions, renewed in each epoch from those of the epoch before.

    Args:
        target: shape (num_samples,): all labels, as given. The corrected ones start as these.
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
        """Correct the labels by what was recorded; a resumed epoch keeps its own."""
        if epoch > int(self.renewed_in):
            self.prediction.copy_(self.next_prediction)
            self.label_weight.copy_(label_weights(self.next_loss))
            self.renewed_in.fill_(epoch)

    def mixed(self, label: Tensor, index: Tensor) -> Tensor:
        """``w y + (1 - w) prediction``, shape (batch, classes), of one-hot labels."""
        weight = self.label_weight[index, None]
        prediction = functional.one_hot(self.prediction[index], label.shape[1])
        return weight * label + (1.0 - weight) * prediction

    def record(self, prediction: Tensor, losses: Tensor, index: Tensor) -> None:
        """Keep the predictions of some rows, and the losses of the labels as corrected so far."""
        index = gather_rows(index)
        self.next_prediction[index] = gather_rows(prediction)
        self.next_loss[index] = gather_rows(losses.float())
