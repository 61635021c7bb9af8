"""Verdicts of a criterion that knows targets and predictions."""

from typing import Any

import pytest
import torch
from state_comparison import assert_same_state, state_of

from discrimloss import DiscrimLoss


@pytest.mark.parametrize("options", [{"task": "regression"}, {"num_classes": 3}])
def test_verdicts_leave_the_state_as_it_is(options: dict[str, Any]) -> None:
    criterion = DiscrimLoss(60, 4, **options)
    generator = torch.Generator().manual_seed(0)
    target, index = torch.arange(60) % 3, torch.arange(60)
    labels: dict[str, Any] = {"target": target, "logits": torch.randn(60, 3, generator=generator)}
    if "task" in options:
        labels = {"target": target.float(), "predictions": torch.randn(60, generator=generator)}
    for epoch in (1, 2):
        criterion.set_epoch(epoch)
        criterion(torch.rand(60, generator=generator), index, **labels)
    before = state_of(criterion)
    assert criterion.verdicts().suggested_label is not None
    assert_same_state(criterion, before)
