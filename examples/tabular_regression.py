"""Regression on a table: the criterion gets standardised targets and predictions.

python examples/tabular_regression.py [EPOCHS]
"""

import sys

import torch
from sklearn.datasets import load_diabetes
from torch.utils.data import DataLoader, TensorDataset

from discrimloss import DiscrimLoss, IndexedDataset

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
torch.manual_seed(0)
table = load_diabetes()
rows = torch.tensor(table.data).float()
rows = (rows - rows.mean(0)) / rows.std(0)
# The targets are a linear function plus a little noise, so wrong targets stand out.
expected = torch.linalg.lstsq(rows, torch.tensor(table.target).float()[:, None]).solution
targets = (rows @ expected)[:, 0] + 150 + 10 * torch.randn(len(rows))
wrong = torch.rand(len(rows)) < 0.1
given = torch.where(wrong, targets[torch.randperm(len(rows))], targets)
standardised = (given - given.mean()) / given.std()
dataset = IndexedDataset(TensorDataset(rows, standardised))  # batches are (x, y, index)

model = torch.nn.Sequential(torch.nn.Linear(10, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
criterion = DiscrimLoss(num_samples=dataset.num_samples, epochs=epochs, task="regression")
for epoch in range(1, epochs + 1):
    criterion.set_epoch(epoch)
    for x, y, index in DataLoader(dataset, batch_size=32, shuffle=True):
        predictions = model(x)[:, 0]
        losses = torch.nn.functional.mse_loss(predictions, y, reduction="none")
        loss = criterion(losses, index, target=y, predictions=predictions)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

verdicts = criterion.verdicts()
print(verdicts)
suspicious = verdicts.most_suspicious(int(wrong.sum()))
found = wrong[suspicious].double().mean()
print(f"wrong targets among the {len(suspicious)} most suspicious: {found:.0%}")
