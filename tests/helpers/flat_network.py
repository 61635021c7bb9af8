"""A network for regressions."""

from __future__ import annotations

from torch import Tensor, nn


class Flat(nn.Module):
    """A regression's answer, shape (batch,)."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.linear(inputs)[:, 0]
        return output
