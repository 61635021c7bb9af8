"""Metrics of a method's verdicts on labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score, roc_auc_score

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Figures = dict[str, float | None]
BINS = 15


@dataclass(frozen=True)
class Finding:
    """A method's verdict on each label."""

    flagged: Flags
    """Shape (samples,): whether a label is flagged, at the method's own threshold."""
    noise_estimate: float | None
    """The estimated fraction of wrong labels; None if the method makes no estimate."""
    suspicion: Floats | None = None
    """Shape (samples,): higher is more suspicious; None for a method that does not rank."""
    p_incorrect: Floats | None = None
    """Shape (samples,): label-error probabilities; None for a method that gives none."""
    noise_interval: tuple[float, float] | None = None
    """Interval of the fraction of wrong labels; None for a method that gives none."""


def judge(finding: Finding, is_wrong: Flags) -> Figures:
    """Return the metrics of a method. A metric is None if undefined, e.g. if nothing is flagged."""
    flagged, interval = finding.flagged, finding.noise_interval
    hits = int((flagged & is_wrong).sum())
    has_both = is_wrong.any() and not is_wrong.all()
    ranks = has_both and finding.suspicion is not None
    return {
        "auroc": float(roc_auc_score(is_wrong, finding.suspicion)) if ranks else None,
        "average_precision": (
            float(average_precision_score(is_wrong, finding.suspicion)) if ranks else None
        ),
        "f1": 2 * hits / int(flagged.sum() + is_wrong.sum()) if is_wrong.any() else None,
        "precision": hits / int(flagged.sum()) if flagged.any() else None,
        "recall": hits / int(is_wrong.sum()) if is_wrong.any() else None,
        "flagged": float(flagged.mean()),
        "noise_true": float(is_wrong.mean()),
        "noise_estimate": finding.noise_estimate,
        "interval_low": None if interval is None else interval[0],
        "interval_high": None if interval is None else interval[1],
        "calibration_error": (
            None
            if finding.p_incorrect is None
            else calibration_error(finding.p_incorrect, is_wrong)
        ),
    }


def calibration_error(p_incorrect: Floats, is_wrong: Flags, bins: int = BINS) -> float:
    """Return the expected calibration error, over bins of equal width weighted by their counts.

    >>> p = np.array([0.0, 0.0, 0.9, 0.9])
    >>> round(calibration_error(p, np.array([False, True, True, True])), 3)
    0.3
    """
    place = np.minimum((p_incorrect * bins).astype(np.int64), bins - 1)
    said = np.bincount(place, p_incorrect, bins)
    wrong = np.bincount(place, is_wrong.astype(np.float64), bins)
    return float(np.abs(said - wrong).sum() / len(is_wrong))
