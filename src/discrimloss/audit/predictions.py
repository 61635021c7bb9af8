"""What a model predicted for every sample while it was trained, and what follows for the labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.audit.noise_model import ClassJudgement, judge_classes
from discrimloss.audit.number_noise import NumberJudgement, judge_numbers
from discrimloss.audit.source import SourceError
from discrimloss.loss import DiscrimLoss
from discrimloss.methods.base import Method, StepResult
from discrimloss.whole_file import whole_file

JUDGEMENT = "judgement.safetensors"
FIRST_EARLY_EPOCH = 3  # before it, a model has hardly an idea of the task
LAST_EARLY_EPOCH = 8  # after it, much is memorised
MOST_CHOSEN = 20_000  # samples of which early predictions are kept
MOST_EARLY_ENTRIES = 4_000_000  # samples times classes, of each early epoch
MOST_ENTRIES = 2**30  # samples times classes: four gigabytes


class PredictionRecord:
    """Takes down predictions at each visit: some of them early on, the mean of all of them later.

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
        last = min(LAST_EARLY_EPOCH, max(epochs // 2, 4), epochs)
        early = [] if num_classes is None else list(range(FIRST_EARLY_EPOCH, last + 1))
        number = min(samples, MOST_CHOSEN, max(MOST_EARLY_ENTRIES // outputs, 1))
        order = torch.randperm(samples, generator=torch.Generator().manual_seed(0))
        self.chosen = order[:number].sort().values
        self._place = torch.full((samples,), -1)
        self._place[self.chosen] = torch.arange(number)
        self._early = {epoch: torch.zeros(number, outputs, dtype=torch.half) for epoch in early}
        self._late = torch.zeros(samples, outputs)
        self._visits = torch.zeros(samples, dtype=torch.int32)

    def take(self, epoch: int, index: Tensor, result: StepResult) -> None:
        """The predictions of a step."""
        if epoch not in self._early and epoch < self.first_late_epoch:
            return
        index, output = index.cpu(), result.output.float().cpu().reshape(len(index), -1)
        if epoch in self._early:
            place = self._place[index]
            self._early[epoch][place[place >= 0]] = output[place >= 0].half()
        if epoch >= self.first_late_epoch:
            self._late[index] += output
            self._visits[index] += 1

    def share(self) -> None:
        """Audits have one process."""

    def end_epoch(self, epoch: int, method: Method, *, is_main_process: bool) -> None:
        """Nothing is due."""

    def finish(self, method: Method) -> None:
        """Judge every label, and write that down."""
        criterion = getattr(method, "criterion", None)
        if not isinstance(criterion, DiscrimLoss):
            raise TypeError("an audit trains with DiscrimLoss")
        judged = self.judge()
        verdicts = criterion.verdicts(p_incorrect=judged.p_incorrect)
        columns = {
            "p_incorrect": judged.p_incorrect,
            "score": judged.score,
            "suggested": judged.suggested,
            "code": torch.from_numpy(verdicts.code),
            "weight": torch.from_numpy(verdicts.weight),
            "average_loss": torch.from_numpy(verdicts.average_loss),
        }
        from safetensors.torch import save_file

        with whole_file(self.directory / JUDGEMENT) as unfinished:
            save_file({name: column.contiguous() for name, column in columns.items()}, unfinished)

    def judge(self) -> ClassJudgement | NumberJudgement:
        """What is thought of every label by now."""
        late = self._late / self._visits.clamp(min=1)[:, None]
        if self.num_classes is None:
            return judge_numbers(late[:, 0], self.target)
        early = [self._early[epoch].float() for epoch in sorted(self._early)]
        return judge_classes(early, self.chosen, late, self.target)

    def state_dict(self) -> dict[str, Any]:
        """All that was taken."""
        return {"early": self._early, "late": self._late, "visits": self._visits}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on after an interruption."""
        for epoch, rows in self._early.items():
            rows.copy_(state["early"][epoch])
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
    """Verdicts, as positions in `discrimloss.verdicts.LABELS`."""
    weight: npt.NDArray[np.float32]
    average_loss: npt.NDArray[np.float32]


def read_judgement(run: Path) -> Judgement:
    """What a finished run of an audit says."""
    from safetensors.torch import load_file

    columns = load_file(run / JUDGEMENT)
    return Judgement(**{name: column.numpy() for name, column in columns.items()})
