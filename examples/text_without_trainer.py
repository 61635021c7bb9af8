"""Fine-tune a text classifier in your own training loop, as run_glue_no_trainer does.

python examples/text_without_trainer.py [EPOCHS]

The model is a tiny transformer without pretrained weights, so that nothing is downloaded.
"""

import sys

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

from discrimloss import DiscrimLoss, IndexedDataset

WORDS = [
    *("good", "great", "fine", "lovely", "bad", "poor", "awful", "dull"),
    *("film", "plot", "actor", "scene", "music", "story", "the", "a"),
]
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 8
torch.manual_seed(0)


def review(label: int) -> dict[str, torch.Tensor]:
    """Return a review of eight words. Two of them show whether the film is good."""
    opinion = torch.randint(4, (2,)) + (0 if label else 4)
    words = torch.cat([opinion, torch.randint(8, len(WORDS), (6,))])[torch.randperm(8)]
    return {"input_ids": words, "labels": torch.tensor(label)}


labels = torch.randint(2, (600,))
wrong = torch.rand(600) < 0.15
samples = [review(int(label)) for label in labels]
for sample, is_wrong in zip(samples, wrong.tolist(), strict=True):
    sample["labels"] = 1 - sample["labels"] if is_wrong else sample["labels"]
dataset = IndexedDataset(samples)  # adds the key "index" to each sample

config = BertConfig(
    vocab_size=len(WORDS),
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=16,
    num_labels=2,
)
model = BertForSequenceClassification(config)
loader = DataLoader(dataset, batch_size=32, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = get_linear_schedule_with_warmup(optimizer, 20, epochs * len(loader))
criterion = DiscrimLoss(num_samples=dataset.num_samples, epochs=epochs, num_classes=2)

model.train()
for epoch in range(1, epochs + 1):
    criterion.set_epoch(epoch)
    for batch in loader:
        index = batch.pop("index")
        logits = model(**batch).logits
        losses = cross_entropy(logits, batch["labels"], reduction="none")
        criterion(losses, index, target=batch["labels"], logits=logits).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    print(f"epoch {epoch}: task loss {criterion.task_loss:.3f}")

verdicts = criterion.verdicts()
print(verdicts)
suspicious = verdicts.most_suspicious(int(wrong.sum()))
found = wrong[suspicious].double().mean()
print(f"wrong labels among the {len(suspicious)} most suspicious: {found:.0%}")
