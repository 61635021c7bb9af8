"""Handwritten digits with 40 % wrong labels, in Lightning: a callback, and one line in the step.

python examples/lightning.py                  # in one process
python examples/lightning.py --processes 2    # in two processes, with the same sample state
"""

import argparse
import sys

sys.path.pop(0)  # this directory, because this file has the name of the library

import lightning as L
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from discrimloss import IndexedDataset
from discrimloss.integrations.lightning import DiscrimLossCallback, weighted_loss

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--processes", type=int, default=1)
options = parser.parse_args()
torch.manual_seed(0)

digits = load_digits()
images, labels = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
order = torch.randperm(len(images))
train, test = order[450:], order[:450]

given = labels[train].clone()  # the labels for training
wrong = torch.randperm(len(given))[: int(0.4 * len(given))]
given[wrong] = (given[wrong] + torch.randint(1, 10, wrong.shape)) % 10
dataset = IndexedDataset(TensorDataset(images[train], given))  # batches are (x, y, index)


class DigitClassifier(L.LightningModule):
    def __init__(self, weighted: bool) -> None:
        super().__init__()
        self.weighted = weighted
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        x, y, index = batch
        logits = self(x)
        losses = cross_entropy(logits, y, reduction="none")
        if not self.weighted:
            return losses.mean()
        return weighted_loss(self, losses, index, target=y, logits=logits)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)]


def train_model(*callbacks: L.Callback) -> tuple[DigitClassifier, L.Trainer]:
    torch.manual_seed(1)
    model = DigitClassifier(weighted=bool(callbacks))
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar"), False)
    trainer = L.Trainer(
        max_epochs=options.epochs,
        callbacks=list(callbacks),
        accelerator="cpu",
        devices=options.processes,
        strategy="ddp" if options.processes > 1 else "auto",
        enable_model_summary=False,
        **quiet,
    )
    loader = DataLoader(dataset, batch_size=64 // options.processes, shuffle=True)
    trainer.fit(model, loader)
    return model, trainer


def accuracy(model: DigitClassifier) -> float:
    return (model(images[test]).argmax(1) == labels[test]).float().mean().item()


callback = DiscrimLossCallback(log_every=10)
(plain, _), (ours, trainer) = train_model(), train_model(callback)
verdicts = callback.verdicts()
if trainer.is_global_zero:
    print(f"trained by {trainer.world_size} process(es)")
    print(f"test accuracy with cross-entropy {accuracy(plain):.1%}", end=", ")
    print(f"with DiscrimLoss {accuracy(ours):.1%}")
    print(verdicts)
    print("the worst labels:")
    for index in verdicts.most_suspicious(5):
        suggested = ours(images[train[index]]).argmax()
        print(f"  sample {index}: given {given[index]}, suggested {suggested}", end=", ")
        print(f"truly {labels[train[index]]}, p_incorrect {verdicts.p_incorrect[index]:.3f}")
