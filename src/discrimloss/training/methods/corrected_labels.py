"""Labels that are mixed with the predictions of a network."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from discrimloss.state.gathering import gather_rows

UNKNOWN = -1.0  # no loss is below 0


def label_weights(losses: Tensor) -> Tensor:
    """Return the weight of each label: its loss, scaled to [0, 1]. 1 if no loss is known."""
    known = losses[losses > UNKNOWN]
    if not len(known):
        return torch.ones_like(losses)
    span = (known.max() - known.min()).clamp(min=torch.finfo(losses.dtype).tiny)
    return torch.where(losses > UNKNOWN, (losses - known.min()) / span, 1.0)


class CorrectedLabels(nn.Module):
    """Labels mixed with predictions. Each epoch uses the predictions of the previous epoch.

    Args:
        target: shape (num_samples,): all given labels. The corrected labels start equal to them.
        num_classes: number of classes whose probabilities are kept. None keeps predicted classes.
    """

    prediction: Tensor
    label_weight: Tensor
    next_prediction: Tensor
    next_loss: Tensor
    renewed_in: Tensor

    def __init__(self, target: Tensor, num_classes: int | None = None) -> None:
        super().__init__()
        self.is_soft = num_classes is not None
        predicted = target.clone()
        if num_classes is not None:
            predicted = functional.one_hot(target, num_classes).float()
        self.register_buffer("prediction", predicted)
        self.register_buffer("label_weight", torch.ones(len(target)))
        self.register_buffer("next_prediction", predicted.clone())
        self.register_buffer("next_loss", torch.full((len(target),), UNKNOWN))
        self.register_buffer("renewed_in", torch.tensor(0))

    def renew(self, epoch: int) -> None:
        """Correct the labels with the recorded predictions, unless this epoch was resumed."""
        if epoch > int(self.renewed_in):
            self.prediction.copy_(self.next_prediction)
            self.label_weight.copy_(label_weights(self.next_loss))
            self.renewed_in.fill_(epoch)

    def mixed(self, label: Tensor, index: Tensor) -> Tensor:
        """Return ``w y + (1 - w) prediction`` for one-hot labels, shape (batch, classes)."""
        weight = self.label_weight[index, None]
        prediction = self.prediction[index]
        if not self.is_soft:
            prediction = functional.one_hot(prediction, label.shape[1])
        return weight * label + (1.0 - weight) * prediction

    def record(self, output: Tensor, losses: Tensor, index: Tensor) -> None:
        """Record predictions, from logits, and the losses that weight the labels."""
        index = gather_rows(index)
        predicted = output.float().softmax(1) if self.is_soft else output.argmax(1)
        self.next_prediction[index] = gather_rows(predicted)
        self.next_loss[index] = gather_rows(losses.float())
