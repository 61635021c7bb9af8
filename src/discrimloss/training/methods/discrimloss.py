"""DiscrimLoss in the training harness, optionally with held-out samples."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from discrimloss.losses.base import IndexedLoss
from discrimloss.losses.discrimloss_on import DiscrimLossOn
from discrimloss.losses.superloss_discrimloss import SuperLossDiscrimLoss
from discrimloss.training.methods.base import Batch, Setting, StepResult, methods
from discrimloss.training.methods.loss_method import LossMethod


@methods.register("discrimloss")
class DiscrimLossMethod(LossMethod):
    """DiscrimLoss: a learned weight for every sample, and a moving threshold (Wu et al. 2022).

    The options are `held_out` and those of `discrimloss.DiscrimLoss`, whose defaults here depend on
    the number of epochs. ``class_aware=True`` and ``predictions=True`` select the forms with
    targets and with predictions (`discrimloss.losses.DiscrimLossOn`).

    Args:
        setting: the task.
        held_out: fraction of the samples that are evaluated in every epoch but never learned from,
            so that their labels are not memorised.
        options: hyperparameters of DiscrimLoss.
    """

    name: ClassVar[str] = "discrimloss"
    loss_class: ClassVar[type[IndexedLoss]] = DiscrimLossOn

    loss: DiscrimLossOn
    is_held_out: Tensor

    def __init__(
        self,
        setting: Setting,
        *,
        held_out: float = 0.0,
        **options: Any,
    ) -> None:
        if not 0.0 <= held_out < 1.0:
            raise ValueError(f"held_out must be a fraction from 0 to below 1, not {held_out}")
        super().__init__(setting, **options)
        self.holds_out = held_out > 0.0
        draw = torch.rand(setting.num_samples, generator=torch.Generator().manual_seed(0))
        self.register_buffer("is_held_out", draw < held_out, persistent=False)

    def training_step(self, batch: Batch) -> StepResult:
        """Return the weighted loss. Held-out samples are evaluated but not learned from."""
        output = self.networks[0](batch.inputs)
        if self.holds_out:
            is_held_out = self.is_held_out[batch.index].view(-1, *[1] * (output.dim() - 1))
            output = torch.where(is_held_out, output.detach(), output)
        loss = self.loss(output, batch.target, batch.index)
        return self.result(loss, output, batch)


@methods.register("superloss_discrimloss")
class SuperLossDiscrimLossMethod(DiscrimLossMethod):
    """DiscrimLoss with SuperLoss, a robust loss, as the inner loss (Wu et al. 2022).

    See `discrimloss.losses.SuperLossDiscrimLoss`. The option ``held_out`` is the same as for the
    method ``discrimloss``.

    Args:
        setting: the task.
        options: hyperparameters of SuperLoss and of DiscrimLoss, and those of the harness.
    """

    name: ClassVar[str] = "superloss_discrimloss"
    loss_class: ClassVar[type[IndexedLoss]] = SuperLossDiscrimLoss
