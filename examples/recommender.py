"""A recommender with resampled negatives: a sample is an observed pair of user and item.

python examples/recommender.py [EPOCHS]

Each user likes the items of one genre. Some observed pairs are accidental clicks.
"""

import sys

import torch
from torch import nn
from torch.nn.functional import logsigmoid
from torch.utils.data import DataLoader, TensorDataset

from discrimloss import DiscrimLoss, IndexedDataset

USERS, ITEMS, GENRES, PAIRS, NEGATIVES = 100, 60, 4, 3000, 4
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
torch.manual_seed(0)
users = torch.randint(USERS, (PAIRS,))
wrong = torch.rand(PAIRS) < 0.1
genre = (users + wrong * torch.randint(1, GENRES, (PAIRS,))) % GENRES
items = genre + GENRES * torch.randint(ITEMS // GENRES, (PAIRS,))
dataset = IndexedDataset(TensorDataset(users, items))  # batches are (user, item, index)

user_factors, item_factors = nn.Embedding(USERS, 8), nn.Embedding(ITEMS, 8)
for factors in (user_factors, item_factors):
    nn.init.normal_(factors.weight, std=0.1)
parameters = [*user_factors.parameters(), *item_factors.parameters()]
optimizer = torch.optim.Adam(parameters, lr=2e-2)
criterion = DiscrimLoss(num_samples=dataset.num_samples, epochs=epochs)
for epoch in range(1, epochs + 1):
    criterion.set_epoch(epoch)
    for user, item, index in DataLoader(dataset, batch_size=128, shuffle=True):
        negative = torch.randint(ITEMS, (len(user), NEGATIVES))  # new ones in every step
        liking = user_factors(user).unsqueeze(1)
        positive_score = (liking * item_factors(item).unsqueeze(1)).sum(2)
        negative_score = (liking * item_factors(negative)).sum(2)
        losses = -logsigmoid(positive_score - negative_score).mean(1)  # one per observed pair
        loss = criterion(losses, index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

verdicts = criterion.verdicts()
print(verdicts)
suspicious = verdicts.most_suspicious(int(wrong.sum()))
found = wrong[suspicious].double().mean()
print(f"wrong pairs among the {len(suspicious)} most suspicious: {found:.0%}")
