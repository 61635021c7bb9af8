"""`examples/lightning.py`."""

import pytest
from example_runs import assert_found_the_noise, run_example
from torchrun import GLOO


def test_it_finds_the_wrong_labels() -> None:
    assert_found_the_noise(run_example("lightning.py", "--epochs", "10"))


@pytest.mark.slow
@pytest.mark.skipif(not GLOO, reason="torch has no gloo here")
def test_it_finds_them_in_two_processes() -> None:
    report = run_example("lightning.py", "--epochs", "10", "--processes", "2")
    assert report.processes == 2
    assert_found_the_noise(report)
