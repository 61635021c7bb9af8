"""What DiscrimLoss costs in several processes.

    python -m benchmarks.process_cost            # two processes; minutes, on an idle machine
    python -m benchmarks.process_cost --quick    # a smoke test of seconds; its values mean little

Shows, measured in one run on the CPU, with gloo:

1. bytes of sample state in each process, replicated and sharded;
2. bytes that a process sends in a step;
3. the time of a step, compared with one process that computes the whole batch;
4. the time of `set_epoch`, which reads the whole sample state.

Method: the alternatives take turns in a random order that is the same in all processes, as in
`step_cost.py`. The first process reports.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.step_cost import (
    EPOCHS,
    Alternative,
    criterion_step,
    draw_losses,
    environment,
    group_table,
    power,
    take_turns,
    three_digits,
)
from discrimloss import DiscrimLoss

SIZES, QUICK_SIZES = (10**6, 10**8), (10**4, 10**5)
DEFAULT_OUT = Path(__file__).parent / "results" / "process_cost"


@dataclass(frozen=True)
class Cost:
    """The costs of one way to hold the sample state, for one number of samples."""

    way: str
    num_samples: int
    state_bytes: int
    """Bytes of the sample state in the first process."""
    sent_bytes: float
    """Bytes that the first process sends in a step."""
    set_epoch_seconds: float


class Traffic:
    """Return the bytes that this process sends in the collectives of a step."""

    def __init__(self) -> None:
        self.bytes = 0

    def __enter__(self) -> Traffic:
        self.originals = {name: getattr(dist, name) for name in ("all_gather", "all_to_all_single")}

        def watched(original: Any) -> Any:
            def call(received: Any, sent: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
                self.bytes += sent.nbytes
                return original(received, sent, *args, **kwargs)

            return call

        for name, original in self.originals.items():
            setattr(dist, name, watched(original))
        return self

    def __exit__(self, *_: object) -> None:
        for name, original in self.originals.items():
            setattr(dist, name, original)


def second_epoch(criterion: DiscrimLoss) -> DiscrimLoss:
    """Return a criterion after the epoch that measures the loss scale, as in most steps."""
    criterion(torch.rand(64), torch.arange(64))
    criterion.table.history.exponential_(generator=torch.Generator().manual_seed(1))
    criterion.table.visits.fill_(1)
    criterion.set_epoch(2)
    return criterion


def measure_size(num_samples: int, batch: int, rounds: int) -> tuple[Any, list[Cost]]:
    processes, rank = dist.get_world_size(), dist.get_rank()
    alone = [dist.new_group([each]) for each in range(processes)][rank]
    ways = {
        f"one process, {processes * batch} rows": (
            DiscrimLoss(num_samples, EPOCHS, process_group=alone),
            processes * batch,
        ),
        f"{processes} processes, replicated": (DiscrimLoss(num_samples, EPOCHS), batch),
        f"{processes} processes, sharded": (
            DiscrimLoss(num_samples, EPOCHS, sharded=True),
            batch,
        ),
    }
    alternatives, costs = [], []
    generator = torch.Generator().manual_seed(rank)
    for way, (criterion, rows) in ways.items():
        second_epoch(criterion)

        def draw(rows: int = rows) -> tuple[torch.Tensor, ...]:
            return draw_losses(num_samples, rows, generator)

        step = criterion_step(criterion)
        step(*draw())  # makes room for a batch of this size
        with Traffic() as traffic:
            for _ in range(10):
                step(*draw())
        dist.barrier()
        start = time.perf_counter()
        criterion.set_epoch(3)
        seconds = time.perf_counter() - start
        state_bytes = sum(column.nbytes for _, column in criterion.table.columns())
        costs.append(Cost(way, num_samples, state_bytes, traffic.bytes / 10, seconds))
        alternatives.append(Alternative(way, draw, step))
    words = torch.zeros(batch + 2, 2, dtype=torch.int32)
    places = [torch.empty_like(words) for _ in range(processes)]
    alternatives.append(
        Alternative(
            "a bare all-gather of as many bytes", tuple, lambda: dist.all_gather(places, words)
        )
    )
    title = f"A step, {power(num_samples)} samples"
    return take_turns(title, alternatives, rounds), costs


def cost_table(costs: list[Cost], batch: int) -> str:
    lines = [
        "## Bytes, and what an epoch costs",
        "",
        f"| samples | | state in a process | a sample | sent per {batch} rows | `set_epoch`, s |",
        "|---|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {power(cost.num_samples)} | {cost.way} | {cost.state_bytes / 1e6:,.1f} MB "
        f"| {cost.state_bytes / cost.num_samples:.2f} | {cost.sent_bytes:,.0f} "
        f"| {three_digits(cost.set_epoch_seconds)} |"
        for cost in costs
    ]
    return "\n".join(lines)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What DiscrimLoss costs in several processes.")
    parser.add_argument("--out", type=Path, help="where the .json and the .md go")
    parser.add_argument("--batch", type=int, default=128, help="rows of a batch in each process")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--repeats", type=int, help="rounds (default: 100; 3 with --quick)")
    parser.add_argument("--quick", action="store_true", help="a smoke run: few rounds, small sizes")
    arguments = parser.parse_args()
    if arguments.out is None and not arguments.quick:
        arguments.out = DEFAULT_OUT
    if arguments.repeats is None:
        arguments.repeats = 3 if arguments.quick else 100
    return arguments


def launch(processes: int) -> int:
    """Start this program again in several processes of one group."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes), "-m", "benchmarks.process_cost", *sys.argv[1:]]
    return subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}).returncode


def measure(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    command = shlex.join(["python", "-m", "benchmarks.process_cost", *sys.argv[1:]])
    groups, costs = [], []
    for size in QUICK_SIZES if arguments.quick else SIZES:
        group, found = measure_size(size, arguments.batch, arguments.repeats)
        groups.append(group)
        costs += found
    conditions = environment()
    report = "\n\n".join(
        [
            "# What DiscrimLoss costs in several processes",
            f"`{command}`, gloo on the CPU, {arguments.batch} rows in each process.\n"
            + ", ".join(f"{name} {value}" for name, value in conditions.items())
            + ".",
            cost_table(costs, arguments.batch),
            "The time of a step is that of the loss alone, forward and backward to the losses.",
            *(group_table(group) for group in groups),
        ]
    )
    if dist.get_rank() == 0:
        print(report)
        if arguments.out is not None:
            record = {
                "command": command,
                "environment": conditions,
                "costs": [asdict(cost) for cost in costs],
                "groups": [asdict(group) for group in groups],
            }
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            stem = arguments.out.name
            arguments.out.with_name(f"{stem}.json").write_text(json.dumps(record, indent=2) + "\n")
            arguments.out.with_name(f"{stem}.md").write_text(report + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    parsed = parse_arguments()
    if "RANK" not in os.environ:
        sys.exit(launch(parsed.processes))
    measure(parsed)
