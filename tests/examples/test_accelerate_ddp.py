"""`examples/accelerate_ddp.py`."""

import pytest
from example_runs import EXAMPLES, assert_found_the_noise, read_report, run_example
from torchrun import GLOO, run_with_torchrun


@pytest.mark.slow
def test_it_finds_the_wrong_labels() -> None:
    assert_found_the_noise(read_report(run_example("accelerate_ddp.py", "--epochs", "10")))


@pytest.mark.skipif(not GLOO, reason="torch has no gloo here")
def test_it_finds_them_in_two_processes() -> None:
    printed = run_with_torchrun(2, EXAMPLES / "accelerate_ddp.py", "--epochs", "10")
    report = read_report(printed)
    assert report.processes == 2
    assert_found_the_noise(report)
