"""How a network learned each sample: the area under the margin, and the axes of data maps.

Both come from the predictions of all visits to a sample during training, with any method:

- AUM, the area under the margin (Pleiss et al. 2020, asappresearch/aum): the mean of the label's
  logit minus the greatest of the others. It is low for wrong labels.
- Confidence, variability and correctness (dataset cartography, Swayamdipta et al. 2020,
  allenai/cartography): mean and standard deviation of the label's probability, and the fraction of
  visits at which the label was the predicted class. The confidence is low for wrong labels.

Like the papers, we take one prediction for each epoch. It is that of the training step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from discrimloss.losses.curriculum_loss import margins
from discrimloss.state.processes import Processes
from discrimloss.training.methods.base import Method, StepResult

SUMS = ("visits", "margin", "probability", "squared_probability", "correct")


class TrainingDynamics:
    """Records the margin and the probability of each given label, summed over the visits.

    Args:
        target: shape (num_samples,): the labels as given, classes from 0.
        device: device of the training, so that recording does not synchronise with the host.
    """

    def __init__(self, target: Tensor, device: torch.device | str = "cpu") -> None:
        self._target = target.to(device)
        shape = (len(SUMS), len(target))
        self._shared = torch.zeros(shape, dtype=torch.float64, device=device)
        """Sums over all processes."""
        self._own = torch.zeros(shape, dtype=torch.float64, device=device)
        """Sums of this process since the last exchange."""

    def record_step(self, epoch: int, index: Tensor, result: StepResult) -> None:
        """Add the predictions of a batch."""
        target, logits = self._target[index], result.output.float()
        probability = logits.softmax(1).gather(1, target[:, None]).squeeze(1)
        correct = (logits.argmax(1) == target).float()
        values = [torch.ones_like(probability), margins(logits, target)]
        values += [probability, probability.square(), correct]
        self._own.index_add_(1, index, torch.stack(values).double())

    def share(self) -> None:
        """Exchange the sums between processes. All processes call it."""
        self._shared += Processes().total(self._own)
        self._own.zero_()

    def end_epoch(self, epoch: int, method: Method, *, is_main_process: bool) -> None:
        """Do nothing, because the sums run over all epochs."""

    def record_final(self, index: Tensor, output: Tensor) -> None:
        """Do nothing: the sums contain only predictions during training."""

    def finish(self, method: Method) -> None:
        """Do nothing, because the sums are complete."""

    def state_dict(self) -> dict[str, Any]:
        """Return the sums of all processes."""
        return {"sums": self._shared.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the sums."""
        self._shared.copy_(state["sums"])
        self._own.zero_()

    def scores(self) -> dict[str, Tensor]:
        """Return all scores, each of shape (num_samples,). Samples that were in no batch have NaN.

        Call `share` first. All scores except ``variability`` are higher for learned labels.
        """
        visits, margin, probability, squared, correct = self._shared.cpu()
        visits = visits.where(visits > 0, torch.nan)
        mean = probability / visits
        variance = (squared / visits - mean.square()).clamp(min=0.0)
        return {
            "aum": margin / visits,
            "confidence": mean,
            "variability": variance.sqrt(),
            "correctness": correct / visits,
        }
