"""Records the predictions of a network during training, and estimates verdicts from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import require_room
from discrimloss.judging.judgeable import is_judgeable, limited_score
from discrimloss.judging.label_errors import LabelErrors, note_on_given_rate
from discrimloss.judging.noise_model import estimate_class_errors
from discrimloss.judging.regression_noise import estimate_target_errors
from discrimloss.judging.suggestions import suggest_other_classes
from discrimloss.judging.verdicts import CANNOT_TELL, UNSEEN, Verdicts
from discrimloss.training.methods.base import Method, StepResult
from discrimloss.training.methods.discrimloss import DiscrimLossMethod


class PredictionRecord:
    """Records predictions: their mean over the second half of a run, and the final ones.

    During training, a model has not yet memorised all labels. At the end of training, it is most
    accurate. For classes, both kinds of predictions have equal weight. For regression targets, only
    the mean is used, which works better.

    Args:
        target: shape (samples,): the labels in the data.
        num_classes: number of classes; None for regression.
        epochs: number of epochs of the run.
        noise_rate: the fraction of wrong labels, if it is known.
    """

    def __init__(
        self,
        target: Tensor,
        num_classes: int | None,
        epochs: int,
        noise_rate: float | None = None,
    ) -> None:
        self.target, self.num_classes, self.noise_rate = target, num_classes, noise_rate
        samples, outputs = len(target), num_classes or 1
        require_room(samples, outputs)
        self.first_late_epoch = epochs // 2 + 1
        self._late = torch.zeros(samples, outputs)
        self._visits = torch.zeros(samples, dtype=torch.int32)

    def record_step(self, epoch: int, index: Tensor, result: StepResult) -> None:
        """Add the predictions of a step."""
        if epoch < self.first_late_epoch:
            return
        index = index.cpu()
        self._late[index] += result.output.float().cpu().reshape(len(index), -1)
        self._visits[index] += 1

    def share(self) -> None:
        """Do nothing: an audit has one process."""

    def end_epoch(self, epoch: int, method: Method, *, is_main_process: bool) -> None:
        """Do nothing: predictions are averaged over epochs."""

    def record_final(self, index: Tensor, output: Tensor) -> None:
        """Add the predictions of the trained model."""
        if self.num_classes is None:
            return
        index = index.cpu()
        late = self._late[index] / self._visits[index].clamp(min=1)[:, None]
        self._late[index] = (late + output.float().cpu().reshape(len(index), -1)) / 2
        self._visits[index] = 1

    def finish(self, method: Method) -> None:
        """Do nothing: `verdicts` computes the verdicts from the record."""

    def verdicts(self, method: Method) -> Verdicts:
        """Return the verdicts on all labels. Suggestions are in the unit of the model's output.

        Args:
            method: the trained method, which must be DiscrimLoss.
        """
        if not isinstance(method, DiscrimLossMethod):
            raise TypeError("an audit trains with DiscrimLoss")
        judged = self.judge(method.is_held_out.cpu())
        can_tell = judged.noise_interval is not None
        notes = () if can_tell else (CANNOT_TELL,)
        if self.noise_rate is not None:
            estimate = judged.noise_rate if can_tell else None
            notes = (note_on_given_rate(self.noise_rate, estimate),)
            judged, can_tell = judged.at_noise_rate(self.noise_rate), True
        limited = limited_score(judged.score, self._is_judgeable() & can_tell)
        p_incorrect = torch.minimum(judged.p_incorrect, limited.sigmoid().to(judged.p_incorrect))
        found = method.loss.criterion.verdicts(p_incorrect=p_incorrect)
        score = np.where(found.code == UNSEEN, np.float32(np.nan), limited.numpy())
        suggested = judged.suggested
        if judged.other is not None:
            suggested = suggest_other_classes(found.code, limited, judged.other, suggested)
        return replace(
            found,
            score=score,
            suggested_label=suggested.numpy(),
            noise_interval=judged.noise_interval,
            can_tell_noise=can_tell,
            notes=notes,
        )

    def _is_judgeable(self) -> Tensor:
        if self.num_classes is None:
            return torch.ones(len(self.target), dtype=torch.bool)
        return is_judgeable(self.target, self.num_classes)

    def judge(self, is_held_out: Tensor) -> LabelErrors:
        """Estimate the probability that each label is wrong, and the most probable label.

        Args:
            is_held_out: shape (samples,), bool: samples that the model did not learn from.
        """
        mean = self._late / self._visits.clamp(min=1)[:, None]
        if self.num_classes is None:
            return estimate_target_errors(mean[:, 0], self.target, is_held_out)
        return estimate_class_errors(mean, self.target, is_held_out)

    def state_dict(self) -> dict[str, Any]:
        """Return the record for a checkpoint."""
        return {"late": self._late, "visits": self._visits}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the record from a checkpoint."""
        self._late.copy_(state["late"])
        self._visits.copy_(state["visits"])
