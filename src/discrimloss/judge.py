"""Functions of the package `judging`, which the core calls but must not import.

The package that estimates label errors is a layer above the core. The core declares here the
functions that it needs, and `discrimloss/__init__.py` sets them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from discrimloss.judging.held_out_noise import HeldOutNoise
    from discrimloss.judging.label_errors import LabelErrors
    from discrimloss.judging.verdicts import Rule, Verdicts
    from discrimloss.loss import DiscrimLoss

_functions: dict[str, Callable[..., Any]] = {}


def set_functions(**functions: Callable[..., Any]) -> None:
    """Set the functions that this module calls. Each keyword is the name of a function below."""
    _functions.update(functions)


def judge_samples(criterion: DiscrimLoss, rule: Rule, p_incorrect: Tensor | None) -> Verdicts:
    """See `judging.criterion.judge_criterion`."""
    verdicts: Verdicts = _functions["judge_samples"](criterion, rule, p_incorrect)
    return verdicts


def fit_noise(
    log_probabilities: Tensor, given: Tensor, predicted: Tensor, trained: Tensor
) -> HeldOutNoise:
    """See `judging.held_out_noise.fit_held_out_noise`."""
    found: HeldOutNoise = _functions["fit_noise"](log_probabilities, given, predicted, trained)
    return found


def target_errors(predicted: Tensor, given: Tensor, is_held_out: Tensor) -> LabelErrors:
    """See `judging.regression_noise.estimate_target_errors`."""
    errors: LabelErrors = _functions["target_errors"](predicted, given, is_held_out)
    return errors
