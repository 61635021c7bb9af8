"""Evidence for wrong labels among held-out samples.

`noise_model` estimates which labels are wrong. This module answers an earlier question, during
training and from few samples: are any labels wrong? Two models of the held-out labels are compared:

- all labels are correct, but predictions may be overconfident, underconfident or biased towards
  some classes;
- in addition, a fraction of the labels is wrong: drawn uniformly from the other classes, or from
  the classes that the network confuses on the training samples.

The gain in log posterior is the evidence. It is small on clean data with overlapping classes,
because less confident predictions explain such labels as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, logsigmoid

from discrimloss.judging.optimization import minimize
from discrimloss.label_correction import MOST_CLASSES_WITH_MATRIX

EVEN_CONFUSION = 5.0
"""Number of uniform wrong labels of each class that is added to the observed ones."""
GAIN_OF_CONFUSION = 4.0
"""Evidence that confused classes must add to be preferred over uniform wrong labels."""
STARTS = ((0.0, -2.0, -2.0), (1.0, -1.0, -2.0), (1.0, -1.5, 2.0))
"""Starting points: log of the sharpness, log-odds of the noise rate and of confused classes."""
RARE_NOISE = -3.0
"""Mean of the weak prior on the log-odds of the noise rate."""
WEAK_PRIOR = 0.05
"""Strength of the priors that draw sharpness to 1 and noise rate to `RARE_NOISE`."""
ITERATIONS, TOLERANCE = 60, 1e-6


@dataclass(frozen=True)
class HeldOutNoise:
    """The best model of the held-out labels with noise, and its evidence."""

    sharpness: float
    """Factor of the log probabilities."""
    log_transition: Tensor | None
    """Shape (classes, classes): log probability of each given label (columns) for each true class
    (rows). None with many classes, where wrong labels are uniform."""
    noise_rate: float
    """Estimated fraction of wrong labels among the held-out samples."""
    evidence: float
    """Gain in log posterior over the best model without noise."""


def fit_held_out_noise(
    log_probabilities: Tensor, given: Tensor, predicted: Tensor, trained: Tensor
) -> HeldOutNoise:
    """Fit models with and without wrong labels to held-out labels, and compare them.

    Args:
        log_probabilities: shape (held_out, classes): averaged predictions of held-out samples.
        given: shape (held_out,), int64: their labels.
        predicted: shape (samples,), int64: the most likely class of training samples.
        trained: shape (samples,), int64: their labels.
    """
    classes = log_probabilities.shape[1]
    with torch.inference_mode(False), torch.enable_grad():
        logits, given = log_probabilities.double(), given.clone()
        clean, _ = _Likelihood(logits, given, has_noise=False).solve()
        problem = _Likelihood(logits, given, has_noise=True)
        noisy, parameters = problem.solve()
        if 2 < classes <= MOST_CLASSES_WITH_MATRIX:
            confusion = _confusion(predicted, trained, classes)
            other = _Likelihood(logits, given, has_noise=True, confusion=confusion)
            value, other_parameters = other.solve()
            if noisy - value > GAIN_OF_CONFUSION:
                problem, noisy, parameters = other, value, other_parameters
    with torch.no_grad():
        joint = problem.log_joint(parameters)
        is_correct = joint.softmax(1).gather(1, given.unsqueeze(1))
        log_transition = None
        if classes <= MOST_CLASSES_WITH_MATRIX:
            log_transition = problem.log_transition(parameters)
        return HeldOutNoise(
            sharpness=float(parameters[0].exp()),
            log_transition=log_transition,
            noise_rate=float((1.0 - is_correct).mean()),
            evidence=clean - noisy,
        )


def _confusion(predicted: Tensor, given: Tensor, classes: int) -> Tensor:
    """Return the distribution of other labels for each predicted class, (classes, classes)."""
    even = torch.ones(classes, classes, dtype=torch.float64).fill_diagonal_(0.0) / (classes - 1)
    counts = torch.zeros_like(even)
    ones = torch.ones(len(given), dtype=counts.dtype)
    counts.index_put_((predicted, given), ones, accumulate=True)
    counts.fill_diagonal_(0.0)
    counts = counts + EVEN_CONFUSION * even
    return counts / counts.sum(1, keepdim=True)


class _Likelihood:
    """The likelihood of held-out labels as a function of a model's parameters.

    The parameters are: log of the sharpness; bias of each class; log-odds of the noise rate; and
    log-odds of a wrong label being drawn by `confusion` instead of uniformly.

    Args:
        logits: shape (samples, classes), float64.
        given: shape (samples,), int64.
        has_noise: whether some labels are wrong.
        confusion: shape (classes, classes): distribution of wrong labels of each class. None if
            they are uniform.
    """

    def __init__(
        self, logits: Tensor, given: Tensor, *, has_noise: bool, confusion: Tensor | None = None
    ) -> None:
        self.logits = logits - logits.mean(1, keepdim=True)
        self.given, self.has_noise, self.confusion = given, has_noise, confusion
        self.classes = logits.shape[1]

    def solve(self) -> tuple[float, Tensor]:
        """Return the smallest negative log posterior, and its parameters."""
        starts = []
        for log_sharpness, *odds in STARTS if self.has_noise else STARTS[:1]:
            start = torch.zeros(self.classes + 3, dtype=torch.float64)
            start[0], start[-2:] = log_sharpness, torch.tensor(odds, dtype=torch.float64)
            starts.append(start)
        found = [minimize(self._objective, start, ITERATIONS, TOLERANCE) for start in starts]
        value, parameters = min(found, key=lambda each: each[0])
        return float(value) * len(self.given), parameters.detach()

    def log_transition(self, parameters: Tensor) -> Tensor:
        """Return the log probability of each given label for each true class."""
        return self._log_given(parameters, torch.arange(self.classes)).T

    def _log_given(self, parameters: Tensor, given: Tensor) -> Tensor:
        """Return the log probability of some labels for each true class, (labels, classes)."""
        is_correct = torch.arange(self.classes) == given.unsqueeze(1)
        odds, mixture = parameters[-2], parameters[-1].sigmoid()
        wrong = torch.full_like(is_correct, 1.0 / (self.classes - 1), dtype=torch.float64)
        if self.confusion is not None:
            wrong = (1.0 - mixture) * wrong + mixture * self.confusion.T[given]
        wrong = logsigmoid(odds) + wrong.masked_fill(is_correct, 1.0).log()
        return torch.where(is_correct, logsigmoid(-odds), wrong)

    def log_joint(self, parameters: Tensor) -> Tensor:
        """Return the log probability of true class and given label, (samples, classes)."""
        bias = parameters[1 : 1 + self.classes]
        true = log_softmax(self.logits * parameters[0].exp() + bias, 1)
        return true + self._log_given(parameters, self.given)

    def _objective(self, parameters: Tensor) -> Tensor:
        """Return the negative log posterior per sample. Priors have the weight of a few samples."""
        bias = parameters[1 : 1 + self.classes]
        prior = 0.5 * bias.square().sum() + 0.5 * WEAK_PRIOR * parameters[0].square()
        if self.has_noise:
            likelihood = self.log_joint(parameters).logsumexp(1).sum()
            prior = prior + 0.5 * WEAK_PRIOR * (parameters[-2] - RARE_NOISE).square()
            prior = prior + 0.05 * parameters[-1].square()
        else:
            predicted = log_softmax(self.logits * parameters[0].exp() + bias, 1)
            likelihood = predicted.gather(1, self.given.unsqueeze(1)).sum()
        return (prior - likelihood) / len(self.given)
