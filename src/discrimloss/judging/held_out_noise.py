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

from discrimloss.judging.noise_model import NoiseModel
from discrimloss.judging.optimization import minimize

MOST_FITTED_ENTRIES = 2_000_000
"""Samples times classes in a fit."""
MOST_CLASSES_WITH_CONFUSION = 100
"""With more classes wrong labels are drawn evenly: there are too few samples for each pair."""
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

    model: NoiseModel
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
    rows = max(MOST_FITTED_ENTRIES // classes, 1)
    logits, given = log_probabilities[:rows].double(), given[:rows]
    with torch.inference_mode(False), torch.enable_grad():
        clean, _ = _Likelihood(logits, given, None).solve()
        even = torch.ones(classes, classes, dtype=torch.float64).fill_diagonal_(0.0)
        even = even / (classes - 1)
        problem = _Likelihood(logits, given, even)
        noisy, parameters = problem.solve()
        if 2 < classes <= MOST_CLASSES_WITH_CONFUSION:
            confusion = _confusion(predicted, trained, even)
            other = _Likelihood(logits, given, confusion)
            value, other_parameters = other.solve()
            if noisy - value > GAIN_OF_CONFUSION:
                problem, noisy, parameters = other, value, other_parameters
        model = problem.model(parameters)
    with torch.no_grad():
        rate = float(model.p_incorrect(logits, given).mean())
    return HeldOutNoise(model, rate, clean - noisy)


def _confusion(predicted: Tensor, given: Tensor, even: Tensor) -> Tensor:
    """Shape (classes, classes): how often each other label is given where a class is predicted."""
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
        wrong: shape (classes, classes): distribution of wrong labels of each class; None if no
            label is wrong.
    """

    def __init__(self, logits: Tensor, given: Tensor, wrong: Tensor | None) -> None:
        self.logits, self.given, self.wrong = logits, given, wrong
        self.classes = logits.shape[1]

    def solve(self) -> tuple[float, Tensor]:
        """The smallest negative log posterior, and the parameters that have it."""
        starts = []
        for log_sharpness, *odds in STARTS if self.wrong is not None else STARTS[:1]:
            start = torch.zeros(self.classes + 3, dtype=torch.float64)
            start[0], start[-2:] = log_sharpness, torch.tensor(odds, dtype=torch.float64)
            starts.append(start)
        found = [minimize(self._objective, start, ITERATIONS, TOLERANCE) for start in starts]
        value, parameters = min(found, key=lambda each: each[0])
        return float(value) * len(self.given), parameters.detach()

    def model(self, parameters: Tensor) -> NoiseModel:
        """The model that the parameters describe."""
        bias = parameters[1 : 1 + self.classes]
        diagonal = torch.eye(self.classes, dtype=torch.bool)
        if self.wrong is None:
            transition = torch.where(diagonal, 0.0, -torch.inf).double()
        else:
            odds, mixture = parameters[-2], parameters[-1].sigmoid()
            even = 1.0 / (self.classes - 1)
            wrong = (1.0 - mixture) * even + mixture * self.wrong
            wrong = logsigmoid(odds) + wrong.masked_fill(diagonal, 1.0).log()
            transition = torch.where(diagonal, logsigmoid(-odds), wrong)
        return NoiseModel(parameters[0].exp(), bias, transition)

    def _objective(self, parameters: Tensor) -> Tensor:
        """Negative log posterior per sample; the priors weigh as much as a few samples."""
        if self.wrong is None:
            scaled = (self.logits - self.logits.mean(1, keepdim=True)) * parameters[0].exp()
            predicted = log_softmax(scaled + parameters[1 : 1 + self.classes], 1)
            likelihood = predicted.gather(1, self.given.unsqueeze(1)).sum()
        else:
            joint = self.model(parameters).log_joint(self.logits, self.given)
            likelihood = joint.logsumexp(1).sum()
        prior = 0.5 * parameters[1 : 1 + self.classes].square().sum()
        prior = prior + 0.5 * WEAK_PRIOR * parameters[0].square()
        if self.wrong is not None:
            prior = prior + 0.5 * WEAK_PRIOR * (parameters[-2] - RARE_NOISE).square()
            prior = prior + 0.05 * parameters[-1].square()
        return (prior - likelihood) / len(self.given)
