"""One set of defaults on tasks it was not tuned for: MNIST at five noise levels, digits, ages.

    python -m benchmarks.defaults --data DIR                     # what docs/defaults.md reports
    python -m benchmarks.defaults --data DIR --split validation  # what defaults are chosen on
    python -m benchmarks.defaults --data DIR --tasks mnist --set switch_gain=0.1 --name low-gain

Every cell trains the same model on the same wrong labels twice: with the plain task loss and with
`DiscrimLoss(num_samples, epochs)`. Both get the same optimizer, learning rate, cosine schedule and
number of epochs. Reported is the last epoch, then the best one.

`--split validation` holds a clean tenth of the training data out and never touches the test set.
DIR holds `mnist/*.gz` and `UTKFace/*.jpg` as their publishers ship them; digits come with
scikit-learn. Finished cells are kept in RESULTS.json and skipped when the command is run again.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import math
import os
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import discrimloss
from discrimloss import DiscrimLoss
from discrimloss.files.atomic_write import atomic_write
from discrimloss.training.grid import Job, JobResult, run_jobs
from discrimloss.training.interruption import Interrupted

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Task:
    epochs: int
    batch: int
    learning_rate: float
    noise_rates: tuple[float, ...]
    is_regression: bool = False

    @property
    def metric(self) -> str:
        return "MAE, lower is better" if self.is_regression else "accuracy in %"


TASKS = {
    "mnist": Task(epochs=20, batch=128, learning_rate=0.1, noise_rates=(0.0, 0.2, 0.4, 0.6, 0.8)),
    "digits": Task(epochs=40, batch=64, learning_rate=0.1, noise_rates=(0.0, 0.2, 0.4, 0.6)),
    "ages": Task(
        epochs=15,
        batch=128,
        learning_rate=2e-3,
        noise_rates=(0.0, 0.4),
        is_regression=True,
    ),
}


# ------------------------------------------------------------------------------------------- data


def read_idx(path: Path) -> np.ndarray:
    raw = gzip.decompress(path.read_bytes())
    shape = [int.from_bytes(raw[4 + 4 * d : 8 + 4 * d], "big") for d in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def load_mnist(data: Path) -> tuple[Tensor, ...]:
    def part(name: str) -> tuple[Tensor, Tensor]:
        images = torch.tensor(read_idx(data / "mnist" / f"{name}-images-idx3-ubyte.gz"))
        labels = torch.tensor(read_idx(data / "mnist" / f"{name}-labels-idx1-ubyte.gz"))
        return ((images / 255 - 0.1307) / 0.3081)[:, None], labels.long()

    return *part("train"), *part("t10k")


def load_digits(data: Path) -> tuple[Tensor, ...]:
    from sklearn.datasets import load_digits as load

    digits = load()
    images, labels = torch.tensor(digits.data / 16.0).float(), torch.tensor(digits.target)
    return split_off(images, labels, share=0.25, seed=0)


def load_ages(data: Path) -> tuple[Tensor, ...]:
    """Return UTKFace at 32 x 32, with ages from the file names. Decode once, then use a cache."""
    cache = data / "utkface-32.npz"
    if not cache.exists():
        from PIL import Image

        files = [f for f in sorted((data / "UTKFace").glob("*.jpg")) if f.name.count("_") == 3]
        faces = [np.asarray(Image.open(file).convert("RGB").resize((32, 32))) for file in files]
        ages = [int(file.name.split("_")[0]) for file in files]
        unfinished = cache.with_name(f"{cache.stem}-{os.getpid()}.npz")  # two jobs may decode
        np.savez(unfinished, faces=np.stack(faces), ages=np.array(ages))
        unfinished.replace(cache)
    with np.load(cache) as arrays:
        faces = torch.tensor(arrays["faces"]).permute(0, 3, 1, 2) / 127.5 - 1.0
        ages = torch.tensor(arrays["ages"]).float()
    return split_off(faces, ages, share=0.1, seed=0)


def split_off(x: Tensor, y: Tensor, share: float, seed: int) -> tuple[Tensor, ...]:
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    held_out, kept = order[: round(share * len(x))], order[round(share * len(x)) :]
    return x[kept], y[kept], x[held_out], y[held_out]


LOADERS = {"mnist": load_mnist, "digits": load_digits, "ages": load_ages}


def permute_labels(target: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Permute the labels of a fraction of the samples. Some stay correct by chance."""
    chosen = torch.randperm(len(target), generator=generator)[: round(rate * len(target))]
    noisy = target.clone()
    noisy[chosen] = target[chosen[torch.randperm(len(chosen), generator=generator)]]
    return noisy


# ----------------------------------------------------------------------------------------- models


class Standardized(nn.Module):
    """Scales the output of a network, with mean 0 and spread 1, to the unit of the target."""

    def __init__(self, network: nn.Module, target: Tensor) -> None:
        super().__init__()
        self.network, self.mean, self.spread = network, target.mean(), target.std()

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x).flatten() * self.spread + self.mean


def build_model(task: str, target: Tensor) -> nn.Module:
    if task == "digits":
        return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    if task == "mnist":  # LeNet
        return nn.Sequential(
            *(nn.Conv2d(1, 6, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
        )

    def block(width_in: int, width_out: int) -> list[nn.Module]:
        conv = nn.Conv2d(width_in, width_out, 3, padding=1, bias=False)
        return [conv, nn.BatchNorm2d(width_out), nn.ReLU(), nn.MaxPool2d(2)]

    network = nn.Sequential(
        *(*block(3, 24), *block(24, 48), *block(48, 96)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 1)),
    )
    return Standardized(network, target)


def build_optimizer(task: Task, model: nn.Module) -> torch.optim.Optimizer:
    if task.is_regression:
        return torch.optim.AdamW(model.parameters(), lr=task.learning_rate)
    return torch.optim.SGD(
        model.parameters(), lr=task.learning_rate, momentum=0.9, weight_decay=5e-4
    )


# --------------------------------------------------------------------------------------- one cell


@dataclass(frozen=True)
class Cell:
    task: str
    noise_rate: float
    method: str
    """`plain`, or `discrimloss`."""
    seed: int
    split: str
    settings: tuple[tuple[str, Any], ...] = ()
    """Settings that differ from the defaults of DiscrimLoss."""

    @property
    def key(self) -> str:
        settings = ",".join(f"{name}={value}" for name, value in self.settings)
        parts = (self.task, self.noise_rate, self.method, settings, f"seed{self.seed}", self.split)
        return "/".join(str(part) for part in parts if part != "")


def run_cell(cell: Cell, data: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    task = TASKS[cell.task]
    x, clean_target, test_x, test_target = LOADERS[cell.task](data)
    if cell.split == "validation":
        x, clean_target, test_x, test_target = split_off(x, clean_target, share=0.1, seed=1)
    torch.manual_seed(cell.seed)
    generator = torch.Generator().manual_seed(cell.seed)
    target = permute_labels(clean_target, cell.noise_rate, generator)
    model = build_model(cell.task, target).to(memory_format=torch.channels_last)
    optimizer = build_optimizer(task, model)
    steps = task.epochs * math.ceil(len(x) / task.batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / steps))
    )
    criterion = None
    if cell.method == "discrimloss":
        criterion = DiscrimLoss(len(x), task.epochs, **dict(cell.settings))

    def task_losses(index: Tensor) -> Tensor:
        output = model(x[index])
        if task.is_regression:
            return F.mse_loss(output, target[index], reduction="none")
        return F.cross_entropy(output, target[index], reduction="none")

    @torch.no_grad()
    def evaluate() -> float:
        model.eval()
        output = torch.cat([model(part) for part in test_x.split(1000)])
        model.train()
        if task.is_regression:
            return float((output - test_target).abs().mean())
        return 100 * float((output.argmax(1) == test_target).float().mean())

    started, curve = time.perf_counter(), []
    for epoch in range(1, task.epochs + 1):
        if criterion:
            criterion.set_epoch(epoch)
        for index in torch.randperm(len(x), generator=generator).split(task.batch):
            losses = task_losses(index)
            loss = criterion(losses, index) if criterion else losses.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        curve.append(evaluate())
    best = min(curve) if task.is_regression else max(curve)
    record = {"last": curve[-1], "best": best, "seconds": time.perf_counter() - started}
    if criterion:
        record |= judge(criterion, (target != clean_target).numpy())
    return record


def judge(criterion: DiscrimLoss, is_wrong: np.ndarray) -> dict[str, float]:
    verdicts = criterion.verdicts()
    flagged = verdicts.label == "incorrect"
    record = {
        "noise_true": float(is_wrong.mean()),
        "noise_estimated": verdicts.noise_rate,
        "flagged": float(flagged.mean()),
        "loss_scale": float(criterion.loss_scale),
    }
    if is_wrong.any():
        rank = np.empty(len(is_wrong))
        rank[np.argsort(verdicts.average_loss, kind="stable")] = np.arange(1, len(is_wrong) + 1)
        number = int(is_wrong.sum())
        area = (rank[is_wrong].sum() - number * (number + 1) / 2) / (
            number * (len(is_wrong) - number)
        )
        found = int((flagged & is_wrong).sum())
        record |= {
            "auroc": float(area),
            "precision": found / max(int(flagged.sum()), 1),
            "recall": found / number,
        }
    return record


# ----------------------------------------------------------------------------------------- report


def spread(values: list[float], digits: int = 2) -> str:
    if not values:
        return "–"
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def render(results: dict[str, Any], name: str, split: str) -> str:
    lines = [f"# Defaults on several tasks: {name} ({split})", "", results["about"]["command"], ""]
    lines += [", ".join(f"{k} {v}" for k, v in results["about"]["versions"].items()), ""]
    for task_name, task in TASKS.items():
        cells = [c for c in results["cells"].values() if c["task"] == task_name]
        if not cells:
            continue
        seeds = sorted({c["seed"] for c in cells})
        lines += [f"## {task_name}: {task.metric}, {task.epochs} epochs, seeds {seeds}", ""]
        titles = ["noise", "plain, last", "best", "DiscrimLoss, last", "best"]
        titles += ["estimated / true noise", "precision", "recall", "AUROC"]
        lines += [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
        for rate in task.noise_rates:
            plain, ours = (
                [c for c in cells if c["noise_rate"] == rate and c["method"] == method]
                for method in ("plain", "discrimloss")
            )
            column = {k: [c[k] for c in ours if k in c] for k in set().union(*ours)} if ours else {}
            noise = " / ".join(
                f"{100 * statistics.mean(column[k]):.1f} %" if column.get(k) else "–"
                for k in ("noise_estimated", "noise_true")
            )
            row = [f"{rate:.0%}", *(spread([c[k] for c in plain]) for k in ("last", "best"))]
            row += [f"**{spread(column.get('last', []))}**", spread(column.get("best", [])), noise]
            row += [spread(column.get(k, []), 3) for k in ("precision", "recall", "auroc")]
            lines.append(f"| {' | '.join(row)} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("DISCRIMLOSS_DATA"))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--noise", nargs="+", type=float, help="only these noise rates")
    parser.add_argument("--methods", nargs="+", default=["plain", "discrimloss"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--split", choices=["test", "validation"], default="test")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", dest="settings")
    parser.add_argument("--name", default="defaults", help="of the result files")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if options.data is None:
        parser.error("say where the data is: --data DIR, or DISCRIMLOSS_DATA")

    settings = tuple(
        (name, ast.literal_eval(value) if value[:1] in "-.(0123456789" else value)
        for name, value in (item.split("=", 1) for item in options.settings)
    )
    cells = [
        Cell(task, rate, method, seed, options.split, settings if method != "plain" else ())
        for seed in range(1, options.seeds + 1)
        for task in options.tasks
        for rate in TASKS[task].noise_rates
        if not options.noise or rate in options.noise
        for method in options.methods
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.name}.json"
    results = json.loads(path.read_text()) if path.exists() else {"cells": {}}
    results["about"] = {
        "command": f"`python -m benchmarks.defaults --data DIR --split {options.split}"
        f"{' --set ' + ' '.join(options.settings) if settings else ''} --seeds N`",
        "versions": {
            "discrimloss": discrimloss.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    waiting = [cell for cell in cells if cell.key not in results["cells"]]
    print(f"{len(cells)} cells, {len(cells) - len(waiting)} of them finished before", flush=True)

    def keep(result: JobResult) -> None:
        if result.error is not None:
            print(f"{result.job.name} failed ({result.error})", flush=True)
            return
        cell: Cell = result.job.arguments[0]
        results["cells"][cell.key] = {
            **{k: getattr(cell, k) for k in ("task", "noise_rate", "method", "seed", "split")},
            **result.value,
        }
        with atomic_write(path) as unfinished:
            unfinished.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        print(f"{cell.key}: {result.value['last']:.2f}", flush=True)

    jobs = [Job(cell.key, run_cell, (cell, options.data)) for cell in waiting]
    try:
        ended = run_jobs(jobs, options.jobs, keep)
    except Interrupted:
        raise SystemExit("stopped; the same command continues") from None
    report = render(results, options.name, options.split)
    path.with_suffix(".md").write_text(report)
    print(report)
    if any(result.error for result in ended):
        raise SystemExit("some cells failed, see above: the same command tries them again")


if __name__ == "__main__":
    main()
