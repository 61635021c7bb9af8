"""What a method has said of each sample, averaged over its visits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discrimloss.state.gathering import gather_rows


class SampleMean(nn.Module):
    """A mean for each sample. All processes hold the same.

    >>> mean = SampleMean(3)
    >>> mean.add(torch.tensor([1.0, 0.0]), index=torch.tensor([0, 2]))
    >>> mean.add(torch.tensor([0.0]), index=torch.tensor([0]))
    >>> mean.values()
    tensor([0.5000,    nan, 0.0000])
    """

    total: Tensor
    visits: Tensor

    def __init__(self, num_samples: int) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(num_samples))
        self.register_buffer("visits", torch.zeros(num_samples, dtype=torch.int32))

    @torch.no_grad()
    def add(self, values: Tensor, index: Tensor) -> None:
        """One value for each row of this process's batch."""
        index = gather_rows(index)
        values = gather_rows(values.detach().to(self.total.dtype))
        self.total.index_add_(0, index, values)
        self.visits.index_add_(0, index, torch.ones_like(index, dtype=self.visits.dtype))

    def values(self) -> Tensor:
        """Shape (num_samples,); NaN where there was no visit."""
        return self.total / torch.where(self.visits > 0, self.visits, torch.nan)
