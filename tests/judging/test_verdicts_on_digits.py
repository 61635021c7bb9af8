"""Verdicts after real training: scikit-learn's digits, with labels that were made wrong."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from discrimloss import DiscrimLoss, Verdicts

datasets = pytest.importorskip("sklearn.datasets", reason="the digits come with scikit-learn")

EPOCHS, BATCH, CLASSES = 40, 64, 10


class NoisyDigits(NamedTuple):
    x: Tensor
    target: Tensor
    is_incorrect: npt.NDArray[np.bool_]


def noisy_digits(noise: float, generator: torch.Generator) -> NoisyDigits:
    """Digits of which a share got another label, each of the others equally likely."""
    x, clean_target = (torch.from_numpy(array) for array in datasets.load_digits(return_X_y=True))
    wrong = torch.randperm(len(x), generator=generator)[: round(noise * len(x))]
    target = clean_target.clone()
    shift = torch.randint(1, CLASSES, (len(wrong),), generator=generator)
    target[wrong] = (clean_target[wrong] + shift) % CLASSES
    return NoisyDigits(x.float() / 16.0, target, (target != clean_target).numpy())


def train(digits: NoisyDigits, generator: torch.Generator) -> Verdicts:
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    criterion = DiscrimLoss(len(digits.x), epochs=EPOCHS)
    for epoch in range(1, EPOCHS + 1):
        criterion.set_epoch(epoch)
        for index in torch.randperm(len(digits.x), generator=generator).split(BATCH):
            logits = model(digits.x[index])
            losses = functional.cross_entropy(logits, digits.target[index], reduction="none")
            optimizer.zero_grad()
            criterion(losses, index).backward()
            optimizer.step()
        schedule.step()
    return criterion.verdicts()


def verdicts_on_digits(noise: float, seed: int) -> tuple[Verdicts, npt.NDArray[np.bool_]]:
    """Verdicts, and whether each label is incorrect."""
    generator = torch.Generator().manual_seed(seed)
    digits = noisy_digits(noise, generator)
    torch.manual_seed(seed)
    return train(digits, generator), digits.is_incorrect


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_clean_digits_stay_quiet(seed: int) -> None:
    verdicts, _ = verdicts_on_digits(0.0, seed)
    assert verdicts.counts["incorrect"] <= 0.02 * len(verdicts)
    assert verdicts.noise_rate <= 0.02
    assert verdicts.counts["easy"] > 0.9 * len(verdicts)


@pytest.mark.parametrize("noise", [0.2, 0.4])
def test_incorrect_digits_are_found(noise: float) -> None:
    verdicts, is_incorrect = verdicts_on_digits(noise, seed=0)
    assert verdicts.noise_rate == pytest.approx(noise, abs=0.04)
    flagged = verdicts.label == "incorrect"
    found = np.sum(flagged & is_incorrect)
    assert found / flagged.sum() > 0.9
    assert found / is_incorrect.sum() > 0.9
    # What is flagged is also distrusted in training, and ranks first.
    assert verdicts.weight[flagged].mean() > 2.0 * verdicts.weight[~flagged].mean()
    assert is_incorrect[verdicts.most_suspicious(100)].mean() > 0.9
