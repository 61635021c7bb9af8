"""Metrics of the samples that the integrations log."""

from __future__ import annotations

import math

from discrimloss.loss import DiscrimLoss

PREFIX = "discrimloss/"


def sample_metrics(criterion: DiscrimLoss) -> dict[str, float]:
    """``k_dyn``, the estimated noise rate and the fraction of each verdict, for a tracker.

    This takes a pass over all samples and a calibration: call it once an epoch, not once a step.
    """
    verdicts = criterion.verdicts()
    rate = verdicts.noise_rate
    values = {"k_dyn": criterion.k_dyn, "noise_estimate": math.nan if rate is None else rate}
    for label, number in verdicts.counts.items():
        values[f"share_{label}"] = number / len(verdicts)
    return {PREFIX + name: value for name, value in values.items()}
