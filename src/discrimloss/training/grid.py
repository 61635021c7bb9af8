"""Grids of runs: many jobs, several at a time, each in its own process.

`run_jobs` runs any functions, and `train_runs` runs training runs. A job that fails or is killed
does not stop the others. Ctrl-C and SIGTERM stop all jobs after a checkpoint. No job outlives the
process that started it, even if that process is killed.

Other pools of workers, such as those for the trials of a search, start their processes with
`process_context` and call `stop_with_parent` at the beginning of each.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from discrimloss.errors import DiscrimLossError
from discrimloss.training.interruption import Interrupted, stop_on_signals
from discrimloss.training.run import RunRequest, run_training
from discrimloss.training.run_directory import RunDirectory

IMPORTED_ONCE = ("discrimloss.training.grid", "pandas", "sklearn.datasets", "torch._dynamo")
"""Modules that every training run imports, which takes seconds. Missing ones are left out."""
POLL_SECONDS = 0.1
SECONDS_TO_STOP = 10.0
"""Time for a job's checkpoint after its parent process was killed."""


@dataclass(frozen=True)
class Job:
    """A function to call in its own process. The function and its arguments must be importable.

    Args:
        name: name for messages.
        function: the function.
        arguments: arguments of the call.
        log: the file to which the output of the job is appended. By default, the job prints to the
            output of this process.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    log: Path | None = None


@dataclass(frozen=True)
class JobResult:
    """The result of a job that has ended."""

    job: Job
    seconds: float
    value: Any = None
    """The return value of the function."""
    error: str | None = None
    """The reason of the failure, in one sentence. None for a successful job."""


def run_jobs(
    jobs: Iterable[Job],
    processes: int,
    on_end: Callable[[JobResult], None] = lambda _: None,
    imported_once: Sequence[str] = IMPORTED_ONCE,
) -> list[JobResult]:
    """Run jobs in order, several at a time.

    Args:
        jobs: the jobs.
        processes: number of jobs at a time.
        on_end: called for every job when it has ended.
        imported_once: modules that all jobs need. If the system supports it, they are imported once
            instead of in every process.

    Returns:
        The results in the order in which the jobs ended.

    Raises:
        Interrupted: on Ctrl-C or SIGTERM, after all running jobs have stopped.
    """
    context = process_context(imported_once)
    waiting, running, results = deque(jobs), list[_RunningJob](), list[JobResult]()
    with stop_on_signals() as stop:
        stop.may_wait = True
        try:
            while waiting or running:
                while waiting and len(running) < processes and not stop:
                    running.append(_RunningJob.start(waiting.popleft(), context))
                if stop:
                    raise Interrupted(stop.signal_number or 0, "after a checkpoint of every run")
                ready = wait([job.connection for job in running], timeout=POLL_SECONDS)
                for ended in [job for job in running if job.connection in ready]:
                    result = ended.result()
                    running.remove(ended)
                    results.append(result)
                    on_end(result)
        finally:
            _stop_all(running)
    return results


def train_runs(
    requests: Iterable[RunRequest],
    processes: int,
    on_end: Callable[[JobResult], None] = lambda _: None,
) -> list[JobResult]:
    """Train the runs that are not finished, several at a time. Stopped runs continue.

    Args:
        requests: the runs, each with its own directory.
        processes: number of runs at a time.
        on_end: called for every run when it has ended. `JobResult.value` is its summary.
    """
    jobs = [
        Job(str(request.out), run_training, (request,))
        for request in requests
        if request.out is None or not RunDirectory(request.out).is_finished
    ]
    return run_jobs(jobs, processes, on_end)


def process_context(imported_once: Sequence[str] = IMPORTED_ONCE) -> Any:
    """Return a multiprocessing context whose processes do not inherit the state of this one.

    Args:
        imported_once: modules that all processes need. If the system supports it, they are imported
            once.
    """
    methods = multiprocessing.get_all_start_methods()
    if "forkserver" not in methods:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(imported_once))
    return context


def stop_with_parent() -> None:
    """Send SIGTERM to this process when its parent has ended, and kill it if it does not stop.

    Otherwise this process would continue after its parent was killed.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(SECONDS_TO_STOP)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@dataclass
class _RunningJob:
    job: Job
    process: Any
    connection: Any
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, job: Job, context: Any) -> _RunningJob:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_run_job, args=(job, theirs), name=job.name)
        process.start()
        theirs.close()  # so that our end closes when the process ends
        return cls(job, process, ours)

    def result(self) -> JobResult:
        """Return the result from the process, or one with the reason why there is none."""
        try:
            value, error = self.connection.recv()
        except EOFError:
            value, error = None, ""
        self.process.join()
        self.connection.close()
        seconds = time.monotonic() - self.started
        return JobResult(
            self.job, seconds, value, _why_ended(self.process.exitcode) if error == "" else error
        )


def _why_ended(exit_code: int) -> str:
    if exit_code >= 0:
        return f"it ended with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:  # not every signal has a name
        name = f"signal {-exit_code}"
    hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"it was killed by {name}{hint}"


def _stop_all(running: Sequence[_RunningJob]) -> None:
    """Let every job write its checkpoint and end. After a second signal, jobs end at once."""
    for job in running:
        job.process.terminate()
    try:
        for job in running:
            job.process.join()
    except Interrupted:
        for job in running:
            job.process.terminate()
        for job in running:
            job.process.join()
    for job in running:
        job.connection.close()


def _run_job(job: Job, connection: Any) -> None:
    """Run a job in its process."""
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C reaches only the parent, which stops every job once
    stop_with_parent()
    if job.log is not None:
        _print_to(job.log)
    try:
        outcome: tuple[Any, str | None] = (job.function(*job.arguments), None)
    except DiscrimLossError as error:
        outcome = (None, str(error))
    except (KeyboardInterrupt, Interrupted):
        sys.exit(128 + signal.SIGTERM)
    except Exception as error:
        traceback.print_exc()
        outcome = (None, f"{type(error).__name__}: {error}")
    connection.send(outcome)


def _print_to(log: Path) -> None:
    """Send standard output and standard error to a file, also those of libraries in C."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())
