"""Mixup: `criterion.mixed` gets the losses for both targets of a mixed sample.

python examples/mixup.py [EPOCHS]
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from discrimloss import DiscrimLoss, IndexedDataset

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
torch.manual_seed(0)
digits = load_digits()
images, labels = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
wrong = torch.rand(len(labels)) < 0.3
given = torch.where(wrong, (labels + torch.randint(1, 10, labels.shape)) % 10, labels)
dataset = IndexedDataset(TensorDataset(images, given))  # batches are (x, y, index)

model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = DiscrimLoss(num_samples=dataset.num_samples, epochs=epochs)
mix = torch.distributions.Beta(1.0, 1.0)

for epoch in range(1, epochs + 1):
    criterion.set_epoch(epoch)
    for x, y, index in DataLoader(dataset, batch_size=64, shuffle=True):
        fraction, other = float(mix.sample()), torch.randperm(len(x))
        logits = model(fraction * x + (1 - fraction) * x[other])
        losses = cross_entropy(logits, y, reduction="none")
        other_losses = cross_entropy(logits, y[other], reduction="none")
        loss = criterion.mixed(losses, other_losses, index, index[other], fraction)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

verdicts = criterion.verdicts()
print(verdicts)
suspicious = verdicts.most_suspicious(int(wrong.sum()))
found = wrong[suspicious].double().mean()
print(f"wrong labels among the {len(suspicious)} most suspicious: {found:.0%}")
