"""The slot for the function that turns the state of a criterion into verdicts.

Judging is a layer above the core. So the core declares the function that it needs here, and
`discrimloss/__init__.py`, which knows every package, puts it in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from discrimloss.judging.verdicts import Rule, Verdicts
    from discrimloss.loss import DiscrimLoss

    Judge = Callable[[DiscrimLoss, Rule, Tensor | None], Verdicts]

_judges: list[Judge] = []


def set_judge(judge: Judge) -> None:
    """Set the function that `DiscrimLoss.verdicts` calls."""
    _judges[:] = [judge]


def judge_samples(criterion: DiscrimLoss, rule: Rule, p_incorrect: Tensor | None) -> Verdicts:
    """Judge the samples of a criterion with the function that was set."""
    (judge,) = _judges
    return judge(criterion, rule, p_incorrect)
