"""A nanoGPT-style loop that trains on random windows of documents, for steps, not epochs.

python examples/language_model.py [STEPS]

A sample is a document. Some of them are noise: their characters are shuffled.
"""

import sys

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from discrimloss import DiscrimLoss

DOCUMENTS, LENGTH, WINDOW, BATCH, SYMBOLS = 300, 64, 16, 32, 12
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
torch.manual_seed(0)
start, stride = torch.randint(SYMBOLS, (DOCUMENTS, 1)), torch.randint(1, 4, (DOCUMENTS, 1))
documents = (start + stride * torch.arange(LENGTH)) % SYMBOLS  # each has its own stride
wrong = torch.rand(DOCUMENTS) < 0.2
for document in wrong.nonzero()[:, 0]:
    documents[document] = documents[document, torch.randperm(LENGTH)]


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 32)
        self.memory = nn.GRU(32, 64, batch_first=True)
        self.head = nn.Linear(64, SYMBOLS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.memory(self.embedding(tokens))[0])


model = LanguageModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
steps_per_epoch = -(-DOCUMENTS // BATCH)
criterion = DiscrimLoss(
    num_samples=DOCUMENTS, epochs=-(-steps // steps_per_epoch), steps_per_epoch=steps_per_epoch
)
for step in range(steps):
    index = torch.randint(DOCUMENTS, (BATCH,))
    begin = torch.randint(LENGTH - WINDOW, (BATCH, 1))
    tokens = documents[index.unsqueeze(1), begin + torch.arange(WINDOW + 1)]
    logits = model(tokens[:, :-1])
    losses = cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
    loss = criterion(losses.mean(1), index)  # the mean over the tokens of each window
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 250 == 0:
        print(f"step {step}: loss {criterion.task_loss:.3f}")

verdicts = criterion.verdicts()
print(verdicts)
suspicious = verdicts.most_suspicious(int(wrong.sum()))
found = wrong[suspicious].double().mean()
print(f"wrong documents among the {len(suspicious)} most suspicious: {found:.0%}")
