"""The form of the authors' released code, `variant="released"`.

`docs/loss.md` lists the differences. `functional.PaperForm` is the paper's form.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrimloss import functional as F
from discrimloss.visits import Visits, group_visits

if TYPE_CHECKING:
    from discrimloss.criterion_state import CriterionState
    from discrimloss.hyperparameters import Hyperparameters
    from discrimloss.state.exchange import Batch

RELEASED_MOMENTUM = 0.9
"""Momentum of the sample weights. It multiplies their steps by ``1 / (1 - 0.9)``."""


def released_defaults(epochs: int | None) -> dict[str, Any]:
    """Return the released hyperparameters for CIFAR-10 with 20 to 60 % noise, for `epochs`."""
    defaults: dict[str, Any] = {
        "threshold": "ema",
        "switch_gain": 0.27,
        "switch_rate": 0.54,
        "suppressed_epochs": 3,
        "regularization": 0.0,
        "history_decay": 0.9,
        "weight_lr": 2.61,
        "relative_weight_lr": 0.0,
        "weight_range": (math.exp(0.079), 20.0),
    }
    if epochs is not None:
        defaults["switch_epoch"] = 0.5 * epochs
    return defaults


class ReleasedForm:
    """The equations of the released code.

    They differ from the paper's form by momentum, the gradient of the batch mean, a summed
    regulariser, and a correction by epochs instead of visits.

    Args:
        hyperparameters: hyperparameters of the criterion.
    """

    has_velocity = True

    def __init__(self, hyperparameters: Hyperparameters) -> None:
        self.hyperparameters = hyperparameters

    def epoch_terms(self, epoch: int) -> F.EpochTerms:
        """Return ``ES = e / 10`` up to ``e_s``, a switch one epoch later and a falling gradient."""
        values = self.hyperparameters
        suppression = epoch / 10 if epoch <= values.suppressed_epochs else 1.0
        rise = F.threshold_rise(
            epoch - 1, values.switch_gain, values.switch_rate, values.switch_epoch
        )
        # The released code differentiates through the history, with a factor 1 - rho for a new
        # loss.
        share = (1.0 - values.history_decay) / (1.0 - values.history_decay**epoch)
        return F.EpochTerms(suppression, rise, share)

    def entering(self, log_weight: Tensor, criterion: CriterionState) -> Tensor:
        """Return the weights that a batch starts from, clamped after the first batch.

        The released code clamps the weights of all samples in every step, so only samples of the
        first batch start from ``delta = 1``. Here, other samples are clamped when they are in a
        batch.
        """
        has_begun = criterion.tracker.visits_seen.sum() > 0
        return torch.where(has_begun, log_weight.clamp(*criterion.log_weight_range), log_weight)

    def average(self, history: Tensor, visits: Tensor, epoch: Tensor) -> Tensor:
        """Return ``Avg(l)``, corrected as if each epoch had one visit to each sample."""
        return F.average_loss(history, epoch.float(), self.hyperparameters.history_decay)

    def tracked_visits(
        self, visits: Visits, average: Tensor, batch: Batch, criterion: CriterionState
    ) -> Visits:
        """Return the visits from which thresholds are computed: ``Avg(l)`` instead of losses."""
        averages = criterion.table.shards.complete(batch, average)
        averages = torch.where(batch.losses.isfinite(), averages, batch.losses)
        return group_visits(averages, batch.index)

    def terms(
        self,
        average: Tensor,
        log_weight: Tensor,
        threshold: Tensor,
        visits: Visits,
        batch: Batch,
        criterion: CriterionState,
    ) -> F.LossTerms:
        """Return the loss and its derivatives, and update the momentum of the weights."""
        table, tracker = criterion.table, criterion.tracker
        # The regulariser is summed over the batch and added to a mean, so each row has it `number`
        # times. The released code uses 0.5 * lambda, the paper lambda.
        number = visits.number.clamp(min=1)
        regularization = 0.5 * self.hyperparameters.regularization * number
        terms = F.loss_terms(average, log_weight, threshold, tracker.suppression, regularization)
        old_velocity = table.velocity.index_select(0, batch.table_rows)
        velocity = RELEASED_MOMENTUM * old_velocity + terms.weight_gradient / number
        velocity = visits.of_counted(batch, velocity, old_velocity)
        table.velocity.index_copy_(0, batch.table_rows, velocity)
        return F.LossTerms(terms.value, terms.model_gradient * tracker.gradient_fraction, velocity)
