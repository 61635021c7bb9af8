"""Handwritten digits with 40 % wrong labels: robust losses in a plain PyTorch loop.

python examples/robust_losses.py [EPOCHS]
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from discrimloss import IndexedDataset
from discrimloss.losses import (
    CrossEntropy,
    EarlyLearningRegularization,
    GeneralizedCrossEntropy,
    SuperLoss,
)

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 40
CLASSES = 10
torch.manual_seed(0)

digits = load_digits()
images, labels = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
order = torch.randperm(len(images))
train, test = order[450:], order[:450]

given = labels[train].clone()  # the labels for training
is_wrong = torch.zeros(len(given), dtype=torch.bool)
is_wrong[torch.randperm(len(given))[: int(0.4 * len(given))]] = True
given[is_wrong] = (given[is_wrong] + torch.randint(1, CLASSES, (int(is_wrong.sum()),))) % CLASSES
dataset = IndexedDataset(TensorDataset(images[train], given))  # batches are (x, y, index)
samples = dataset.num_samples

for criterion in (
    CrossEntropy(),
    GeneralizedCrossEntropy(samples, exponent=0.7),
    EarlyLearningRegularization(samples, CLASSES, regularization=3.0),
    SuperLoss(samples, CLASSES),
):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for epoch in range(1, EPOCHS + 1):
        criterion.set_epoch(epoch)
        for x, y, index in DataLoader(dataset, batch_size=64, shuffle=True):
            loss = criterion(model(x), y, index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()

    accuracy = (model(images[test]).argmax(1) == labels[test]).float().mean().item()
    print(f"{type(criterion).__name__}: test accuracy {accuracy:.1%}", end="")
    scores = criterion.sample_scores()  # higher: the label is more likely to be wrong
    if scores is not None:
        found = is_wrong[scores.argsort(descending=True)[: int(is_wrong.sum())]].float().mean()
        print(f", {found:.1%} of the wrong labels among the most distrusted", end="")
    print()
