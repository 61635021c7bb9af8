"""The metrics that the integrations log."""

from __future__ import annotations

from discrimloss.loss import DiscrimLoss

PREFIX = "discrimloss/"


def metrics_due(
    criterion: DiscrimLoss, epoch: int, log_every: int | None, *, is_last: bool
) -> dict[str, float]:
    """Return the metrics to log after an epoch.

    Args:
        criterion: the criterion of the run.
        epoch: the epoch that ends.
        log_every: None logs ``k_dyn`` after every epoch and all metrics after the last one. A
            positive number logs all metrics each time this many epochs have passed. 0 logs nothing.
        is_last: whether it is the last epoch.
    """
    if log_every is None:
        return sample_metrics(criterion, with_verdicts=is_last)
    return sample_metrics(criterion) if log_every and epoch % log_every == 0 else {}


def sample_metrics(criterion: DiscrimLoss, *, with_verdicts: bool = True) -> dict[str, float]:
    """Return ``k_dyn``, the estimated noise rate and the fraction of each verdict, for a tracker.

    Args:
        criterion: the criterion of the run.
        with_verdicts: False returns only ``k_dyn``, at no cost. Computing verdicts takes about a
            second.
    """
    if not with_verdicts:
        return {PREFIX + "k_dyn": criterion.k_dyn}
    verdicts = criterion.verdicts()
    rate = verdicts.noise_rate
    values = {"k_dyn": criterion.k_dyn}
    if rate is not None:  # None if it cannot be estimated
        values["noise_estimate"] = rate
    for label, number in verdicts.counts.items():
        values[f"share_{label}"] = number / len(verdicts)
    return {PREFIX + name: value for name, value in values.items()}
