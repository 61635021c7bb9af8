"""Baby steps: which samples are in which epoch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discrimloss.training.batches import epoch_batches
from discrimloss.training.methods.baby_steps import BabySteps, buckets_open, into_buckets
from discrimloss.training.methods.base import Batch, Setting
from discrimloss.training.methods.plain import Plain
from discrimloss.training.task_losses import cross_entropy, mse

SAMPLES, EPOCHS = 20, 10
LENGTHS = torch.tensor([2, 3, 4, 5, 6]).repeat(4)  # of sample 0 to 19


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))


def method(difficulty: Tensor | None = LENGTHS, epochs: int = EPOCHS, **options: Any) -> BabySteps:
    target = torch.zeros(SAMPLES)
    setting = Setting(network, mse, SAMPLES, None, epochs, target, difficulty)
    return BabySteps(setting, **options)


def generator(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def order_in(trained: BabySteps, epoch: int) -> Tensor:
    trained.begin_epoch(epoch)
    return trained.sample_order(epoch, generator(epoch))


@pytest.mark.parametrize(
    ("difficulty", "most", "expected"),
    [
        ([7, 3, 3, 9, 7], 3, [1, 0, 0, 2, 1]),
        ([7, 3, 3, 9, 7], 9, [1, 0, 0, 2, 1]),
        ([7, 3, 3, 9, 7], 1, [0, 0, 0, 0, 0]),
        # 0, 2, 4 samples are easier than 3, 7, 9: times 2 over 5, rounded down
        ([7, 3, 3, 9, 7], 2, [0, 0, 0, 1, 0]),
        ([0.6, 0.1, 0.5, 0.2, 0.4, 0.3], 3, [2, 0, 2, 0, 1, 1]),
        ([0.6, torch.nan, -1.0, torch.nan], 4, [1, 2, 0, 2]),
        # 5 easier than the second value: buckets that would be empty are not counted
        ([1, 1, 1, 1, 1, 2, 3, 4], 3, [0, 0, 0, 0, 0, 1, 2, 2]),
    ],
)
def test_buckets_by_hand(difficulty: list[float], most: int, expected: list[int]) -> None:
    assert into_buckets(torch.tensor(difficulty), most).tolist() == expected


def test_buckets_open_one_after_the_other() -> None:
    # Five buckets in epochs 3 to 10, all from 11 on: 1 + floor((e - 3) * 4 / 8)
    opened = [buckets_open(epoch, 3, 11, 5) for epoch in range(1, 14)]
    assert opened == [1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5]
    assert buckets_open(1, 1, 1, 5) == 5
    assert [buckets_open(epoch, 2, 2, 5) for epoch in (1, 2)] == [1, 5]


def test_a_known_difficulty_grows_the_pool() -> None:
    trained = method()
    # growing = 0.5: 1 + floor((e - 1) * 4 / 5) of five lengths, all of them from epoch 6 on
    for epoch, number in [(1, 1), (2, 1), (3, 2), (4, 3), (5, 4), (6, 5), (10, 5)]:
        order = order_in(trained, epoch)
        assert len(order) == SAMPLES  # as many steps as any other method
        pool = LENGTHS.lt(2 + number).nonzero().flatten()
        visits = order.bincount(minlength=SAMPLES)
        assert set(order.tolist()) == set(pool.tolist())
        assert int(visits[pool].max() - visits[pool].min()) <= 1
        assert trained.log_values()["open_fraction"] == pytest.approx(len(pool) / SAMPLES)
    assert trained.hyperparameters() == {
        "difficulty": "given",
        "buckets": 5,
        "warmup_epochs": 0,
        "all_open_from_epoch": 6,
    }


def test_each_pass_through_a_small_pool_is_complete_and_shuffled_anew() -> None:
    passes = order_in(method(), 1).split(4)
    assert all(sorted(each.tolist()) == [0, 5, 10, 15] for each in passes)
    assert len({tuple(each.tolist()) for each in passes}) > 1
    assert not torch.equal(order_in(method(), 1), order_in(method(), 2))


def test_with_all_buckets_open_it_is_plain() -> None:
    plain = Plain(method().setting)
    assert torch.equal(order_in(method(), 6), plain.sample_order(6, generator(6)))
    one_bucket = method(most_buckets=1)
    assert torch.equal(order_in(one_bucket, 1), plain.sample_order(1, generator(1)))


def visit(trained: BabySteps, errors: Tensor) -> None:
    """A visit of every sample, with losses that are these errors squared."""
    for parameter in trained.networks.parameters():
        nn.init.zeros_(parameter)
    index = torch.arange(SAMPLES).flip(0)
    trained(Batch(torch.zeros(SAMPLES, 3), errors[index], index))


def test_without_a_difficulty_it_is_the_loss_after_the_first_epochs() -> None:
    trained = method(difficulty=None, epochs=20, most_buckets=4, warmup=0.1, growing=0.3)
    errors = torch.randperm(SAMPLES, generator=generator(3)) + 1.0
    for epoch in (1, 2):
        assert sorted(order_in(trained, epoch).tolist()) == list(range(SAMPLES))
        visit(trained, errors)
    easiest = set((errors <= 5).nonzero().flatten().tolist())
    assert set(order_in(trained, 3).tolist()) == easiest
    # Losses that change later do not matter, neither in this epoch resumed nor in the next.
    visit(trained, 30 - errors)
    visit(trained, 30 - errors)
    order = order_in(trained, 3)
    assert set(order.tolist()) == easiest
    resumed = method(difficulty=None, epochs=20, most_buckets=4, warmup=0.1, growing=0.3)
    resumed.load_state_dict(trained.state_dict())
    assert torch.equal(order_in(resumed, 3), order)
    # 1 + floor((e - 3) * 3 / 4) of four buckets of five samples
    for epoch, hardest in [(4, 5), (5, 10), (6, 15), (7, 20), (20, 20)]:
        expected = (errors <= hardest).nonzero().flatten().tolist()
        assert sorted(set(order_in(resumed, epoch).tolist())) == expected
    assert resumed.hyperparameters()["difficulty"] == "losses"
    assert resumed.hyperparameters()["all_open_from_epoch"] == 7


def test_an_epoch_of_so_many_steps_has_the_buckets_of_its_epoch() -> None:
    """With steps_per_epoch, passes are not epochs: six steps of two samples, of twenty."""
    trained = method(epochs=15)

    def batches(epoch: int) -> Tensor:
        trained.begin_epoch(epoch)
        orders = [trained.sample_order(number, generator(number)) for number in range(1, 20)]
        return torch.cat(epoch_batches(lambda number: orders[number - 1], epoch, 2, 6))

    # growing over 8 of 15 epochs: 1 + floor((e - 1) * 4 / 8)
    for epoch, longest in [(1, 2), (2, 2), (3, 3), (5, 4), (7, 5), (8, 5), (9, 6)]:
        samples = batches(epoch)
        assert len(samples) == 12
        assert LENGTHS[samples].max() == longest
        assert torch.equal(batches(epoch), samples)
    # Epochs 11 to 15 are samples 120 to 180 of the passes laid end to end: the 7th to the 9th.
    passes = torch.cat([batches(epoch) for epoch in range(11, 16)]).split(SAMPLES)
    assert all(sorted(each.tolist()) == list(range(SAMPLES)) for each in passes)


def test_the_loss_is_the_task_loss() -> None:
    def logits() -> nn.Module:
        return nn.Linear(3, 2)

    target = torch.arange(SAMPLES) % 2
    setting = Setting(logits, cross_entropy, SAMPLES, 2, EPOCHS, target)
    trained = BabySteps(setting)
    trained.begin_epoch(1)
    inputs = torch.randn(SAMPLES, 3, generator=generator(1))
    result = trained(Batch(inputs, target, torch.arange(SAMPLES)))
    expected = cross_entropy(trained.networks[0](inputs), target)
    torch.testing.assert_close(result.loss, expected.mean())
    torch.testing.assert_close(result.losses, expected.detach())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"most_buckets": 0}, "most_buckets must be 1 or more"),
        ({"growing": 0.0}, "growing and warmup must be fractions"),
        ({"growing": 1.1}, "growing and warmup must be fractions"),
        ({"warmup": 0.0}, "growing and warmup must be fractions"),
        ({"warmup": 0.6}, "warmup not after growing"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        method(**options)
