"""`examples/lightning.py`."""

import pytest
from example_runs import EXAMPLES, assert_found_the_noise, read_report, run_example
from torchrun import GLOO, run_python


@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated")
def test_it_finds_the_wrong_labels() -> None:
    assert_found_the_noise(read_report(run_example("lightning.py", "--epochs", "10")))


@pytest.mark.slow
@pytest.mark.skipif(not GLOO, reason="torch has no gloo here")
def test_it_finds_them_in_two_processes() -> None:
    report = read_report(run_python(EXAMPLES / "lightning.py", "--epochs", 10, "--processes", 2))
    assert report.processes == 2
    assert_found_the_noise(report)
