"""Mixup (Zhang et al. 2018): steps on mixtures of two samples, for any method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from discrimloss.options import OptionError
from discrimloss.training.methods.base import Batch, Mixture


def mixture_weight(alpha: float, generator: torch.Generator) -> float:
    """Return the weight of a row's own sample, at least 0.5: ``lambda`` from Beta(alpha, alpha).

    Mixtures are symmetric, so the sample with the larger weight counts as the row's own.
    """
    seed = torch.randint(2**62, (), generator=generator, device=generator.device)
    drawn = float(np.random.default_rng(int(seed)).beta(alpha, alpha))
    return max(drawn, 1.0 - drawn)


def mixed(batch: Batch, alpha: float, generator: torch.Generator) -> Batch:
    """Return a batch in which every input is mixed with that of another row.

    Args:
        batch: the batch. Its inputs must be one tensor of real numbers.
        alpha: parameter of the Beta distribution of the weight.
        generator: random generator, on the device of the batch.
    """
    inputs = batch.inputs
    if not isinstance(inputs, Tensor) or not inputs.is_floating_point():
        raise OptionError(
            "mixup mixes inputs that are real numbers, such as images, and these are not: "
            "set mixup=0"
        )
    weight = mixture_weight(alpha, generator)
    order = torch.randperm(len(inputs), generator=generator, device=generator.device)
    order = order.to(inputs.device)
    other = Mixture(weight, batch.target[order], batch.index[order])
    return replace(batch, inputs=weight * inputs + (1.0 - weight) * inputs[order], mixture=other)
