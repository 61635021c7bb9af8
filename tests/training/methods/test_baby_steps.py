"""Baby steps: which samples are in which epoch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discrimloss.training.batches import epoch_batches
from discrimloss.training.methods.baby_steps import (
    BabySteps,
    buckets_open,
    equal_buckets,
    into_buckets,
    validation_value,
)
from discrimloss.training.methods.base import Batch, Setting
from discrimloss.training.methods.plain import Plain
from discrimloss.training.task_losses import cross_entropy, mse

SAMPLES, EPOCHS = 20, 10
LENGTHS = torch.tensor([2, 3, 4, 5, 6]).repeat(4)  # of sample 0 to 19


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))


def method(difficulty: Tensor | None = LENGTHS, epochs: int = EPOCHS, **options: Any) -> BabySteps:
    target = torch.zeros(SAMPLES)
    has_validation = options.pop("has_validation", True)
    setting = Setting(network, mse, SAMPLES, None, epochs, target, difficulty, has_validation)
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


def test_equal_buckets_by_hand() -> None:
    # Ordered: samples 1, 2, 0, 4, 3, of which the first three of five are in bucket 0 of 2.
    assert equal_buckets(torch.tensor([7, 3, 3, 9, 7]), 2).tolist() == [0, 0, 0, 1, 1]
    assert equal_buckets(LENGTHS, 5).bincount().tolist() == [4, 4, 4, 4, 4]


def weights(trained: BabySteps) -> Tensor:
    return torch.cat([p.detach().flatten() for p in trained.networks[0].parameters()])


def test_cirik_ends_a_stage_after_so_many_epochs_without_a_lower_validation_loss() -> None:
    trained = method(form="cirik", patience=2)
    # Stages end after the second epoch in a row that is not below the lowest loss so far, which
    # goes on into the next stage: 5, 4 | 4, 6 and the stage is over.
    longest, kept = [], []
    for epoch, loss in enumerate([5.0, 4.0, 4.0, 6.0, 4.5, 3.0, 3.5, 3.0, 2.0], start=1):
        order = order_in(trained, epoch)
        longest.append(int(LENGTHS[order].max()))
        assert len(order) == 4 * (longest[-1] - 1)  # one pass through the open buckets
        assert LENGTHS[order].tolist() == sorted(LENGTHS[order].tolist())  # bucket after bucket
        with torch.no_grad():
            for parameter in trained.networks[0].parameters():
                parameter.fill_(float(epoch))
        trained.end_epoch({"validation_loss": loss, "validation_mae": 0.0})
        kept.append(float(weights(trained)[0]))
    assert longest == [2, 2, 2, 2, 3, 3, 3, 3, 4]
    # At the end of a stage the weights of the lowest loss return: those of epochs 2 and 6.
    assert kept == [1, 2, 3, 2, 5, 6, 7, 6, 9]


def test_the_release_ends_stages_by_its_metric_and_keeps_the_weights() -> None:
    trained = method(form="released", patience=1)
    longest = []
    for epoch, error in enumerate([5.0, 5.0, 4.0, 4.5, 4.2], start=1):
        order = order_in(trained, epoch)
        longest.append(int(LENGTHS[order].max()))
        assert sorted(order.tolist()) == torch.where(longest[-1] >= LENGTHS)[0].tolist()
        before = weights(trained)
        trained.end_epoch({"validation_loss": 0.0, "validation_mae": error})
        assert torch.equal(weights(trained), before)
    assert longest == [2, 2, 3, 3, 4]
    assert trained.hyperparameters() == {
        "difficulty": "given",
        "buckets": 5,
        "warmup_epochs": 0,
        "form": "released",
        "patience": 1,
    }


def test_a_higher_accuracy_is_better() -> None:
    assert validation_value({"validation_accuracy": 90.0}, "released") == -90.0


@pytest.mark.parametrize("form", ["cirik", "released"])
def test_a_loaded_state_goes_on_in_its_stage(form: Any) -> None:
    trained, loaded = method(form=form, patience=1), method(form=form, patience=1)
    for epoch, loss in enumerate([5.0, 6.0, 4.0], start=1):
        trained.begin_epoch(epoch)
        trained.end_epoch({"validation_loss": loss, "validation_mae": loss})
    loaded.load_state_dict(trained.state_dict())
    assert order_in(loaded, 4).tolist() == order_in(trained, 4).tolist()
    for each in (trained, loaded):
        each.end_epoch({"validation_loss": 4.5, "validation_mae": 4.5})
    assert int(loaded.stage) == int(trained.stage) == 3


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
        ({"form": "other"}, "form must be scheduled, cirik or released"),
        ({"patience": 0}, "patience must be 1 or more"),
        ({"form": "cirik", "has_validation": False}, "set noisy_validation"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        method(**options)
