"""What all tests share: one thread, and examples that are the same in every run."""

import signal
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings
from quick_files import make_files_quick
from quick_verdicts import make_verdicts_quick
from remembered_fits import remembered_fits
from run_host import FORKED_PROCESSES, RunHost

torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the workers of pytest-xdist
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests press Ctrl-C

settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


@pytest.fixture(scope="session", autouse=True)
def _quick_files() -> Iterator[None]:
    """Runs write dozens of files, and wait for the disk after each."""
    with pytest.MonkeyPatch.context() as patch:
        make_files_quick(patch.setattr)
        yield


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Fails a test that leaves more threads than it found: all later ones would be slower."""
    yield
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    assert threads == 1, f"the test leaves torch with {threads} threads"


@pytest.fixture
def quick_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fits behind verdicts take longer than the runs of most tests."""
    make_verdicts_quick(monkeypatch.setattr)


@pytest.fixture(scope="module")
def fits_once() -> Iterator[None]:
    """Runs that are compared with each other fit the same noise models."""
    with remembered_fits():
        yield


@pytest.fixture(scope="session")
def run_host() -> Iterator[RunHost]:
    """Starts runs in processes of their own."""
    if not FORKED_PROCESSES:
        pytest.skip("this system cannot fork processes")
    host = RunHost()
    yield host
    host.close()
