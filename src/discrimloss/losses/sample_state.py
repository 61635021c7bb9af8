"""State that losses and methods keep for each sample."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discrimloss.loss import DiscrimLoss
from discrimloss.state.gathering import gather_rows

_ODD = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: makes seeds of successive epochs distant


def loss_history(num_samples: int, epochs: int) -> DiscrimLoss:
    """Return a `DiscrimLoss` that only records average losses. Its weights stay at 1."""
    return DiscrimLoss(num_samples, epochs, weight_range=(1.0, 1.0))


class SampleMean(nn.Module):
    """The mean of a value over the visits of each sample, equal in all processes.

    >>> mean = SampleMean(3)
    >>> mean.add(torch.tensor([1.0, 0.0]), index=torch.tensor([0, 2]))
    >>> mean.add(torch.tensor([0.0]), index=torch.tensor([0]))
    >>> mean.values()
    tensor([0.5000,    nan, 0.0000])

    Args:
        num_samples: number of samples. If None, nothing is recorded.
    """

    total: Tensor
    visits: Tensor

    def __init__(self, num_samples: int | None) -> None:
        super().__init__()
        self.is_kept = num_samples is not None
        if num_samples is not None:
            self.register_buffer("total", torch.zeros(num_samples))
            self.register_buffer("visits", torch.zeros(num_samples, dtype=torch.int32))

    @torch.no_grad()
    def add(self, values: Tensor, index: Tensor) -> None:
        """Add one value for each row of this process's batch."""
        if not self.is_kept:
            return
        index = gather_rows(index)
        values = gather_rows(values.detach().to(self.total.dtype))
        self.total.index_add_(0, index, values)
        self.visits.index_add_(0, index, torch.ones_like(index, dtype=self.visits.dtype))

    def values(self) -> Tensor | None:
        """Return the means, shape (num_samples,). NaN without a visit; None if not recorded."""
        if not self.is_kept:
            return None
        return self.total / torch.where(self.visits > 0, self.visits, torch.nan)


class GivenLabels(nn.Module):
    """The label of each sample, taken from the batches. -1 for samples that were in no batch.

    Args:
        num_samples: number of samples.
    """

    label: Tensor

    def __init__(self, num_samples: int) -> None:
        super().__init__()
        self.register_buffer("label", torch.full((num_samples,), -1, dtype=torch.int32))

    def record(self, target: Tensor, index: Tensor) -> None:
        """Record the labels of this process's batch."""
        self.label[gather_rows(index)] = gather_rows(target).to(self.label.dtype)

    def set_all(self, target: Tensor) -> None:
        """Record the labels of all samples."""
        self.label.copy_(target)

    @property
    def known(self) -> Tensor:
        """The known labels, int64."""
        return self.label[self.label >= 0].long()


class EpochDraws(nn.Module):
    """Random generators, seeded by the epoch and a seed in `state_dict`.

    A loss that draws a value for every sample at the beginning of an epoch gets the same values
    after a resume, in every process, and for any order of the batches. The seed itself is drawn
    from the global generator when the loss is built, so it depends on the seed of the run.
    """

    seed: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seed", torch.tensor(0))
        self.draw_seed()

    def draw_seed(self) -> None:
        """Draw another seed from the global generator."""
        self.seed.fill_(int(torch.randint(2**62, ())))

    def generator(self, epoch: int) -> torch.Generator:
        """Return a generator on the CPU, so that the numbers do not depend on the device."""
        mixed = (int(self.seed) ^ (epoch * _ODD)) % 2**63
        return torch.Generator().manual_seed(mixed)
