"""Probabilities that class labels are wrong, estimated from a model's predictions.

A loss alone cannot tell a hard sample from a wrong label; the whole prediction can. Where the model
is unsure, a label that it did not expect says little. Where it is sure, either the model or the
label is wrong, and the rate of such conflicts among sure predictions is the noise rate. So two
things are fitted to the given labels by maximum likelihood:

- how predictions translate into probabilities of the true class: a sharpness and a bias per class;
- how true classes turn into given labels: a transition matrix, drawn towards uniform noise.

Together they give each sample the probabilities of its true class, from its prediction and its
given label.

Where predictions are unsure, many noise rates explain the labels equally well: classes that overlap
look like noise. So the likelihood of all noise rates is computed, and the rate that is used lies in
the upper part of the plausible ones, see `PLAUSIBLE_QUANTILE`. Where the labels determine the rate,
this is the rate of the best fit; where they do not, its errors are balanced.

A model memorises the labels that it is trained on, so both are fitted to samples that were held out
of training. The memorised part is removed from the predictions for the training samples: the logit
of each given label is lowered by the same amount, so that both groups have the same noise rate.
Where hardly any wrong label was memorised, the training samples, fitted by themselves, show at
least the noise of the held-out ones; then their own fit is used.
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
"""Samples that decide between the two priors."""
MOST_CLASSES_WITH_SPREAD = 300
"""With more classes noise is uniform."""
CLEARLY_LIKELIER = 10.0
"""How much higher the held-out log likelihood must be before errors are taken to go mostly to one
other class. With less, classes that overlap look like wrong labels (wine_quality)."""
MOST_FITTED = 10_000
"""Samples in a fit. With more, the interval is no narrower: a misfit of the model decides it."""
MOST_FITTED_ENTRIES, FEWEST_FITTED = 400_000, 2000
"""The same for samples times classes, unless the samples are fewer than the second value."""
NOISE_RATES = (0.002, 0.01, 0.03, 0.06, 0.1, 0.15, 0.22, 0.3, 0.4, 0.5, 0.65, 0.8)
"""Common noise rates whose likelihood is computed."""
PLAUSIBLE_QUANTILE = 0.8
"""Which quantile of the plausible noise rates is used. Chosen on texts and tables with clean and
with known wrong labels: higher ones call too many clean labels incorrect, lower ones find too few
wrong labels where classes overlap."""
IMPLAUSIBLE = 8.0
"""Rates whose log likelihood is below the best by more are not tried."""
LARGE_PROBLEM = 150_000
"""Samples times classes of a problem that starts from the solution of a small one."""
LARGEST_LEAK = 3.0
"""The largest effect of memorising on a logit, in standard deviations of the logits."""
CHUNK = 1 << 22
"""Entries processed at once."""


def estimate_class_errors(logits: Tensor, given: Tensor, is_held_out: Tensor) -> LabelErrors:
    """Estimate which labels of a classification are wrong.

    Args:
        logits: shape (samples, classes): mean predictions for all samples.
        given: shape (samples,), int64.
        is_held_out: shape (samples,), bool: which samples the model was not trained on. If none
            was held out, all count as held out, and memorised noise goes unnoticed.
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
    """A random subset of the chosen samples, large enough to fit a model to."""
    rows = chosen.nonzero()[:, 0]
    most = min(MOST_FITTED, max(MOST_FITTED_ENTRIES // logits.shape[1], FEWEST_FITTED))
    return rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:most]]


def _model_of_trained(model: NoiseModel, rate: float, logits: Tensor, given: Tensor) -> NoiseModel:
    """The model of training samples.

    Args:
        model: fitted to the held-out samples.
        rate: their noise rate. The result finds no less.
        logits: of training samples.
        given: their labels.
    """
    problem, parameters = _fit(logits, given)
    own = problem.model(parameters)
    if float(own.p_incorrect(logits, given).mean()) >= rate:
        return own
    return _with_leak(model, rate, logits, given)


def _fit(logits: Tensor, given: Tensor) -> tuple[LabelLikelihood, Tensor]:
    """Fit all but the leak, with the form of noise under which held-out labels are likeliest."""
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
    """The prior under which a model of half of the samples predicts the other half best.

    Returns:
        The prior, and the parameters fitted with it to one half.
    """
    likelihoods, solutions = dict.fromkeys(PRIORS, 0.0), {}
    for own, other in _halves(logits, given):
        start = None
        for prior in PRIORS:  # a weaker prior moves on from where a firm one ends
            problem = LabelLikelihood(*own, prior)
            start = solutions[prior] = problem.solve(start)
            likelihoods[prior] += _log_likelihood(problem.model(start), *other)
    *firm, weak = PRIORS
    best = max(firm, key=lambda prior: likelihoods[prior])
    if likelihoods[weak] > likelihoods[best] + CLEARLY_LIKELIER:
        best = weak
    return best, solutions[best]


def _has_spread(logits: Tensor, given: Tensor) -> tuple[bool, Tensor]:
    """Whether errors clearly go to the classes that predictions confuse, not to all alike.

    Returns:
        That, and the parameters fitted in this form to one half.
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
    """Both ways to fit a model to one half of the samples and to test it on the other."""
    first, second = ((logits[start::2], given[start::2]) for start in (0, 1))
    return (first, second), (second, first)


def _log_likelihood(model: NoiseModel, logits: Tensor, given: Tensor) -> float:
    return float(model.log_joint(logits, given).logsumexp(1).sum())


def _plausible(problem: LabelLikelihood, best: Tensor) -> tuple[Tensor, tuple[float, float]]:
    """Parameters with a noise rate in the upper part of the plausible ones.

    Args:
        problem: the labels.
        best: the likeliest parameters.

    Returns:
        The parameters, and the range of the fraction of wrong labels that holds 90 % of the
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
    # High rates are rarer in practice than the likelihood alone would have it.
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
    """Linear between the places, constant outside."""
    right = torch.searchsorted(places, at).clamp(1, len(places) - 1)
    left = right - 1
    part = ((at - places[left]) / (places[right] - places[left])).clamp(0.0, 1.0)
    return torch.lerp(values[left], values[right], part)


def _with_leak(model: NoiseModel, rate: float, logits: Tensor, given: Tensor) -> NoiseModel:
    """The same model, with the leak under which it finds this noise rate."""

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
    """Write log-odds, suggestions and likeliest other classes of the chosen samples."""
    rows_at_once = max(CHUNK // logits.shape[1], 1)
    for rows in torch.split(chosen.nonzero()[:, 0], rows_at_once):
        labels, place = given[rows], torch.arange(len(rows))
        joint = model.log_joint(logits[rows], labels)  # in the precision of the logits
        correct = joint[place, labels]
        joint[place, labels] = -torch.inf
        score[rows] = (joint.logsumexp(1) - correct).float()
        highest, other[rows] = joint.max(1)
        # A label can be likelier than any other class, and still more likely wrong than right.
        is_other = (score[rows] > 0) | (highest > correct)
        suggested[rows] = torch.where(is_other, other[rows], labels)
