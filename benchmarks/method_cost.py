"""What a training step of each method costs, in time and memory, and the table of the methods.

    python -m benchmarks.method_cost            # a few minutes of CPU time
    python -m benchmarks.method_cost --quick    # checks that it runs; the values mean little

A step is that of the training loop: forward, backward, the optimizer, and what the method does
around them, with LeNet on batches of 128 of 60,000 samples in 10 classes, past the methods'
warm-ups. The methods take turns in a random order; the result is the ratio of the medians to
`plain`, in CPU time of one thread. Memory is the state of a method beside its networks, per sample:
the difference between two sizes of data. Writes results/method_cost.json, and the table into
docs/methods.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import training_runs
from benchmarks.step_cost import Alternative, Group, environment, take_turns
from discrimloss.models.base import TaskShape, models
from discrimloss.training.methods import Batch, Method, Setting, methods
from discrimloss.training.task_losses import cross_entropy, mse

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "methods.md"
BEGIN, END = "<!-- made by benchmarks/method_cost.py -->", "<!-- end -->"
SAMPLES, CLASSES, BATCH, EPOCHS, EPOCH = 60_000, 10, 128, 20, 14
IMAGE = (1, 28, 28)
FIRST = ["plain", "discrimloss"]


def lenet() -> nn.Module:
    network: nn.Module = models.get("lenet")(TaskShape(IMAGE, CLASSES))
    return network


def linear() -> nn.Module:
    return nn.Linear(4, CLASSES)


def build(
    name: str, num_samples: int, build_network: Callable[[], nn.Module] = lenet, **options: Any
) -> Method:
    generator = torch.Generator().manual_seed(0)
    setting = Setting(
        build_network,
        cross_entropy,
        num_samples,
        CLASSES,
        EPOCHS,
        torch.randint(CLASSES, (num_samples,), generator=generator),
        torch.arange(num_samples).float(),
    )
    torch.manual_seed(0)
    method: Method = methods.get(name)(setting, **options)
    return method


def alternative(name: str, steps: int) -> Alternative:
    rate = {"noise_rate": 0.4} if "noise_rate" in methods.options(name) else {}
    method = build(name, SAMPLES, **rate)
    method.train()
    method.begin_epoch(EPOCH)  # past the warm-ups
    optimizer = torch.optim.SGD(method.trainable_parameters(), 0.01, momentum=0.9)
    generator = torch.Generator().manual_seed(1)

    def draw() -> tuple[Tensor, ...]:
        index = torch.randint(SAMPLES, (BATCH,), generator=generator)
        inputs = torch.randn(BATCH, *IMAGE, generator=generator)
        return inputs, method.setting.target[index], index

    def step(*batch: Tensor) -> None:
        method(Batch(*batch)).loss.backward()
        method.after_backward()
        optimizer.step()
        optimizer.zero_grad()
        method.after_step()

    return Alternative(name, draw, step, steps, time.process_time)


def bytes_per_sample(name: str) -> float:
    """State that grows with the data, with default options; also state that is not saved."""

    def size(num_samples: int) -> int:
        method = build(name, num_samples, linear)
        # Losses and criteria keep their state as attributes: see `FixedDtypeModule`.
        kept = [t for module in method.modules() for t in vars(module).values()]
        every = (*kept, *method.buffers(), *method.state_dict().values())
        tensors = {t.data_ptr(): t for t in every if isinstance(t, Tensor)}
        return sum(t.numel() * t.element_size() for t in tensors.values())

    return (size(3000) - size(2000)) / 1000


def network_count(name: str) -> str:
    count = len(build(name, 100, linear).networks)
    return "1 network" if count == 1 else f"{count} networks"


def tasks(name: str) -> str:
    """What the method accepts: its constructor refuses the rest."""
    setting = Setting(lambda: nn.Linear(4, 1), mse, 10, None, EPOCHS, torch.zeros(10))
    try:
        methods.get(name)(setting)
    except ValueError:
        return "classes"
    return "any"


def measure(rounds: int, steps: int) -> tuple[Group, list[dict[str, Any]]]:
    names = FIRST + [name for name in methods.names() if name not in FIRST]
    group = take_turns("step", [alternative(name, steps) for name in names], rounds)
    facts = [
        {
            "method": name,
            "idea": methods.summary(name).rstrip("."),
            "needs": methods.get(name).needs,
            "tasks": tasks(name),
            "networks": network_count(name),
            "bytes_per_sample": bytes_per_sample(name),
            **asdict(group.row(name)),
        }
        for name in names
    ]
    return group, facts


def table(facts: list[dict[str, Any]]) -> str:
    step = "step, relative to `plain`"
    titles = ["method", "idea", step, "memory", "needs to know in advance", "tasks"]
    rows = [
        [
            f"`{fact['method']}`",
            fact["idea"],
            f"{fact['ratio']:.2f}",
            f"{fact['networks']}, {fact['bytes_per_sample']:.0f} bytes a sample",
            fact["needs"],
            fact["tasks"],
        ]
        for fact in facts
    ]
    return "\n".join(training_runs.table(titles, rows))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="writes nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    group, facts = measure(*((2, 2) if options.quick else (20, 4)))
    print(table(facts))
    if options.quick:
        return
    results = {"environment": environment(), "rounds": group.rounds, "methods": facts}
    (HERE / "results" / "method_cost.json").write_text(json.dumps(results, indent=1) + "\n")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(facts)}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
