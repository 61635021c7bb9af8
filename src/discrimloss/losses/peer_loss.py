"""Peer loss: cross-entropy, minus the cross-entropy with a random label."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.losses.base import cross_entropy, loss_classes
from discrimloss.losses.label_probability import LabelProbabilityLoss
from discrimloss.losses.sample_state import EpochDraws
from discrimloss.state.gathering import gather_rows, own_rows

SMALLEST = 1e-5
"""Added to probabilities before taking the logarithm, as in the authors' code. Bounds the loss."""


def risen_weight(epoch: int, epochs: int, highest: float, begin: float, end: float) -> float:
    """Return a weight that is 0 at first and then rises linearly. Peer loss and CORES2 use it.

    Args:
        epoch: the epoch, from 1.
        epochs: length of the run.
        highest: the weight after the rise.
        begin: fraction of the run before the rise.
        end: fraction of the run at the end of the rise.
    """
    steps = (end - begin) * epochs - 1.0
    risen = epoch - 1 - begin * epochs
    if steps <= 0.0:
        return highest if risen >= 0.0 else 0.0
    return highest * min(max(risen / steps, 0.0), 1.0)


@loss_classes.register("peer_loss")
class PeerLoss(LabelProbabilityLoss):
    """Peer loss: CE(f(x), y) - alpha CE(f(x), y of a random sample) (Liu & Guo 2020).

    The second term penalises a network that predicts labels which it cannot know from ``x``. For
    the right ``alpha``, the loss has the same minimum as with clean labels. The method does not
    need the noise rate.

    The probabilities are ``p + 1e-5``, as in the authors' code for several classes
    (weijiaheng/Multi-class-Peer-Loss-functions). That code divides the learning rate by ``1 +
    alpha``. Here the loss is divided, which for SGD differs only in the weight decay. That code
    also draws the inputs of the second term from other batches. Here they are the inputs of the
    batch, once each, which has the same expectation and needs no second forward pass. The random
    label is that of another row of the batch.

    Args:
        num_samples: size of the training set.
        epochs: length of the run.
        peer_weight: ``alpha`` after its rise. 1, as in the first stage of the repository's schedule
            for CIFAR-10, which later increases it to 2 (epoch 50 of 300), 5, 10 and 20.
        begin: fraction of the run without the second term. 20 of 300 epochs, as in that schedule.
        end: fraction of the run after which the rise is complete. 40 of 300 epochs, as in that
            schedule.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    needs_classes: ClassVar[str | None] = "pairs predictions with random labels"

    draws_of_epoch: Tensor

    def __init__(
        self,
        num_samples: int,
        epochs: int,
        *,
        peer_weight: float = 1.0,
        begin: float = 20 / 300,
        end: float = 40 / 300,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, reduction=reduction)
        if not 0.0 <= peer_weight < math.inf:
            raise ValueError(f"peer_weight must be finite and at least 0, not {peer_weight}")
        if not 0.0 <= begin <= end <= 1.0:
            raise ValueError(
                f"begin and end must be fractions of the run, in this order, not {begin} and {end}"
            )
        self.epochs, self.peer_weight, self.begin, self.end = epochs, peer_weight, begin, end
        self.draws = EpochDraws()
        draws = torch.zeros(num_samples)
        self.register_buffer("draws_of_epoch", draws, persistent=False)  # follows from the seed
        self.set_epoch(1)

    @property
    def alpha(self) -> float:
        """Return the weight of the second term in the current epoch."""
        return risen_weight(self.epoch, self.epochs, self.peer_weight, self.begin, self.end)

    def set_epoch(self, epoch: int) -> None:
        """Draw a number for each sample, which selects its peer in the batch."""
        super().set_epoch(epoch)
        generator = self.draws.generator(epoch)
        self.draws_of_epoch.copy_(torch.rand(len(self.draws_of_epoch), generator=generator))

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the cross-entropies minus those with the peers' labels."""
        logits = at_least_float32(logits)
        self.record(cross_entropy(logits, target), index)
        log_probabilities = (functional.softmax(logits, 1) + SMALLEST).log()
        own = -log_probabilities.gather(1, target[:, None]).squeeze(1)
        peer = -log_probabilities.gather(1, self._peer_labels(target, index)[:, None]).squeeze(1)
        return (own - self.alpha * peer) / (1.0 + self.alpha)

    def _peer_labels(self, target: Tensor, index: Tensor) -> Tensor:
        """Return for each row the label of another row, independent of the order of the rows."""
        everyones, index = gather_rows(target), gather_rows(index)
        number = len(index)
        order = index.argsort(stable=True)
        place = torch.empty_like(order)
        place[order] = torch.arange(number, device=order.device)
        distance = 1 + (self.draws_of_epoch[index] * (number - 1)).long()
        peers = everyones[order][(place + distance) % number]
        return own_rows(peers)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the weight of the second term, and when it rises."""
        return {"peer_weight": self.peer_weight, "begin": self.begin, "end": self.end}

    def log_values(self) -> dict[str, float]:
        """Return ``alpha`` of the epoch."""
        return {"alpha": self.alpha}
