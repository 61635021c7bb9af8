"""A graph convolutional network: each step uses the whole graph, with a loss per labelled node.

python examples/graph.py [EPOCHS]
"""

import sys

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from discrimloss import DiscrimLoss

NODES, CLASSES = 600, 3
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 60
torch.manual_seed(0)
labels = torch.randint(CLASSES, (NODES,))
is_same = labels.unsqueeze(1) == labels
edges = (torch.rand(NODES, NODES) < torch.where(is_same, 0.03, 0.003)).float()
adjacency = ((edges + edges.T) > 0).float() + torch.eye(NODES)
degree = adjacency.sum(1)
adjacency = adjacency / (degree.unsqueeze(1) * degree).sqrt()
features = torch.randn(NODES, 16) + nn.functional.one_hot(labels, 16)

wrong = torch.rand(NODES) < 0.2
given = torch.where(wrong, (labels + torch.randint(1, CLASSES, labels.shape)) % CLASSES, labels)
labelled = (torch.rand(NODES) < 0.7).nonzero()[:, 0]  # the nodes for training


class GraphNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return adjacency @ self.second(torch.relu(adjacency @ self.first(x)))


model = GraphNetwork()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
criterion = DiscrimLoss(num_samples=NODES, epochs=epochs)
for epoch in range(1, epochs + 1):
    criterion.set_epoch(epoch)
    logits = model(features)[labelled]
    losses = cross_entropy(logits, given[labelled], reduction="none")
    loss = criterion(losses, labelled)  # the index of a sample is the number of its node
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

verdicts = criterion.verdicts()
print(verdicts)
suspicious = verdicts.most_suspicious(int(wrong[labelled].sum()))
found = wrong[suspicious].double().mean()
print(f"wrong labels among the {len(suspicious)} most suspicious: {found:.0%}")
