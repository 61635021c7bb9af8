"""A script as users write it. It must pass mypy and pyright in strict mode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import discrimloss
from discrimloss import AuditResult, DiscrimLoss, IndexedDataset, SampleIds, Verdicts
from discrimloss.losses import EarlyLearningRegularization, GeneralizedCrossEntropy
from discrimloss.state.file import load_state, save_state


def train(data: Tensor, labels: Tensor, epochs: int) -> Verdicts:
    """Train with DiscrimLoss, in the form with predictions."""
    dataset = IndexedDataset(TensorDataset(data, labels))
    model = torch.nn.Linear(data.shape[1], 3)
    criterion = DiscrimLoss(num_samples=dataset.num_samples, epochs=epochs, num_classes=3)
    for epoch in range(1, epochs + 1):
        criterion.set_epoch(epoch)
        for x, y, index in DataLoader(dataset, batch_size=32, shuffle=True):
            logits: Tensor = model(x)
            losses = cross_entropy(logits, y, reduction="none")
            loss: Tensor = criterion(losses, index, target=y, logits=logits)
            torch.autograd.backward(loss)
    return criterion.verdicts()


def robust(logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
    """Two losses of other papers."""
    elr = EarlyLearningRegularization(num_samples=8, num_classes=3)
    gce = GeneralizedCrossEntropy()
    total: Tensor = elr(logits, target, index) + gce(logits, target)
    return total


def save_and_load(directory: Path) -> int:
    """The sample state as a file, with names for samples."""
    criterion = DiscrimLoss(ids=SampleIds(["a", "b"]), epochs=2)
    criterion(torch.rand(2), ["a", "b"])
    save_state(criterion, directory)
    load_state(criterion, directory)
    return criterion.num_samples


def report(verdicts: Verdicts) -> list[int]:
    """Positions of the most suspicious samples."""
    rate: float | None = verdicts.noise_rate
    interval: tuple[float, float] | None = verdicts.noise_interval
    print(rate, interval, verdicts.notes)
    return [int(index) for index in verdicts.most_suspicious(10)]


def audit(inputs: np.ndarray[tuple[int, int], np.dtype[np.float64]], labels: list[str]) -> None:
    """An audit, and predictions of one's own."""
    result: AuditResult = discrimloss.audit((inputs, labels))
    result.report("report.html")
    probabilities = np.full((len(labels), 2), 0.5)
    verdicts = discrimloss.find_label_errors(labels, pred_probs=probabilities)
    report(verdicts)
    report(result.verdicts)
