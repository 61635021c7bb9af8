"""DiscrimTrainer in two processes: the program that torchrun starts, and the run it makes.

Every process writes its model's weights and its criterion's state to DIRECTORY/NAME-RANK.pt.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from quick_verdicts import make_verdicts_quick
from tiny_transformers import CLASSES, arguments, bert, texts
from transformers import BertForSequenceClassification, BertForTokenClassification

from discrimloss.integrations.transformers import DiscrimTrainer

SAMPLES = 24
RUNS: dict[str, tuple[int, dict[str, Any]]] = {  # micro-batches of a step, options of the loss
    "plain": (1, {}),
    "accumulated": (2, {}),
    "sharded": (1, {"sharded": True}),
    "classes": (2, {}),
    "sharded classes": (1, {"sharded": True}),
}


def partly_labelled() -> list[dict[str, Any]]:
    """Token labels; some sequences have none, among them all of one process at one step."""
    samples = [
        {"input_ids": sample["input_ids"], "labels": sample["input_ids"] % CLASSES}
        for sample in texts(SAMPLES)
    ]
    for i in (1, 6, 8, 9, 10, 11, 20):
        samples[i]["labels"] = torch.full_like(samples[i]["labels"], -100)
    return samples


def classes() -> list[dict[str, Any]]:
    """A class for each sequence; some have none, among them all of one process at one step."""
    samples = texts(SAMPLES)
    for i in (1, 6, 8, 9, 10, 11, 20):
        samples[i]["labels"] = -100
    return samples


def trained(directory: Path, batch_size: int, name: str) -> DiscrimTrainer:
    accumulated, options = RUNS[name]
    args = arguments(
        directory,
        per_device_train_batch_size=batch_size,
        gradient_accumulation_steps=accumulated,
        save_strategy="epoch",
    )
    has_classes = name.endswith("classes")
    trainer = DiscrimTrainer(
        model=bert(BertForSequenceClassification if has_classes else BertForTokenClassification),
        args=args,
        train_dataset=classes() if has_classes else partly_labelled(),
        discrimloss=options,
    )
    trainer.train()
    return trainer


def main() -> None:
    directory = Path(sys.argv[1])
    for name in RUNS:
        trainer = trained(directory / name, 4, name)
        ended = {
            "weights": trainer.model.state_dict(),
            "state": trainer.criterion.state_dict(),
            "processes": trainer.args.world_size,
        }
        torch.save(ended, directory / f"{name}-{trainer.args.process_index}.pt")


if __name__ == "__main__":
    torch.set_num_threads(1)
    make_verdicts_quick(setattr)
    main()
