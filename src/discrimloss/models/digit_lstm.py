"""An LSTM that adds digits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discrimloss.models.base import TaskShape, models
from discrimloss.models.layers import TaskOutput

NUM_SYMBOLS, PADDING = 11, 10  # ten digits and the padding of `discrimloss.data.digitsum`


@models.register("digit_lstm")
class DigitLSTM(nn.Module):
    """An LSTM over digits that predicts a value of 0 or more: the Digit Sum model of the paper.

    The layers are an embedding of 11 symbols (ten digits and padding), one LSTM layer without
    peepholes, and a linear head with ReLU on the state at the last digit. The paper does not
    describe the head's initialisation. By default, ours predicts in units of the targets' standard
    deviation and starts at their mean. So small steps suffice, and the ReLU passes gradients from
    the start.

    Args:
        shape: shape of the task, for the mean and standard deviation of its targets.
        hidden_size: number of units of the LSTM.
        embedding_size: size of the embedding of a symbol.
        standardized: whether the head predicts relative to the targets' mean, in units of their
            standard deviation.
        random_states: whether every forward pass draws the initial states from a normal
            distribution, even in evaluation, as in the authors' released code. Otherwise the
            initial states are 0.
    """

    def __init__(
        self,
        shape: TaskShape,
        *,
        hidden_size: int = 256,
        embedding_size: int = 256,
        standardized: bool = True,
        random_states: bool = False,
    ) -> None:
        super().__init__()
        if shape.num_classes is not None:
            raise ValueError("digit_lstm is for regression; this dataset has classes")
        self.embedding = nn.Embedding(NUM_SYMBOLS, embedding_size, padding_idx=PADDING)
        self.lstm = nn.LSTM(embedding_size, hidden_size, batch_first=True)
        self.head = nn.Linear(hidden_size, 1)
        self.random_states = random_states
        self.output = TaskOutput(shape if standardized else shape.unscaled())

    def forward(self, digits: Tensor) -> Tensor:
        """Map sequences of digits, (batch, length), to predicted sums, (batch,)."""
        first = None
        if self.random_states:
            drawn = torch.randn(2, 1, len(digits), self.lstm.hidden_size, device=digits.device)
            first = (drawn[0], drawn[1])
        states, _ = self.lstm(self.embedding(digits), first)
        last = (digits != PADDING).sum(dim=1).sub(1).clamp(min=0)
        # Padding is on the right, so it cannot affect the state at the last digit.
        state = states[torch.arange(len(digits), device=digits.device), last]
        return torch.relu(self.output(self.head(state)))
