"""`examples/accelerate_ddp.py`."""

import pytest

from example_runs import assert_found_the_noise, run_example
from two_processes import GLOO

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.mark.slow
def test_it_finds_the_wrong_labels() -> None:
    assert_found_the_noise(run_example("accelerate_ddp.py", "--epochs", "10"))


@pytest.mark.skipif(not GLOO, reason="torch has no gloo here")
def test_it_finds_them_in_two_processes() -> None:
    report = run_example("accelerate_ddp.py", "--epochs", "10", launcher=TORCHRUN)
    assert report.processes == 2
    assert_found_the_noise(report)
