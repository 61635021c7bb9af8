"""Handwritten digits with 40 % wrong labels, in skorch: only the class of the net changes.

python examples/skorch.py
"""

import argparse
import sys

sys.path.pop(0)  # this directory, because this file has the name of the library

import torch
from sklearn.datasets import load_digits
from skorch import NeuralNetClassifier
from skorch.callbacks import LRScheduler

from discrimloss.integrations.skorch import DiscrimNetClassifier

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=40)
options = parser.parse_args()
torch.manual_seed(0)

digits = load_digits()
images, labels = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
order = torch.randperm(len(images))
train, test = order[450:], order[:450]

given = labels[train].clone()  # the labels for training
wrong = torch.randperm(len(given))[: int(0.4 * len(given))]
given[wrong] = (given[wrong] + torch.randint(1, 10, wrong.shape)) % 10


class DigitClassifier(torch.nn.Sequential):
    def __init__(self) -> None:
        super().__init__(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))


def train_net(net_class: type[NeuralNetClassifier]) -> NeuralNetClassifier:
    torch.manual_seed(1)
    net = net_class(
        DigitClassifier,
        criterion=torch.nn.CrossEntropyLoss,
        max_epochs=options.epochs,
        batch_size=64,
        iterator_train__shuffle=True,
        optimizer__lr=0.1,
        optimizer__momentum=0.9,
        optimizer__weight_decay=5e-4,
        callbacks=[LRScheduler("CosineAnnealingLR", T_max=options.epochs)],
        train_split=None,
        verbose=0,
    )
    return net.fit(images[train], given)


plain, ours = train_net(NeuralNetClassifier), train_net(DiscrimNetClassifier)
print(f"test accuracy with cross-entropy {plain.score(images[test], labels[test]):.1%}", end=", ")
print(f"with DiscrimLoss {ours.score(images[test], labels[test]):.1%}")

verdicts = ours.verdicts()
print(verdicts)
print("the worst labels:")
worst = verdicts.most_suspicious(5)
for index, suggested in zip(worst, ours.predict(images[train[worst]]), strict=True):
    print(f"  sample {index}: given {given[index]}, suggested {suggested}", end=", ")
    print(f"truly {labels[train[index]]}, p_incorrect {verdicts.p_incorrect[index]:.3f}")
