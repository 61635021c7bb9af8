"""Jobs in processes: what comes back of each, and what becomes of them when something stops."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import grid_jobs
import pytest
from command_line import environment

from discrimloss.recipes import load_recipe
from discrimloss.training.grid import Job, JobResult, run_jobs, train_runs
from discrimloss.training.interruption import Interrupted
from discrimloss.training.run import RunRequest


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_every_job_gives_its_value() -> None:
    seen: list[JobResult] = []
    jobs = [Job(f"job {number}", grid_jobs.double, (number,)) for number in range(5)]
    results = run_jobs(jobs, 2, seen.append)
    assert {result.job.name: result.value for result in results} == {
        f"job {number}": 2 * number for number in range(5)
    }
    assert seen == results
    assert all(result.error is None and result.seconds > 0 for result in results)


def test_one_at_a_time_keeps_the_order(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    run_jobs([Job("", grid_jobs.note_and_double, (n, notes)) for n in (3, 1, 2)], 1)
    assert notes.read_text().split() == ["3", "1", "2"]


def test_a_job_that_fails_or_is_killed_does_not_stop_the_others(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "refuse.log"
    jobs = [
        Job("refuse", grid_jobs.refuse, log=log),
        Job("break", grid_jobs.break_down, log=tmp_path / "break.log"),
        Job("die", grid_jobs.die),
        Job("unpicklable", grid_jobs.unpicklable, log=tmp_path / "unpicklable.log"),
        Job("large", grid_jobs.large),
        Job("double", grid_jobs.double, (4,)),
    ]
    results = {result.job.name: result for result in run_jobs(jobs, 2)}
    assert {name: result.error for name, result in results.items()} == {
        "refuse": "the loss became nan",
        "break": "ZeroDivisionError: of what?",
        "die": "it was killed by SIGKILL, as the system does when memory runs out",
        "unpicklable": "it ended with exit code 1",
        "large": None,
        "double": None,
    }
    assert len(results["large"].value) == 1_000_000
    assert results["double"].value == 8
    assert log.read_text() == "before\n"
    assert "ZeroDivisionError" in (tmp_path / "break.log").read_text()


def test_ctrl_c_stops_all_jobs_after_a_checkpoint(tmp_path: Path) -> None:
    places = [tmp_path / name for name in "abc"]
    for place in places:
        place.mkdir()

    def press_ctrl_c() -> None:
        for place in places[:2]:
            wait_for(place / "started")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press_ctrl_c).start()
    with pytest.raises(Interrupted) as stopped:
        run_jobs([Job("", grid_jobs.work_until_stopped, (place,)) for place in places], 2)
    assert stopped.value.signal_number == signal.SIGINT
    assert [(place / "checkpoint").exists() for place in places] == [True, True, False]
    assert not (places[2] / "started").exists()


def test_no_job_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    command = subprocess.Popen(
        [sys.executable, grid_jobs.__file__, str(tmp_path)], env=environment()
    )
    try:
        wait_for(tmp_path / "started")
    finally:
        command.kill()
        command.wait()
    wait_for(tmp_path / "checkpoint")
    job = int((tmp_path / "started").read_text())
    deadline = time.monotonic() + 120
    while _is_alive(job):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_training_runs_are_made_once(tmp_path: Path) -> None:
    config = load_recipe("digits", ["epochs=1", "train_size=100", "threads=1"])
    requests = [
        RunRequest(replace(config, seed=seed), Path(), tmp_path / str(seed), resume=True)
        for seed in (1, 2)
    ]
    first = train_runs(requests[:1], 1)
    assert first[0].value["seed"] == 1
    again = train_runs(requests, 2)
    assert [result.value["seed"] for result in again] == [2]
    assert (tmp_path / "2" / "summary.json").is_file()
