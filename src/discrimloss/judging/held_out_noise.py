"""Evidence for wrong labels among samples that a network has not learned from.

`noise_model` estimates which labels are wrong. This module answers an earlier question, during
training and from few samples: are labels wrong at all? Two models of the held-out labels compete:

- all labels are correct, and predictions are too sharp or too soft, or biased towards some classes;
- in addition a fraction of the labels is wrong: drawn evenly from the other classes, or from the
  classes that the network confuses on the training samples.

The gain in log posterior is the evidence. It is small on clean data whose classes overlap, because
a softer prediction explains such labels as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, logsigmoid

from discrimloss.judging.optimization import minimize
from discrimloss.label_correction import MOST_CLASSES_WITH_MATRIX

EVEN_CONFUSION = 5.0
"""Wrong labels of each class, drawn evenly, that are counted besides those that were seen."""
GAIN_OF_CONFUSION = 4.0
"""Evidence that confused classes must add to be preferred over wrong labels drawn evenly."""
STARTS = ((0.0, -2.0, -2.0), (1.0, -1.0, -2.0), (1.0, -1.5, 2.0))
"""Starting points: log of the sharpness, log-odds of the noise rate and of confused classes."""
RARE_NOISE = -3.0
"""Log-odds that the noise rate is weakly drawn to."""
WEAK_PRIOR = 0.05
"""How firmly sharpness and noise rate are drawn to 1 and to `RARE_NOISE`."""
ITERATIONS, TOLERANCE = 60, 1e-6


@dataclass(frozen=True)
class HeldOutNoise:
    """The better model of the held-out labels with noise, and the evidence for it."""

    sharpness: float
    """Factor of the log probabilities."""
    log_transition: Tensor | None
    """Shape (classes, classes): log probability of each given label (columns) for each true class
    (rows). None with many classes, where wrong labels are drawn evenly."""
    noise_rate: float
    """Estimated fraction of wrong labels among the held-out samples."""
    evidence: float
    """Gain in log posterior over the best model without noise."""


def fit_held_out_noise(
    log_probabilities: Tensor, given: Tensor, predicted: Tensor, trained: Tensor
) -> HeldOutNoise:
    """Fit both models to held-out labels.

    Args:
        log_probabilities: shape (held_out, classes): averaged predictions of held-out samples.
        given: shape (held_out,), int64: their labels.
        predicted: shape (samples,), int64: the likeliest class of training samples.
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
    """Shape (classes, classes): how often each other label is given where a class is predicted."""
    even = torch.ones(classes, classes, dtype=torch.float64).fill_diagonal_(0.0) / (classes - 1)
    counts = torch.zeros_like(even)
    ones = torch.ones(len(given), dtype=counts.dtype)
    counts.index_put_((predicted, given), ones, accumulate=True)
    counts.fill_diagonal_(0.0)
    counts = counts + EVEN_CONFUSION * even
    return counts / counts.sum(1, keepdim=True)


class _Likelihood:
    """The labels of held-out samples as a function of the parameters of a model.

    The parameters are: log of the sharpness; bias of each class; log-odds of the noise rate; and
    log-odds of a wrong label being one that is drawn by `wrong` instead of evenly.

    Args:
        logits: shape (samples, classes), float64.
        given: shape (samples,), int64.
        has_noise: whether some labels are wrong.
        confusion: shape (classes, classes): distribution of wrong labels of each class; None if
            they are drawn evenly, which takes no matrix.
    """

    def __init__(
        self, logits: Tensor, given: Tensor, *, has_noise: bool, confusion: Tensor | None = None
    ) -> None:
        self.logits = logits - logits.mean(1, keepdim=True)
        self.given, self.has_noise, self.confusion = given, has_noise, confusion
        self.classes = logits.shape[1]

    def solve(self) -> tuple[float, Tensor]:
        """The smallest negative log posterior, and the parameters that have it."""
        starts = []
        for log_sharpness, *odds in STARTS if self.has_noise else STARTS[:1]:
            start = torch.zeros(self.classes + 3, dtype=torch.float64)
            start[0], start[-2:] = log_sharpness, torch.tensor(odds, dtype=torch.float64)
            starts.append(start)
        found = [minimize(self._objective, start, ITERATIONS, TOLERANCE) for start in starts]
        value, parameters = min(found, key=lambda each: each[0])
        return float(value) * len(self.given), parameters.detach()

    def log_transition(self, parameters: Tensor) -> Tensor:
        """Shape (classes, classes): log probability of each given label for each true class."""
        return self._log_given(parameters, torch.arange(self.classes)).T

    def _log_given(self, parameters: Tensor, given: Tensor) -> Tensor:
        """Shape (labels, classes): log probability of some labels for each true class."""
        is_correct = torch.arange(self.classes) == given.unsqueeze(1)
        odds, mixture = parameters[-2], parameters[-1].sigmoid()
        wrong = torch.full_like(is_correct, 1.0 / (self.classes - 1), dtype=torch.float64)
        if self.confusion is not None:
            wrong = (1.0 - mixture) * wrong + mixture * self.confusion.T[given]
        wrong = logsigmoid(odds) + wrong.masked_fill(is_correct, 1.0).log()
        return torch.where(is_correct, logsigmoid(-odds), wrong)

    def log_joint(self, parameters: Tensor) -> Tensor:
        """Shape (samples, classes): log probability of the true class and the given label."""
        bias = parameters[1 : 1 + self.classes]
        true = log_softmax(self.logits * parameters[0].exp() + bias, 1)
        return true + self._log_given(parameters, self.given)

    def _objective(self, parameters: Tensor) -> Tensor:
        """Negative log posterior per sample; the priors weigh as much as a few samples."""
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
