"""The compact ResNet: what it costs, and that it learns."""

import pytest
import torch
from torch.nn import functional as F

from discrimloss.models import TaskShape
from discrimloss.models.compact_resnet import CompactResNet


def test_it_is_compact():
    model = CompactResNet(TaskShape((3, 32, 32), 10))
    assert sum(parameter.numel() for parameter in model.parameters()) < 500_000


@pytest.mark.parametrize("size", [(1, 8, 8), (3, 32, 32), (3, 64, 48)])
def test_images_of_any_size(size):
    model = CompactResNet(TaskShape(size, None), width=4)
    assert model(torch.zeros(2, *size)).shape == (2,)


def test_images_that_would_vanish_are_refused():
    with pytest.raises(ValueError, match=r"at least 8 x 8 pixels.*\(3, 32, 7\)"):
        CompactResNet(TaskShape((3, 32, 7), 10))


def test_it_learns_which_stripes_lie_and_which_stand():
    generator = torch.Generator().manual_seed(1)
    stripes = torch.tensor([1.0, 1.0, -1.0, -1.0]).repeat(4)
    target = torch.randint(0, 2, (128,), generator=generator)
    lying = stripes.view(1, 1, 16, 1).expand(128, 1, 16, 16)
    images = torch.where(target.view(-1, 1, 1, 1) == 0, lying, lying.transpose(2, 3))
    images = images + 0.5 * torch.randn(images.shape, generator=generator)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = CompactResNet(TaskShape((1, 16, 16), 2), width=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for _ in range(20):
        optimizer.zero_grad()
        F.cross_entropy(model(images[:64]), target[:64]).backward()
        optimizer.step()
    predicted = model.eval()(images[64:]).argmax(1)
    assert float((predicted == target[64:]).float().mean()) > 0.9
