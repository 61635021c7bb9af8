"""Runs that die, each in a process of its own.

Importing torch takes seconds. So one program imports everything and then forks a process for each
run; a test talks to it through `RunHost`, in lines of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quick_files import make_files_quick
from quick_verdicts import make_verdicts_quick

FORKED_PROCESSES = hasattr(os, "fork")


class RunHost:
    """Starts runs of the lively task, and tells how they ended."""

    def __init__(self) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-W", "error", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def run(self, out: Path, *settings: str, **life: Any) -> dict[str, Any]:
        """How a run ended: ``{"ended": "finished" | "error" | "killed", ...}``.

        Of one that finished, ``"began"`` is the epoch and the step that it did first.

        Args:
            out: the directory of the run.
            settings: what differs from the usual settings of the lively task.
            life: `resume` and `overwrite`; `signals` to send itself, at `epoch` and `step`; or the
                `moment` to be killed at, one of `MOMENTS`, and which `occurrence` of it;
                `largest_file`, in bytes, as if the disk were full then; `real_verdicts`, which take
                long.
        """
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        request = {"out": str(out), "settings": settings, **life}
        self._program.stdin.write(json.dumps(request) + "\n")
        self._program.stdin.flush()
        answer = self._program.stdout.readline()
        assert answer, "the host of the runs is gone: see its standard error"
        ended: dict[str, Any] = json.loads(answer)
        return ended

    def close(self) -> None:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.close()
        self._program.wait()
        self._program.stdout.close()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str, occurrence: int) -> None:
    """Die when `owner.name` is called for the n-th time."""
    original, calls = getattr(owner, name), iter(range(1, 1000))

    def replacement(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == occurrence:
            die()
        return original(*args, **kwargs)

    setattr(owner, name, replacement)


def half_way_through_a_file(occurrence: int) -> None:
    """Die with the first file of a checkpoint written to its half, and the others not at all."""
    from accelerate import checkpointing

    original, models_saved = checkpointing.save, iter(range(1, 1000))

    def replacement(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        original(obj, f, *args, **kwargs)
        if Path(f).name == "model.safetensors" and next(models_saved) == occurrence:
            os.truncate(f, Path(f).stat().st_size // 2)
            die()

    checkpointing.save = replacement


def before_the_manifest(occurrence: int) -> None:
    from discrimloss.training import checkpoint

    before(checkpoint, "_write_manifest", occurrence)


def after_the_manifest(occurrence: int) -> None:
    from discrimloss.training import checkpoint

    before(checkpoint, "_swap_in", occurrence)


def between_two_renames(occurrence: int) -> None:
    original, swaps = Path.replace, iter(range(1, 1000))

    def replacement(self: Path, target: Any) -> Path:
        if self.name == "checkpoint.unfinished" and next(swaps) == occurrence:
            die()
        return original(self, target)

    Path.replace = replacement  # type: ignore[method-assign, assignment]


def before_the_old_checkpoint_goes(occurrence: int) -> None:
    from discrimloss.training import checkpoint

    original, goings = checkpoint.shutil.rmtree, iter(range(1, 1000))

    def replacement(path: Any, *args: Any, **kwargs: Any) -> None:
        path = Path(path)
        both_are_there = path.exists() and path.with_name("checkpoint").exists()
        if path.name == "checkpoint.old" and both_are_there and next(goings) == occurrence:
            die()
        original(path, *args, **kwargs)

    checkpoint.shutil.rmtree = replacement  # type: ignore[assignment]


def between_checkpoint_and_history(occurrence: int) -> None:
    from discrimloss.training.records import History

    before(History, "add", occurrence)


def before_the_verdicts(occurrence: int) -> None:
    from discrimloss.training import run

    before(run, "write_verdicts", occurrence)


def while_an_earlier_run_is_removed(occurrence: int) -> None:
    from discrimloss.training import run_directory

    before(run_directory.shutil, "rmtree", occurrence)


def second_request_while_saving(occurrence: int) -> None:
    """Not a death: the second Ctrl-C comes while a checkpoint is written."""
    from discrimloss.training import checkpoint

    original, manifests = checkpoint._write_manifest, iter(range(1, 1000))

    def replacement(*args: Any) -> None:
        if next(manifests) == occurrence:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        original(*args)

    checkpoint._write_manifest = replacement


MOMENTS: dict[str, Callable[[int], None]] = {
    function.__name__: function
    for function in (
        half_way_through_a_file,
        before_the_manifest,
        after_the_manifest,
        between_two_renames,
        before_the_old_checkpoint_goes,
        between_checkpoint_and_history,
        before_the_verdicts,
        while_an_earlier_run_is_removed,
        second_request_while_saving,
    )
}


class SendsItselfSignals:
    def __init__(self, signals: list[str], epoch: int, step: int) -> None:
        self.numbers = [getattr(signal, name) for name in signals]
        self.place = (epoch, step)
        self.began: tuple[int, int] | None = None

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        self.began = self.began or (epoch, step)
        if (epoch, step) == self.place:
            for number in self.numbers:
                os.kill(os.getpid(), number)

    def on_epoch(self, row: dict[str, Any]) -> None:
        pass


def live(request: dict[str, Any]) -> dict[str, Any]:
    """One run, in the forked process."""
    from lively_task import lively_config

    from discrimloss.training.run import RunRequest, run_training

    if not request.get("real_verdicts"):
        make_verdicts_quick(setattr)
    if "largest_file" in request:
        import resource

        highest = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest_file"], highest))
    if "moment" in request:
        MOMENTS[request["moment"]](request.get("occurrence", 1))
    observer = SendsItselfSignals(
        request.get("signals", []), request.get("epoch", 0), request.get("step", 0)
    )
    run = RunRequest(
        lively_config(*request["settings"]),
        Path(),
        Path(request["out"]),
        resume=request.get("resume", False),
        overwrite=request.get("overwrite", False),
    )
    try:
        summary = run_training(run, observer)
    except BaseException as error:
        traceback.print_exc()
        return {"ended": "error", "kind": type(error).__name__, "message": str(error)}
    return {"ended": "finished", "began": observer.began, "summary": summary}


def in_a_process(request: dict[str, Any]) -> dict[str, Any]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        complaints = os.open(os.devnull, os.O_WRONLY)
        os.dup2(complaints, 2)
        answer = json.dumps(live(request)).encode()
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return {"ended": "killed", "signal": signal.Signals(os.WTERMSIG(status)).name}
    ended: dict[str, Any] = json.loads(answer)
    return ended


def main() -> None:
    import lively_task
    import pandas  # noqa: F401 - here, so that no run has to
    import pyarrow.parquet  # noqa: F401
    import sklearn.metrics  # noqa: F401
    import torch

    torch.set_num_threads(1)
    make_files_quick(setattr)
    with lively_task.registered():
        with tempfile.TemporaryDirectory() as directory:  # a first run imports the rest
            warm_up = ("epochs=1", "method=plain", "options.history=false")
            ended = live({"out": f"{directory}/run", "settings": warm_up})
        assert ended["ended"] == "finished"
        for line in sys.stdin:
            print(json.dumps(in_a_process(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
