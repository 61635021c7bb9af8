"""How far each label is trusted during training, from the network's predictions for its sample.

In a short run the losses of hard samples and of wrong labels overlap. Predictions say more: a label
that a confident prediction contradicts is probably wrong, and where the prediction is unsure, the
label stands. How confident predictions are, and how often labels are wrong, is fitted to both as in
an audit (`discrimloss.judging.noise_model`, `discrimloss.judging.regression_noise`).

A network that learns all that can be learned is the opposite case. Its losses form two groups with
nothing between, and their history remembers what was hard to learn when the predictions have
forgotten it. So the losses decide where they are confident about almost every label and find about
as much noise as the predictions find or have found. For regression, predictions say no more than
losses do.

The estimate is made once an epoch, while network and predictions move on. So a trusted class label
counts in each step as much as the latest predictions support it, under the noise that was found. A
regression target counts as much as it was trusted before the epoch.

Labels do not become correct during a run. Where fewer are found wrong than before, the network has
memorised the others, and what memorising added to its predictions is removed. Where that does not
bring the noise back, predictions do not decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from discrimloss.functional import at_least_float32, mean_of_same
from discrimloss.judging.noise_model import NoiseModel, fit_noise_model
from discrimloss.judging.regression_noise import estimate_target_errors
from discrimloss.state.gathering import gather_rows

MOMENTUM = 0.6
"""Momentum of the predictions' moving average: it forgets predictions of five epochs ago."""
LEAST_TRUST = 0.1
"""Labels that are trusted less are not learned from: a small weight only delays memorising."""
LEAST_TRUST_BY_LOSSES = 0.5
"""The same where losses decide, which are confident about almost every label."""
SMOOTHING = 0.2
"""Fraction of the target that goes to all classes, once class labels are left out."""
MOST_FITTED = 6000
"""Samples in a fit, drawn anew every time."""
MOST_MISTAKES = 0.03
"""Mistakes that the losses may expect of themselves, as a fraction of the samples, to decide."""
MOST_MISTAKES_OF_FOUND = 0.1
"""The same as a fraction of the labels that they find wrong. It keeps hard samples of clean data
from being taken for wrong labels."""
SAME_NOISE = 0.1
"""How far the noise rate of the losses may be from the known one for them to decide, and how far
below it that of the predictions."""


def smoothed(losses: Tensor, output: Tensor) -> Tensor:
    """Smooth the labels: losses that expect a little of every class, shape (batch,).

    A network that learns only from correct labels becomes overconfident. The few wrong labels in
    every batch of a noisy run prevent that; where they are left out, smoothing replaces them.

    Args:
        losses: shape (batch,): losses of the given labels.
        output: shape (batch, classes): logits.
    """
    of_every_class = -log_softmax(at_least_float32(output), 1).mean(1)
    return (1.0 - SMOOTHING) * losses + SMOOTHING * of_every_class


class _Estimate(NamedTuple):
    """Label errors among the samples that were seen."""

    p_incorrect: Tensor
    noise_rate: float
    least_trust: float
    """Labels that are trusted less are not learned from."""


class LabelTrust(nn.Module):
    """Moving averages of the network's predictions, and the trust in each label that follows.

    Args:
        target: shape (num_samples,): the given labels.
        num_classes: None for a regression.
    """

    predictions: Tensor
    visits: Tensor
    trust: Tensor
    noise: Tensor
    estimated_in: Tensor
    least_trust: Tensor
    sharpness: Tensor
    bias: Tensor
    log_transition: Tensor
    leak: Tensor

    def __init__(self, target: Tensor, num_classes: int | None) -> None:
        super().__init__()
        self.target, self.num_classes = target, num_classes
        samples = len(target)
        self.register_buffer("predictions", torch.zeros(samples, num_classes or 1))
        self.register_buffer("visits", torch.zeros(samples))
        self.register_buffer("trust", torch.ones(samples))
        self.register_buffer("noise", torch.zeros(()))  # the largest rate found so far
        self.register_buffer("estimated_in", torch.zeros((), dtype=torch.int64))
        self.register_buffer("least_trust", torch.tensor(LEAST_TRUST))
        # The noise model that was fitted last, see `NoiseModel`.
        classes = num_classes or 0
        self.register_buffer("sharpness", torch.ones(()))
        self.register_buffer("bias", torch.zeros(classes))
        self.register_buffer("log_transition", torch.zeros(classes, classes))
        self.register_buffer("leak", torch.zeros(()))

    @property
    def has_estimate(self) -> bool:
        """Whether `trust` has been estimated at all."""
        return bool(self.estimated_in > 0)

    def record(self, output: Tensor, index: Tensor) -> None:
        """Average the predictions for a batch; every process calls it with its own batch.

        A batch with a prediction that is not finite is ignored: its step will be skipped.
        """
        index = gather_rows(index)
        rows = output.detach().reshape(-1, self.predictions.shape[1]).to(self.predictions.dtype)
        rows = mean_of_same(gather_rows(rows), index)
        is_finite = rows.isfinite().all()
        moved = MOMENTUM * self.predictions[index] + (1.0 - MOMENTUM) * rows
        self.predictions[index] = torch.where(is_finite, moved, self.predictions[index])
        self.visits[index] = (self.visits[index] + is_finite).clamp(max=1000)

    def update(self, epoch: int, by_losses: Callable[[], Tensor]) -> None:
        """Estimate the trust before the first batch of an epoch.

        A second call in the same epoch, after a resume, does nothing.

        Args:
            epoch: the one that begins.
            by_losses: returns the probability that each label is incorrect by its losses, shape
                (num_samples,). Not called for a regression.
        """
        if int(self.estimated_in) == epoch:
            return
        self.estimated_in.fill_(epoch)
        seen = (self.visits > 0).cpu()
        predictions, given = self._averages(seen).cpu(), self.target.cpu()[seen]
        estimate: _Estimate | None
        if self.num_classes is None:
            estimate = self._estimate_targets(predictions, given)
        else:
            other = by_losses().cpu().float()[seen]
            estimate = self._estimate_classes(predictions, given, epoch, other)
        if estimate is None:
            return
        self.noise.fill_(max(float(self.noise), estimate.noise_rate))
        trust = torch.ones_like(self.trust)
        trust[seen] = 1.0 - estimate.p_incorrect.to(trust)
        self.trust.copy_(trust)
        self.least_trust.fill_(estimate.least_trust)

    def weights(self, index: Tensor) -> Tensor:
        """How far labels were trusted before the epoch, shape (batch,); 0 leaves a label out."""
        trust = self.trust[index]
        return torch.where(trust < self.least_trust, 0.0, trust)

    def weights_now(self, target: Tensor, index: Tensor) -> Tensor:
        """Weights of the labels of a batch by the latest predictions, shape (batch,)."""
        trusted = self.weights(index)
        if self.num_classes is None:
            return trusted
        noise = NoiseModel(self.sharpness, self.bias, self.log_transition, self.leak)
        right = 1.0 - noise.p_incorrect(self._averages(index), target)
        return torch.where(trusted > 0.0, right, 0.0)

    def _averages(self, samples: Tensor) -> Tensor:
        """Averaged predictions for some samples, corrected for the average's start at zero."""
        visits = self.visits[samples].clamp(min=1)
        return self.predictions[samples] / (1.0 - MOMENTUM**visits)[:, None]

    def _estimate_targets(self, predictions: Tensor, given: Tensor) -> _Estimate:
        everything = torch.ones(len(given), dtype=torch.bool)
        errors = estimate_target_errors(predictions[:, 0], given, everything, float(self.noise))
        return _Estimate(errors.p_incorrect, float(errors.p_incorrect.mean()), LEAST_TRUST)

    def _estimate_classes(
        self, predictions: Tensor, given: Tensor, epoch: int, by_losses: Tensor
    ) -> _Estimate | None:
        """Estimate by losses or by predictions; None where neither can."""
        order = torch.randperm(len(given), generator=torch.Generator().manual_seed(epoch))
        chosen = order[:MOST_FITTED]
        noise = fit_noise_model(predictions[chosen].double(), given[chosen], float(self.noise))
        by_predictions = noise.p_incorrect(predictions.double(), given).float()
        found, found_by_losses = float(by_predictions.mean()), float(by_losses.mean())
        known = max(float(self.noise), found)
        # Predictions that hide so much of the noise have memorised the labels.
        have_memorised = known - found > SAME_NOISE
        if not have_memorised:
            self._keep(noise)
        if _are_in_two_groups(by_losses) and abs(found_by_losses - known) < SAME_NOISE:
            return _Estimate(by_losses, min(found, found_by_losses), LEAST_TRUST_BY_LOSSES)
        return None if have_memorised else _Estimate(by_predictions, found, LEAST_TRUST)

    def _keep(self, noise: NoiseModel) -> None:
        self.sharpness.fill_(noise.sharpness)
        self.bias.copy_(noise.bias)
        self.log_transition.copy_(noise.log_transition)
        self.leak.fill_(noise.leak)


def _are_in_two_groups(p_incorrect: Tensor) -> bool:
    """Whether some labels are incorrect, and hardly any is in doubt."""
    found = p_incorrect.mean()
    mistakes = torch.minimum(p_incorrect, 1.0 - p_incorrect).mean()
    return bool((mistakes < MOST_MISTAKES) & (mistakes < MOST_MISTAKES_OF_FOUND * found))
