"""Denormal numbers in a run."""

from __future__ import annotations

import pytest
import torch

from discrimloss.training.denormals import flushed_denormals


def test_denormals_are_0_within_the_block_only() -> None:
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor does not flush denormals")
    tiny = torch.tensor(1e-20)
    with flushed_denormals():
        assert float(tiny * tiny) == 0.0
    assert float(tiny * tiny) > 0.0
