"""The base class of forward and backward correction: a given or estimated transition matrix."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.losses.base import IndexedLoss, cross_entropy
from discrimloss.losses.noise_rate import FIRST_ESTIMATE
from discrimloss.losses.sample_state import GivenLabels, SampleMean
from discrimloss.losses.transition import (
    anchor_transition,
    checked_transition,
    log_label_probability,
    require_possible_labels,
    symmetric_transition,
)
from discrimloss.state.gathering import gather_rows

WARM_UP = FIRST_ESTIMATE
"""Fraction of the run before the estimate: long enough to learn the classes, and too short to
memorise labels."""


class LossCorrection(IndexedLoss):
    """The base class of the forward and backward correction, with the transition matrix T.

    Both are from Patrini et al. (2017). The authors train a network to the end, estimate T from the
    network with the lowest validation loss, and train another network from the start. We record the
    predictions in the last epoch of a warm-up, estimate T from them, and continue with the same
    network. A run is therefore as long as with any other loss.

    Args:
        num_samples: size of the training set.
        num_classes: number of classes.
        epochs: length of the run. Needed if T is estimated.
        transition: T, with one row for each true class. None if unknown.
        noise_rate: the rate of symmetric noise, which determines T. None if unknown.
        anchor_percentile: see `ForwardCorrection`. Used if T is estimated.
        warm_up_epochs: epochs of cross-entropy, if T is estimated. By default 15 % of the run.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    needs: ClassVar[str] = "transition matrix or noise rate, given or estimated"
    needs_classes: ClassVar[str | None] = (
        "corrects the loss by how likely each class is to be labelled as another"
    )

    transition: Tensor
    is_estimated: Tensor
    probabilities: Tensor

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        epochs: int | None = None,
        *,
        transition: tuple[tuple[float, ...], ...] | None = None,
        noise_rate: float | None = None,
        anchor_percentile: float = 97.0,
        warm_up_epochs: int | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, num_classes, reduction=reduction)
        if transition is not None and noise_rate is not None:
            raise ValueError("transition and noise_rate exclude each other: pass only one of them")
        if not 0.0 < anchor_percentile <= 100.0:
            raise ValueError(
                f"anchor_percentile must be above 0 and at most 100, not {anchor_percentile}"
            )
        self.anchor_percentile = anchor_percentile
        self.source, self.warm_up_epochs = "estimated", 0
        matrix = torch.eye(num_classes, dtype=torch.float64)
        if transition is not None:
            self.source, matrix = "given", checked_transition(transition, num_classes)
        elif noise_rate is not None:
            self.source, matrix = "noise_rate", symmetric_transition(num_classes, noise_rate)
        else:
            self.warm_up_epochs = _warm_up_length(warm_up_epochs, epochs)
        self.check(matrix)
        self.register_buffer("transition", matrix)
        self.register_buffer("is_estimated", torch.tensor(False))
        kept = num_samples if self.source == "estimated" else 0
        self.register_buffer("probabilities", torch.zeros(kept, num_classes))
        self.labels = GivenLabels(num_samples)
        self.distrust = SampleMean(num_samples)

    @abstractmethod
    def corrected_losses(self, log_probabilities: Tensor, target: Tensor) -> Tensor:
        """Return the corrected loss of each sample, shape (batch,)."""

    def check(self, transition: Tensor) -> None:
        """Raise a `ValueError` for a given matrix that the correction cannot use."""

    def usable(self, estimate: Tensor) -> Tensor:
        """Return an estimated matrix, changed if necessary so that the correction can use it."""
        return estimate

    def set_targets(self, target: Tensor) -> None:
        """Pass the labels of all samples. Otherwise, the loss takes them from the batches."""
        if self.source == "given":
            require_possible_labels(self.transition.cpu(), target.cpu())
        self.labels.set_all(target)

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the cross-entropy in the warm-up, and the corrected loss afterwards."""
        self.labels.record(target, index)
        if self.epoch < self.warm_up_epochs:
            return cross_entropy(logits, target)
        log_probabilities = functional.log_softmax(at_least_float32(logits), dim=1)
        if self.epoch == self.warm_up_epochs:
            everyones = gather_rows(log_probabilities.detach().exp().float())
            self.probabilities[gather_rows(index)] = everyones
            return cross_entropy(logits, target)
        self._score(log_probabilities.detach(), target, index)
        return self.corrected_losses(log_probabilities, target)

    def _score(self, log_probabilities: Tensor, target: Tensor, index: Tensor) -> None:
        of_label = log_label_probability(log_probabilities, target, self.transition)
        of_class = log_probabilities.gather(1, target[:, None]).squeeze(1)
        unchanged = self.transition.diagonal()[target] * (of_class - of_label).exp()
        self.distrust.add(1.0 - unchanged, index)

    def set_epoch(self, epoch: int) -> None:
        """Estimate T once, at the start of the epoch after the warm-up."""
        super().set_epoch(epoch)
        is_due = self.source == "estimated" and epoch > self.warm_up_epochs
        if not is_due or bool(self.is_estimated) or not bool(self.probabilities.any()):
            return
        label_counts = self.labels.known.bincount(minlength=self.probabilities.shape[1])
        estimate = anchor_transition(self.probabilities, label_counts, self.anchor_percentile)
        self.transition.copy_(self.usable(estimate))
        self.is_estimated.fill_(True)

    def sample_scores(self) -> Tensor | None:
        """Return the mean probability that the label is wrong, over the visits with a known T."""
        return self.distrust.values()

    def hyperparameters(self) -> dict[str, Any]:
        """Return T, once it is known, and its source."""
        is_known = self.source != "estimated" or bool(self.is_estimated)
        wrong = 1.0 - self.transition.diagonal()[self.labels.known]
        return {
            "noise_rate": round(float(wrong.mean()), 6) if is_known and len(wrong) else None,
            "noise_rate_source": self._source_of_rate(is_known),
            "transition": self.transition.tolist() if is_known else None,
            "transition_source": self.source,
            "anchor_percentile": self.anchor_percentile,
            "warm_up_epochs": self.warm_up_epochs,
        }

    def _source_of_rate(self, is_known: bool) -> str:
        if self.source != "estimated":
            return "given"
        return "estimated" if is_known else "not estimated yet"

    def log_values(self) -> dict[str, float]:
        """Return the mean probability under T that a label is correct. 1 until T is known."""
        return {"mean_diagonal": float(self.transition.diagonal().mean())}


def _warm_up_length(given: int | None, epochs: int | None) -> int:
    if epochs is None:
        raise ValueError("pass epochs (the length of the run), or transition or noise_rate")
    if given is None:
        return math.ceil(WARM_UP * epochs)
    if given < 1:
        raise ValueError(f"warm_up_epochs must be 1 or more, not {given}")
    if given >= epochs:
        raise ValueError(
            f"warm_up_epochs must be below the {epochs} epochs of the run, not {given}: "
            "nothing would be corrected"
        )
    return given
