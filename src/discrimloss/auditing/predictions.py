"""What a model predicted for every sample while it was trained, and what follows for the labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import SourceError
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.noise_model import LabelErrors, estimate_class_errors
from discrimloss.judging.regression_noise import estimate_target_errors
from discrimloss.loss import DiscrimLoss
from discrimloss.training.methods.base import Method, StepResult

JUDGEMENT = "judgement.safetensors"
MOST_ENTRIES = 2**30  # samples times classes: four gigabytes


class PredictionRecord:
    """Takes down predictions: their mean over the second half of a run, and the last ones.

    While it trains, a model sees samples from several sides, and has not memorised all it will. At
    the end it is at its best. Of classes, both count half; of numbers, the mean serves better.

    Args:
        target: shape (samples,): the labels as given.
        num_classes: None for a regression.
        epochs: of the run.
        directory: of the run.
    """

    def __init__(
        self, target: Tensor, num_classes: int | None, epochs: int, directory: Path
    ) -> None:
        self.target, self.num_classes = target, num_classes
        self.directory = directory
        samples, outputs = len(target), num_classes or 1
        require_room(samples, outputs)
        self.first_late_epoch = epochs // 2 + 1
        self._late = torch.zeros(samples, outputs)
        self._visits = torch.zeros(samples, dtype=torch.int32)

    def record_step(self, epoch: int, index: Tensor, result: StepResult) -> None:
        """The predictions of a step."""
        if epoch < self.first_late_epoch:
            return
        index = index.cpu()
        self._late[index] += result.output.float().cpu().reshape(len(index), -1)
        self._visits[index] += 1

    def share(self) -> None:
        """Audits have one process."""

    def end_epoch(self, epoch: int, method: Method, *, is_main_process: bool) -> None:
        """Nothing is due."""

    def record_final(self, index: Tensor, output: Tensor) -> None:
        """The predictions of the trained model."""
        if self.num_classes is None:
            return
        index = index.cpu()
        late = self._late[index] / self._visits[index].clamp(min=1)[:, None]
        self._late[index] = (late + output.float().cpu().reshape(len(index), -1)) / 2
        self._visits[index] = 1

    def finish(self, method: Method) -> None:
        """Judge every label, and write that down."""
        criterion = getattr(method, "criterion", None)
        if not isinstance(criterion, DiscrimLoss):
            raise TypeError("an audit trains with DiscrimLoss")
        judged = self.judge(getattr(method, "is_held_out", None))
        p_incorrect = judged.p_incorrect
        verdicts = criterion.verdicts(p_incorrect=p_incorrect)
        columns = {
            "p_incorrect": p_incorrect,
            "score": judged.score,
            "suggested": judged.suggested,
            "code": torch.from_numpy(verdicts.code),
            "weight": torch.from_numpy(np.asarray(verdicts.weight)),
            "average_loss": torch.from_numpy(np.asarray(verdicts.average_loss)),
        }
        from safetensors.torch import save_file

        with atomic_write(self.directory / JUDGEMENT) as unfinished:
            save_file({name: column.contiguous() for name, column in columns.items()}, unfinished)

    def judge(self, is_held_out: Tensor | None) -> LabelErrors:
        """What is thought of every label by now.

        Args:
            is_held_out: shape (samples,), bool: who was not learned from.
        """
        mean = self._late / self._visits.clamp(min=1)[:, None]
        if is_held_out is None:
            is_held_out = torch.zeros(len(mean), dtype=torch.bool)
        if self.num_classes is None:
            return estimate_target_errors(mean[:, 0], self.target, is_held_out.cpu())
        return estimate_class_errors(mean, self.target, is_held_out.cpu())

    def state_dict(self) -> dict[str, Any]:
        """All that was taken."""
        return {"late": self._late, "visits": self._visits}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on after an interruption."""
        self._late.copy_(state["late"])
        self._visits.copy_(state["visits"])


def require_room(samples: int, outputs: int) -> None:
    """Raise a `SourceError` where the predictions of all samples would not fit into memory."""
    if samples * outputs > MOST_ENTRIES:
        raise SourceError(
            f"{samples:,} samples of {outputs:,} classes need predictions of "
            f"{samples * outputs * 4 / 2**30:.0f} GB: audit it in parts of at most "
            f"{MOST_ENTRIES // outputs:,} samples"
        )


@dataclass(frozen=True)
class Judgement:
    """What one run, or several together, say of every label; arrays of shape (samples,)."""

    p_incorrect: npt.NDArray[np.float32]
    score: npt.NDArray[np.float32]
    """Ranks where `p_incorrect` rounds."""
    suggested: npt.NDArray[Any]
    """Positions of classes, or numbers."""
    code: npt.NDArray[np.int8]
    """Verdicts, as positions in `discrimloss.judging.verdicts.LABELS`."""
    weight: npt.NDArray[np.float32]
    average_loss: npt.NDArray[np.float32]


def read_judgement(run: Path) -> Judgement:
    """What a finished run of an audit says."""
    from safetensors.torch import load_file

    columns = load_file(run / JUDGEMENT)
    return Judgement(**{name: column.numpy() for name, column in columns.items()})
