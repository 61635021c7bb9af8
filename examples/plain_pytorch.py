"""Handwritten digits with 40 % wrong labels, in plain PyTorch: only two lines change.

python examples/plain_pytorch.py
"""

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from discrimloss import DiscrimLoss, IndexedDataset

EPOCHS = 40
torch.manual_seed(0)

digits = load_digits()
images, labels = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
order = torch.randperm(len(images))
train, test = order[450:], order[:450]

given = labels[train].clone()  # the labels for training
wrong = torch.randperm(len(given))[: int(0.4 * len(given))]
given[wrong] = (given[wrong] + torch.randint(1, 10, wrong.shape)) % 10
dataset = IndexedDataset(TensorDataset(images[train], given))  # batches are (x, y, index)


def train_model(criterion: DiscrimLoss | None) -> torch.nn.Module:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for epoch in range(1, EPOCHS + 1):
        if criterion:
            criterion.set_epoch(epoch)
        for x, y, index in DataLoader(dataset, batch_size=64, shuffle=True):
            logits = model(x)
            losses = cross_entropy(logits, y, reduction="none")
            loss = losses.mean()
            if criterion:
                loss = criterion(losses, index, target=y, logits=logits)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    return model


def accuracy(model: torch.nn.Module) -> float:
    return (model(images[test]).argmax(1) == labels[test]).float().mean().item()


criterion = DiscrimLoss(num_samples=dataset.num_samples, epochs=EPOCHS, num_classes=10)
plain, ours = train_model(None), train_model(criterion)
print(
    f"test accuracy with cross-entropy {accuracy(plain):.1%}, with DiscrimLoss {accuracy(ours):.1%}"
)

verdicts = criterion.verdicts()
print(verdicts)
print("the worst labels:")
for index in verdicts.most_suspicious(5):
    suggested = ours(images[train[index]]).argmax()
    print(f"  sample {index}: given {given[index]}, suggested {suggested}", end=", ")
    print(f"truly {labels[train[index]]}, p_incorrect {verdicts.p_incorrect[index]:.3f}")
