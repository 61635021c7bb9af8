"""Noise that depends on what a sample looks like (Xia et al., 2020: part-dependent noise)."""

from __future__ import annotations

import torch
from torch import Tensor

from discrimloss.data.noisy_labels import NoisyLabels, check_classes, num_samples_of

FLIP_RATE_SPREAD = 0.1
ROWS_AT_ONCE = 1024


def instance(
    clean_target: Tensor,
    rate: float,
    generator: torch.Generator,
    num_classes: int | None,
    features: Tensor,
) -> NoisyLabels:
    """Noise of which a sample's features decide what it is taken for.

    As published, every sample has a flip rate, from a normal distribution around `rate` (standard
    deviation 0.1, cut off at 0 and 1), and every class a projection of the features onto the
    classes, standard normal. The softmax of a sample's projection, without its own class, says how
    likely each wrong label is. Samples that look alike are thus mistaken for the same class.

    The published recipe throws a coin per sample. Here exactly ``round(rate * samples)`` labels are
    wrong, and a sample is among them about in proportion to its flip rate.

    Args:
        clean_target: shape (samples,), int64.
        rate: the share of all samples that is made wrong.
        generator: what is drawn from.
        num_classes: how many classes there are.
        features: shape (samples, features), floating point, e.g. the normalised pixels. Their scale
            matters: the longer a sample's vector, the more certain what it is mistaken for.
    """
    num_classes = check_classes(clean_target, num_classes, "instance")
    num_wrong = num_samples_of(rate, len(clean_target))
    _check_features(features, len(clean_target))

    flip_rates = truncated_normal(rate, len(clean_target), generator)
    chosen = choose_in_proportion(flip_rates, num_wrong, generator)
    # The largest of the logits plus Gumbel noise is a draw from their softmax.
    uniform = torch.rand(num_wrong, num_classes, generator=generator)
    gumbel = -(-uniform.clamp_min(torch.finfo(uniform.dtype).tiny).log()).log()

    target = clean_target.clone()
    clean_of_chosen = clean_target[chosen]
    for label in range(num_classes):
        # Class by class and some rows at a time: neither all projections nor a copy of the
        # features is ever in memory.
        projection = torch.randn(features.shape[1], num_classes, generator=generator)
        of_label = (clean_of_chosen == label).nonzero().flatten()
        for rows in torch.split(of_label, ROWS_AT_ONCE):
            logits = features[chosen[rows]].to(projection.dtype) @ projection
            if not logits.isfinite().all():
                raise ValueError("features hold numbers that are not finite, or far too large")
            scores = logits + gumbel[rows]
            scores[:, label] = -torch.inf
            target[chosen[rows]] = scores.argmax(dim=1)
    return NoisyLabels(target, clean_target, num_classes)


def truncated_normal(mean: float, number: int, generator: torch.Generator) -> Tensor:
    """Shape (number,), float64: normal, standard deviation 0.1, but only what is in [0, 1]."""
    ends = (torch.tensor([0.0, 1.0], dtype=torch.float64) - mean) / FLIP_RATE_SPREAD
    low, high = torch.special.ndtr(ends)
    uniform = torch.rand(number, generator=generator, dtype=torch.float64)
    standard: Tensor = torch.special.ndtri(low + (high - low) * uniform)
    return standard.mul(FLIP_RATE_SPREAD).add(mean).clamp(0, 1)


def choose_in_proportion(weights: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Exactly `number` different positions, each about as likely as its weight says.

    With coins, a sample of weight w is chosen if a uniform draw u is below w, that is if u/w is
    below 1. Taking those of the smallest u/w instead makes the number exact (Ohlsson, 1998:
    sequential Poisson sampling).
    """
    uniform = torch.rand(len(weights), generator=generator, dtype=torch.float64)
    ratio = uniform / weights.clamp_min(torch.finfo(weights.dtype).tiny)
    return ratio.argsort()[:number]


def _check_features(features: Tensor, num_samples: int) -> None:
    if not features.is_floating_point():
        raise ValueError(f"features must hold floating point numbers, not {features.dtype}")
    if features.dim() != 2 or len(features) != num_samples:
        raise ValueError(
            f"features must have shape ({num_samples}, features), not {tuple(features.shape)}"
        )
