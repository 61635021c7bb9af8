"""An ImageNet-style script: mixed precision, a scheduler, checkpoints, and resuming from them.

python examples/amp_and_resume.py checkpoint.pt        # trains, and saves after every epoch
python examples/amp_and_resume.py checkpoint.pt 20     # continues up to epoch 20

DiscrimLoss adds only the lines with `criterion`: one each to build, save and load it, to set the
epoch, and to compute the loss.
"""

import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from discrimloss import DiscrimLoss, IndexedDataset

EPOCHS = 20
checkpoint_file = Path(sys.argv[1])
last_epoch = int(sys.argv[2]) if len(sys.argv) > 2 else EPOCHS
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

torch.manual_seed(0)
digits = load_digits()
images, labels = torch.tensor(digits.images / 16).float().unsqueeze(1), torch.tensor(digits.target)
wrong = torch.rand(len(labels)) < 0.3
given = torch.where(wrong, (labels + torch.randint(1, 10, labels.shape)) % 10, labels)
dataset = IndexedDataset(TensorDataset(images, given))  # batches are (x, y, index)

model = nn.Sequential(
    *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten()),
    nn.Linear(512, 10),
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
criterion = DiscrimLoss(num_samples=dataset.num_samples, epochs=EPOCHS, num_classes=10).to(device)

parts = {
    "model": model,
    "optimizer": optimizer,
    "schedule": schedule,
    "scaler": scaler,
    "criterion": criterion,
}
start_epoch = 1
if checkpoint_file.exists():
    checkpoint = torch.load(checkpoint_file, map_location=device)
    start_epoch = checkpoint["epoch"] + 1
    for name, part in parts.items():
        part.load_state_dict(checkpoint[name])

for epoch in range(start_epoch, last_epoch + 1):
    criterion.set_epoch(epoch)
    for x, y, index in DataLoader(dataset, batch_size=128, shuffle=True):
        x, y = x.to(device), y.to(device)
        with torch.autocast(device.type, torch.bfloat16):
            logits = model(x)
            losses = cross_entropy(logits, y, reduction="none")
            loss = criterion(losses, index, target=y, logits=logits)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    schedule.step()
    print(f"epoch {epoch}: task loss {criterion.task_loss:.3f}")
    states = {name: part.state_dict() for name, part in parts.items()}
    torch.save({"epoch": epoch, **states}, checkpoint_file)

verdicts = criterion.verdicts()
print(verdicts)
suspicious = verdicts.most_suspicious(int(wrong.sum()))
found = wrong[suspicious].double().mean()
print(f"wrong labels among the {len(suspicious)} most suspicious: {found:.0%}")
