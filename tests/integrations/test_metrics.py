"""When the integrations compute verdicts, which cost a calibration."""

from typing import Any

import pytest
import torch

from discrimloss import DiscrimLoss
from discrimloss.integrations.metrics import metrics_due


class CountingLoss(DiscrimLoss):
    calls = 0

    def verdicts(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        return super().verdicts(*arguments, **options)


@pytest.mark.parametrize(
    ("log_every", "with_verdicts", "logged"),
    [(None, [5], 5), (2, [2, 4], 2), (1, [1, 2, 3, 4, 5], 5), (0, [], 0)],
)
def test_verdicts_are_computed_when_they_are_due(
    log_every: int | None, with_verdicts: list[int], logged: int
) -> None:
    criterion = CountingLoss(8, epochs=5)
    criterion(torch.rand(8), torch.arange(8))
    found = {
        epoch: metrics_due(criterion, epoch, log_every, is_last=epoch == 5) for epoch in range(1, 6)
    }
    complete = [epoch for epoch, values in found.items() if "discrimloss/share_easy" in values]
    assert complete == with_verdicts
    assert criterion.calls == len(with_verdicts)
    assert sum("discrimloss/k_dyn" in values for values in found.values()) == logged
