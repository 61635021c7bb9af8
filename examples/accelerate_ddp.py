"""Handwritten digits with 40 % wrong labels, with Accelerate, in one process or several.

python examples/accelerate_ddp.py
torchrun --nproc-per-node 2 examples/accelerate_ddp.py
accelerate launch --multi_gpu --num_processes 2 examples/accelerate_ddp.py

Use `--multi_gpu` on CPUs too: with `--cpu`, `accelerate launch` always starts a single process.
"""

import argparse

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from discrimloss import DiscrimLoss, IndexedDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=40)
options = parser.parse_args()
accelerator = Accelerator(cpu=not torch.cuda.is_available())
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
    loader = DataLoader(dataset, batch_size=64 // accelerator.num_processes, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer.optimizer, options.epochs)
    if criterion:
        criterion.to(accelerator.device)
        accelerator.register_for_checkpointing(criterion)  # for `save_state` and `load_state`
    for epoch in range(1, options.epochs + 1):
        if criterion:
            criterion.set_epoch(epoch)
        for x, y, index in loader:
            logits = model(x)
            losses = cross_entropy(logits, y, reduction="none")
            # Every process calls the criterion, which exchanges the batches of all processes.
            loss = criterion(losses, index, target=y, logits=logits) if criterion else losses.mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        schedule.step()
    return accelerator.unwrap_model(model).cpu()


def accuracy(model: torch.nn.Module) -> float:
    return (model(images[test]).argmax(1) == labels[test]).float().mean().item()


criterion = DiscrimLoss(num_samples=dataset.num_samples, epochs=options.epochs, num_classes=10)
plain, ours = train_model(None), train_model(criterion)
if accelerator.is_main_process:
    print(f"trained by {accelerator.num_processes} process(es)")
    print(f"test accuracy with cross-entropy {accuracy(plain):.1%}", end=", ")
    print(f"with DiscrimLoss {accuracy(ours):.1%}")
    verdicts = criterion.verdicts()
    print(verdicts)
    print("the worst labels:")
    for index in verdicts.most_suspicious(5):
        suggested = ours(images[train[index]]).argmax()
        print(f"  sample {index}: given {given[index]}, suggested {suggested}", end=", ")
        print(f"truly {labels[train[index]]}, p_incorrect {verdicts.p_incorrect[index]:.3f}")
accelerator.end_training()
