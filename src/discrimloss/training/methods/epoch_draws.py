"""Random numbers for the samples of an epoch, the same in whatever order they come."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_ODD = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: neighbouring epochs, far-off seeds


class EpochDraws(nn.Module):
    """Generators that follow from a seed in `state_dict` and the number of the epoch.

    A method that draws a row for every sample at the beginning of an epoch gets the same rows after
    a resume, in every process, and whatever the order of the batches is. The seed itself is drawn
    where the method is built, so it follows from the seed of the run.
    """

    seed: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seed", torch.randint(2**62, ()))

    def generator(self, epoch: int) -> torch.Generator:
        """On the CPU, so that every device sees the same numbers."""
        mixed = (int(self.seed) ^ (epoch * _ODD)) % 2**63
        return torch.Generator().manual_seed(mixed)
