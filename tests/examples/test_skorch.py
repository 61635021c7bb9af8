"""`examples/skorch.py`."""

from example_runs import assert_found_the_noise, read_report, run_example


def test_it_finds_the_wrong_labels() -> None:
    assert_found_the_noise(read_report(run_example("skorch.py", "--epochs", "10")))
