"""The first request waits for the step, the second does not, and handlers are put back."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from run_comparison import assert_same_run, place_of
from run_host import RunHost

from discrimloss.training.interruption import Interrupted, stop_on_signals

BOTH = (signal.SIGINT, signal.SIGTERM)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", BOTH)
def test_a_request_waits_and_a_second_does_not(number: signal.Signals) -> None:
    with stop_on_signals() as stop:
        stop.may_wait = True
        assert not stop
        send(number)
        assert stop
        assert stop.signal_number == number
        with pytest.raises(Interrupted) as interrupted:
            send(signal.SIGINT)
        assert interrupted.value.signal_number == signal.SIGINT


def test_where_nobody_looks_a_request_does_not_wait() -> None:
    with stop_on_signals(), pytest.raises(Interrupted):
        send(signal.SIGTERM)


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in BOTH]
    with stop_on_signals():
        assert [signal.getsignal(number) for number in BOTH] != before
    assert [signal.getsignal(number) for number in BOTH] == before
    with pytest.raises(RuntimeError), stop_on_signals():
        raise RuntimeError
    assert [signal.getsignal(number) for number in BOTH] == before


def test_nobody_who_handles_errors_takes_it_for_one() -> None:
    assert not issubclass(Interrupted, Exception)


def test_a_second_ctrl_c_stops_a_run_at_once(run_host: RunHost, whole_runs, tmp_path: Path) -> None:
    out = tmp_path / "run"
    stopped = run_host.run(out, signals=["SIGINT", "SIGINT"], epoch=2, step=3)
    assert (stopped["kind"], stopped["message"]) == ("Interrupted", "at once")
    assert place_of(out) == (2, 0)  # no time for a checkpoint
    assert run_host.run(out, resume=True)["ended"] == "finished"
    assert_same_run(out, whole_runs.with_settings())
