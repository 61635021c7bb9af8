"""Estimates the probabilities that class labels are wrong from a model's predictions.

A loss alone cannot distinguish a hard sample from a wrong label, but the whole prediction can. If
the model is unsure, an unexpected label is weak evidence. If it is sure, either the model or the
label is wrong, and the rate of such conflicts among sure predictions is the noise rate. So two
things are fitted to the given labels by maximum likelihood:

- the map from predictions to probabilities of the true class: a sharpness, and a bias per class;
- the map from true classes to given labels: a transition matrix, drawn towards uniform noise.

Together they give the probabilities of each sample's true class, from its prediction and its given
label.

If predictions are unsure, many noise rates explain the labels equally well, because overlapping
classes look like noise. So the likelihood of all noise rates is computed, and a rate in the upper
part of the plausible ones is used, see `PLAUSIBLE_QUANTILE`. If the labels determine the rate, this
is the rate of the best fit. Otherwise, its errors in both directions are balanced.

A model memorises its training labels, so both maps are fitted to held-out samples. The memorised
part is removed from the predictions of training samples: the logit of each given label is lowered
by the same amount, so that training and held-out samples have the same noise rate. If almost no
wrong label was memorised, a separate fit to the training samples finds at least as much noise as
there is among the held-out samples. In this case, the separate fit is used.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from discrimloss.judging.label_errors import LabelErrors
from discrimloss.judging.noise_interval import noise_interval
from discrimloss.judging.noise_likelihood import (
    MOST_CLASSES_WITH_OWN_NOISE,
    PRIORS,
    LabelLikelihood,
    NoiseModel,
    centred,
    mistaken_classes,
)
from discrimloss.judging.optimization import bisect_root

MOST_COMPARED = 4000
"""Number of samples used to choose between the two priors."""
MOST_CLASSES_WITH_SPREAD = 300
"""With more classes, noise is uniform."""
CLEARLY_LIKELIER = 10.0
"""Minimum gain in held-out log likelihood for the assumption that errors mostly go to one other
class. With a smaller gain, overlapping classes look like wrong labels (wine_quality)."""
MOST_FITTED = 10_000
"""Maximum number of samples in a fit. More do not make the interval narrower."""
MOST_FITTED_ENTRIES, FEWEST_FITTED = 400_000, 2000
"""Maximum number of samples times classes, unless there are fewer samples than the second value."""
NOISE_RATES = (0.002, 0.01, 0.03, 0.06, 0.1, 0.15, 0.22, 0.3, 0.4, 0.5, 0.65, 0.8)
"""Noise rates whose likelihood is computed."""
PLAUSIBLE_QUANTILE = 0.8
"""The quantile of the plausible noise rates that is used. Chosen on texts and tables with clean and
with known wrong labels. Higher ones call too many clean labels incorrect, and lower ones find too
few wrong labels if classes overlap."""
IMPLAUSIBLE = 8.0
"""Higher and lower rates are tried until the log likelihood is this far below the best."""
LARGE_PROBLEM = 150_000
"""From this number of samples times classes on, a fit starts from the solution of a small one."""
LARGEST_LEAK = 3.0
"""The largest effect of memorisation on a logit, in standard deviations of the logits."""
CHUNK = 1 << 22
"""Number of entries processed at once."""


def estimate_class_errors(logits: Tensor, given: Tensor, is_held_out: Tensor) -> LabelErrors:
    """Estimate which class labels are wrong.

    Args:
        logits: shape (samples, classes): mean predictions for all samples.
        given: shape (samples,), int64.
        is_held_out: shape (samples,), bool: samples that the model was not trained on. If there are
            none, all samples count as held out, and memorised noise is not detected.
    """
    if not is_held_out.any():
        is_held_out = torch.ones_like(is_held_out)
    held, trained = (_random_rows(rows, logits) for rows in (is_held_out, ~is_held_out))
    problem, parameters = _fit(logits[held].double(), given[held])
    variance = problem.rate_variance(parameters)
    parameters, plausible = _plausible(problem, parameters)
    model = problem.model(parameters)
    score, other = torch.empty(len(given)), torch.empty_like(given)
    suggested = torch.empty_like(given)
    _fill_in(model, logits, given, is_held_out, score, suggested, other)
    if len(trained):
        rate = float(model.p_incorrect(logits[held].double(), given[held]).mean())
        of_trained = _model_of_trained(model, rate, logits[trained].double(), given[trained])
        _fill_in(of_trained, logits, given, ~is_held_out, score, suggested, other)
    interval = noise_interval(score.double().sigmoid(), variance, plausible=plausible)
    return LabelErrors(score, suggested, interval, other)


def _random_rows(chosen: Tensor, logits: Tensor) -> Tensor:
    """Return a random subset of the chosen samples, large enough for a fit."""
    rows = chosen.nonzero()[:, 0]
    most = min(MOST_FITTED, max(MOST_FITTED_ENTRIES // logits.shape[1], FEWEST_FITTED))
    return rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:most]]


def _model_of_trained(model: NoiseModel, rate: float, logits: Tensor, given: Tensor) -> NoiseModel:
    """Return the model of training samples.

    Args:
        model: the model fitted to the held-out samples.
        rate: noise rate of the held-out samples. The result has at least this rate.
        logits: logits of the training samples.
        given: labels of the training samples.
    """
    problem, parameters = _fit(logits, given)
    own = problem.model(parameters)
    if float(own.p_incorrect(logits, given).mean()) >= rate:
        return own
    return _with_leak(model, rate, logits, given)


def _fit(logits: Tensor, given: Tensor) -> tuple[LabelLikelihood, Tensor]:
    """Fit all parameters except the leak, with the form of noise that fits held-out labels best."""
    prior, spread, start = PRIORS[0], None, None
    some = (logits[:MOST_COMPARED], given[:MOST_COMPARED])
    if len(given) >= 4 and logits.shape[1] <= MOST_CLASSES_WITH_OWN_NOISE:
        prior, start = _likeliest_prior(*some)
    elif len(given) >= 4 and logits.shape[1] <= MOST_CLASSES_WITH_SPREAD:
        has_spread, start = _has_spread(*some)
        spread = mistaken_classes(logits, given) if has_spread else None
    problem = LabelLikelihood(logits, given, prior, spread)
    is_large = len(given) > MOST_COMPARED or len(given) * logits.shape[1] > LARGE_PROBLEM
    # A large problem starts from the solution of a small one.
    return problem, problem.solve(start if is_large else None)


def _likeliest_prior(logits: Tensor, given: Tensor) -> tuple[float, Tensor]:
    """Choose the prior with which a model of one half of the samples best predicts the other.

    Returns:
        The prior, and the parameters fitted with it to one half.
    """
    likelihoods, solutions = dict.fromkeys(PRIORS, 0.0), {}
    for own, other in _halves(logits, given):
        start = None
        for prior in PRIORS:  # weaker priors start from the solution of stronger ones
            problem = LabelLikelihood(*own, prior)
            start = solutions[prior] = problem.solve(start)
            likelihoods[prior] += _log_likelihood(problem.model(start), *other)
    *firm, weak = PRIORS
    best = max(firm, key=lambda prior: likelihoods[prior])
    if likelihoods[weak] > likelihoods[best] + CLEARLY_LIKELIER:
        best = weak
    return best, solutions[best]


def _has_spread(logits: Tensor, given: Tensor) -> tuple[bool, Tensor]:
    """Return whether errors clearly go to the classes that predictions confuse.

    Returns:
        The answer, and the parameters fitted in this form to one half.
    """
    gain = 0.0
    for own, other in _halves(logits, given):
        even = LabelLikelihood(*own, PRIORS[0])
        spread = LabelLikelihood(*own, PRIORS[0], mistaken_classes(*own))
        of_even = even.solve()
        of_spread = spread.solve(of_even)
        gain += _log_likelihood(spread.model(of_spread), *other)
        gain -= _log_likelihood(even.model(of_even), *other)
    has_spread = gain > CLEARLY_LIKELIER
    return has_spread, of_spread if has_spread else of_even


Half = tuple[Tensor, Tensor]


def _halves(logits: Tensor, given: Tensor) -> tuple[tuple[Half, Half], tuple[Half, Half]]:
    """Return both ways to fit a model to one half of the samples and test it on the other."""
    first, second = ((logits[start::2], given[start::2]) for start in (0, 1))
    return (first, second), (second, first)


def _log_likelihood(model: NoiseModel, logits: Tensor, given: Tensor) -> float:
    return float(model.log_joint(logits, given).logsumexp(1).sum())


def _plausible(problem: LabelLikelihood, best: Tensor) -> tuple[Tensor, tuple[float, float]]:
    """Return parameters with a noise rate in the upper part of the plausible ones.

    Args:
        problem: the likelihood.
        best: the most likely parameters.

    Returns:
        The parameters, and the interval of the fraction of wrong labels that contains 90 % of the
        plausible noise rates.
    """
    tried: dict[int, tuple[float, Tensor]] = {}
    odds = [math.log(rate / (1.0 - rate)) for rate in NOISE_RATES]
    nearest = min(range(len(odds)), key=lambda place: abs(odds[place] - float(best[1])))
    for places in (range(nearest, len(odds)), range(nearest - 1, -1, -1)):
        start = best if nearest not in tried else tried[nearest][1]
        for place in places:
            tried[place] = problem.solve_with(odds[place], start)
            start = tried[place][1]
            if tried[place][0] - min(value for value, _ in tried.values()) > IMPLAUSIBLE:
                break
    lowest = min(value for value, _ in tried.values())
    rates = torch.tensor([NOISE_RATES[place] for place in sorted(tried)], dtype=torch.float64)
    loss = torch.tensor([tried[place][0] - lowest for place in sorted(tried)], dtype=torch.float64)
    fine = torch.linspace(0.0, float(rates[-1]), 2001, dtype=torch.float64)[1:]
    # A prior on the rate: in practice, high rates are rarer than the likelihood alone suggests.
    density = (2.0 * torch.log1p(-fine) - _interpolated(fine, rates, loss)).exp()
    below = density.cumsum(0) / density.sum()

    def at_quantile(quantile: float) -> Tensor:
        rate = float(fine[int((below < quantile).sum().clamp(max=len(fine) - 1))])
        place = min(tried, key=lambda place: abs(NOISE_RATES[place] - rate))
        return problem.solve_with(math.log(rate / (1.0 - rate)), tried[place][1])[1]

    def wrong(parameters: Tensor) -> float:
        model = problem.model(parameters)
        return float(model.p_incorrect(problem.logits, problem.given).mean())

    low, high = wrong(at_quantile(0.05)), wrong(at_quantile(0.95))
    return at_quantile(PLAUSIBLE_QUANTILE), (low, high)


def _interpolated(at: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Interpolate linearly between the places, constant outside."""
    right = torch.searchsorted(places, at).clamp(1, len(places) - 1)
    left = right - 1
    part = ((at - places[left]) / (places[right] - places[left])).clamp(0.0, 1.0)
    return torch.lerp(values[left], values[right], part)


def _with_leak(model: NoiseModel, rate: float, logits: Tensor, given: Tensor) -> NoiseModel:
    """Return the model with the leak at which it finds this noise rate."""

    def rate_with(leak: float) -> float:
        return float(replace(model, leak=leak).p_incorrect(logits, given).mean())

    highest = LARGEST_LEAK * float(centred(logits).std())
    return replace(model, leak=bisect_root(rate, rate_with, highest))


def _fill_in(
    model: NoiseModel,
    logits: Tensor,
    given: Tensor,
    chosen: Tensor,
    score: Tensor,
    suggested: Tensor,
    other: Tensor,
) -> None:
    """Write log-odds, suggestions and most likely other classes of the chosen samples."""
    rows_at_once = max(CHUNK // logits.shape[1], 1)
    for rows in torch.split(chosen.nonzero()[:, 0], rows_at_once):
        labels, place = given[rows], torch.arange(len(rows))
        joint = model.log_joint(logits[rows], labels)  # in the precision of the logits
        correct = joint[place, labels]
        joint[place, labels] = -torch.inf
        score[rows] = (joint.logsumexp(1) - correct).float()
        highest, other[rows] = joint.max(1)
        # A label can be more likely than any other class, and still more likely wrong than correct.
        is_other = (score[rows] > 0) | (highest > correct)
        suggested[rows] = torch.where(is_other, other[rows], labels)
