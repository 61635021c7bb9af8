"""A U-Net-style segmentation: the loss of an image is the mean over its pixels.

python examples/segmentation.py [EPOCHS]

Some masks belong to another image, as if files were mixed up.
"""

import sys

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset

from discrimloss import DiscrimLoss, IndexedDataset

IMAGES, SIZE = 240, 16
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
torch.manual_seed(0)
row, column = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
centre, radius = torch.randint(4, 12, (IMAGES, 2, 1, 1)), torch.randint(2, 5, (IMAGES, 1, 1))
masks = ((row - centre[:, 0]) ** 2 + (column - centre[:, 1]) ** 2 <= radius**2).float()
images = (masks + 0.3 * torch.randn_like(masks)).unsqueeze(1)
wrong = torch.rand(IMAGES) < 0.2
given = torch.where(wrong[:, None, None], masks.roll(1, 0), masks).unsqueeze(1)
dataset = IndexedDataset(TensorDataset(images, given))  # batches are (x, y, index)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU())
        self.down = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU())
        self.up = nn.Sequential(nn.ConvTranspose2d(16, 8, 2, stride=2), nn.ReLU())
        self.head = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skipped = self.first(x)
        return self.head(torch.cat([skipped, self.up(self.down(skipped))], 1))


model = UNet()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = DiscrimLoss(num_samples=dataset.num_samples, epochs=epochs)
for epoch in range(1, epochs + 1):
    criterion.set_epoch(epoch)
    for x, y, index in DataLoader(dataset, batch_size=16, shuffle=True):
        pixels = binary_cross_entropy_with_logits(model(x), y, reduction="none")  # (16, 1, H, W)
        loss = criterion(pixels.flatten(1).mean(1), index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

verdicts = criterion.verdicts()
print(verdicts)
suspicious = verdicts.most_suspicious(int(wrong.sum()))
found = wrong[suspicious].double().mean()
print(f"wrong masks among the {len(suspicious)} most suspicious: {found:.0%}")
