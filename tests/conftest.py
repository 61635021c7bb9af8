"""What all tests share: one thread, and examples that are the same in every run."""

import pytest
import torch
from hypothesis import HealthCheck, settings

from run_host import quick_calibration

torch.set_num_threads(1)

settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


@pytest.fixture
def quick_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calibration takes longer than the runs of most tests."""
    monkeypatch.setattr("discrimloss.verdicts.calibrate", quick_calibration)
