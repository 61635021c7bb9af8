"""Starts a program in several processes like torchrun, but imports what it imports only once.

Importing torch takes seconds, in every process. So this program imports the other one, forks, and
lets each process run it. As with torchrun, the processes meet at a store of the one that started
them.
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path

import torch._dynamo  # noqa: F401 - every optimizer imports it: here, once for all processes
import torch.distributed as dist


def start(number: int, program: Path, arguments: list[str]) -> int:
    """Run the program in so many processes; 0 if all of them end well."""
    sys.path.insert(0, str(program.parent))
    importlib.import_module(program.stem)
    forked, pipes = [], []
    for rank in range(number):
        receiving, sending = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(sending)
            os._exit(_run(rank, number, program, arguments, receiving))
        os.close(receiving)
        forked.append(process)
        pipes.append(sending)
    # Now, as its threads would not survive a fork.
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    for pipe in pipes:
        os.write(pipe, b"%d" % store.port)
        os.close(pipe)
    return _wait(set(forked))


def _run(rank: int, number: int, program: Path, arguments: list[str], receiving: int) -> int:
    """The program in one process, with the environment that torchrun would give it."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": number, "LOCAL_WORLD_SIZE": number}
    os.environ.update({name: str(value) for name, value in place.items()})
    port = os.read(receiving, 16).decode()
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port)
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    sys.argv = [str(program), *arguments]
    try:
        runpy.run_path(str(program), run_name="__main__")
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _wait(forked: set[int]) -> int:
    """Wait for all; if one fails, the others would wait for it in vain."""
    while forked:
        ended, status = os.wait()
        forked.discard(ended)
        if status != 0:
            for process in forked:
                os.kill(process, signal.SIGKILL)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(start(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
