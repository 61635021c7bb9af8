"""Metrics of the samples that the integrations log."""

from __future__ import annotations

from discrimloss.loss import DiscrimLoss

PREFIX = "discrimloss/"


def metrics_due(
    criterion: DiscrimLoss, epoch: int, log_every: int | None, *, is_last: bool
) -> dict[str, float]:
    """What to log after an epoch.

    Args:
        criterion: of the run.
        epoch: the one that ends.
        log_every: None logs ``k_dyn`` after every epoch and all metrics after the last one; a
            number logs all metrics every this many epochs; 0 logs nothing.
        is_last: whether it is the last epoch.
    """
    if log_every is None:
        return sample_metrics(criterion, with_verdicts=is_last)
    return sample_metrics(criterion) if log_every and epoch % log_every == 0 else {}


def sample_metrics(criterion: DiscrimLoss, *, with_verdicts: bool = True) -> dict[str, float]:
    """``k_dyn``, the estimated noise rate and the fraction of each verdict, for a tracker.

    Args:
        criterion: of the run.
        with_verdicts: False gives ``k_dyn`` alone, at no cost. Verdicts take a pass over all
            samples and a calibration, about a second.
    """
    if not with_verdicts:
        return {PREFIX + "k_dyn": criterion.k_dyn}
    verdicts = criterion.verdicts()
    rate = verdicts.noise_rate
    values = {"k_dyn": criterion.k_dyn}
    if rate is not None:  # a run that cannot tell has none
        values["noise_estimate"] = rate
    for label, number in verdicts.counts.items():
        values[f"share_{label}"] = number / len(verdicts)
    return {PREFIX + name: value for name, value in values.items()}
