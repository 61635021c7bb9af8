"""Losses, targets and predictions of made-up networks, for the forms of DiscrimLoss that know them.

A network here is a formula: it learns the true labels in the first epochs, and may memorise the
given ones afterwards. So a run passes through the phases of `label_correction` in a known way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from discrimloss import DiscrimLoss
from discrimloss.held_out import is_drawn
from discrimloss.label_correction import CORRECTING, CORRECTING_ALL, MIXING, PLAIN, WATCHING

SAMPLES, CLASSES, EPOCHS, BATCH = 960, 4, 12, 96
HELD_OUT_FRACTION = 0.1


@dataclass(frozen=True)
class Story:
    """What becomes of a made-up network."""

    noise: float
    """Fraction of wrong labels."""
    memorises_from: int
    """First epoch in which training samples are memorised."""


NEVER = 1000
CLEAN = Story(0.0, NEVER)
NOISY = Story(0.25, NEVER)
MEMORISED = Story(0.25, 5)
STORIES = {"clean": CLEAN, "noisy": NOISY, "memorised": MEMORISED}

FORMS: dict[str, dict[str, Any]] = {
    "classes": {"num_classes": CLASSES},
    "logits": {"num_classes": CLASSES},
    "regression": {"task": "regression"},
    "regression with predictions": {"task": "regression"},
}
PHASES = {
    ("classes", "clean"): (WATCHING, PLAIN),
    ("classes", "noisy"): (WATCHING, PLAIN),
    ("classes", "memorised"): (WATCHING, MIXING),
    ("logits", "clean"): (WATCHING, PLAIN),
    ("logits", "noisy"): (WATCHING, CORRECTING, CORRECTING_ALL),
    ("logits", "memorised"): (WATCHING, CORRECTING, MIXING),
    ("regression", "clean"): (WATCHING, PLAIN),
    ("regression", "memorised"): (WATCHING, MIXING),
    ("regression with predictions", "clean"): (WATCHING, PLAIN),
    ("regression with predictions", "memorised"): (WATCHING, MIXING),
}
"""The phases of a run, for the form and the name of its story."""


def make_criterion(form: str, **options: Any) -> DiscrimLoss:
    if "ids" not in options:
        options = {"num_samples": SAMPLES} | options
    return DiscrimLoss(**({"epochs": EPOCHS} | FORMS[form] | options))


class LabelledBatches:
    """The batches of a run.

    Args:
        form: one of `FORMS`.
        story: what becomes of the network.
        samples: size of the dataset.
    """

    def __init__(self, form: str, story: Story, samples: int = SAMPLES) -> None:
        self.form, self.story, self.samples = form, story, samples
        generator = torch.Generator().manual_seed(1)
        is_wrong = torch.rand(samples, generator=generator) < story.noise
        self.is_regression = "regression" in form
        if self.is_regression:
            self.true = torch.randn(samples, generator=generator)
            wrong = torch.randn(samples, generator=generator)
        else:
            # Some samples are certain and some are not, and the network will know which.
            self.learnable = 4.0 * torch.randn(samples, CLASSES, generator=generator)
            chances = self.learnable.softmax(1)
            self.true = torch.multinomial(chances, 1, generator=generator)[:, 0]
            wrong = (
                self.true + torch.randint(1, CLASSES, (samples,), generator=generator)
            ) % CLASSES
        self.target = torch.where(is_wrong, wrong, self.true)

    def order(self, epoch: int) -> list[Tensor]:
        """The samples of each batch; one of them twice."""
        generator = torch.Generator().manual_seed(epoch)
        batches = list(torch.randperm(self.samples, generator=generator).split(BATCH))
        return [torch.cat([index, index[:1]]) for index in batches]

    def outputs(self, index: Tensor, epoch: int) -> Tensor:
        """What the network says of some samples, with a gradient."""
        generator = torch.Generator().manual_seed(1000 + epoch)
        learned = min(epoch, 4) / 4
        memorised = 1.0 if epoch >= self.story.memorises_from else 0.0
        is_trained = ~is_drawn(index, HELD_OUT_FRACTION)
        if self.is_regression:
            scatter = 0.3 * torch.randn(self.samples, generator=generator)[index]
            true = learned * self.true[index]
            said = torch.lerp(true, self.target[index], memorised * is_trained.float()) + scatter
            # The predictions for other samples become worse.
            said = said + memorised * ~is_trained * 2.0 * scatter.sign()
        else:
            said = 0.2 * torch.randn(self.samples, CLASSES, generator=generator)[index]
            said = said + learned * self.learnable[index]
            pull = 12.0 * memorised * is_trained.float().unsqueeze(1)
            said = said + pull * functional.one_hot(self.target[index], CLASSES)
            worse = (memorised * ~is_trained).unsqueeze(1)
            said = said + worse * 12.0 * functional.one_hot((index // 7) % CLASSES, CLASSES)
        return said.requires_grad_()

    def losses(self, outputs: Tensor, index: Tensor) -> Tensor:
        if self.is_regression:
            return (outputs - self.target[index]).square()
        return functional.cross_entropy(outputs, self.target[index], reduction="none")

    def arguments(self, outputs: Tensor, index: Tensor) -> dict[str, Any]:
        """What the criterion gets besides losses and index."""
        given: dict[str, Any] = {"target": self.target[index]}
        if self.form == "logits":
            given["logits"] = outputs
        elif self.form == "regression with predictions":
            given["predictions"] = outputs
        return given

    def step(self, criterion: DiscrimLoss, index: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and its gradient by the outputs of the network."""
        outputs = self.outputs(index, epoch)
        losses = self.losses(outputs, index)
        value = criterion(losses, index, **self.arguments(outputs, index))
        (gradient,) = torch.autograd.grad(value.sum(), outputs)
        return value.detach(), gradient

    def train(
        self, criterion: DiscrimLoss, first: int = 1, last: int = EPOCHS
    ) -> list[tuple[int, Tensor, Tensor]]:
        """Phase, loss and gradient of every step."""
        trace = []
        for epoch in range(first, last + 1):
            criterion.set_epoch(epoch)
            for index in self.order(epoch):
                trace.append((phase_of(criterion), *self.step(criterion, index, epoch)))
        return trace


def phase_of(criterion: DiscrimLoss) -> int:
    assert criterion.labels is not None
    return criterion.labels.correction.phase
