"""Means and draws for samples, and what processes tell each other."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from discrimloss.losses.sample_state import EpochDraws, SampleMean
from discrimloss.state import gathering as processes
from discrimloss.state.gathering import own_rows, weighted_mean


def test_the_mean_of_each_sample() -> None:
    mean = SampleMean(5)
    said: dict[int, list[float]] = {number: [] for number in range(5)}
    generator = torch.Generator().manual_seed(0)
    for _ in range(7):
        index = torch.randint(4, (6,), generator=generator)  # also twice in a batch
        values = torch.rand(6, generator=generator)
        mean.add(values, index)
        for number, value in zip(index.tolist(), values.tolist(), strict=True):
            said[number].append(value)
    for number, value in enumerate(mean.values().tolist()):
        if said[number]:
            assert value == pytest.approx(sum(said[number]) / len(said[number]), rel=1e-5)
        else:
            assert math.isnan(value)


def test_the_mean_takes_any_precision_and_no_gradient() -> None:
    mean = SampleMean(2)
    values = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
    mean.add(values, torch.tensor([0, 1]))
    assert mean.values().tolist() == [0.5, 1.0]
    assert not mean.total.requires_grad


def draws_of(seed: int, epoch: int) -> Tensor:
    torch.manual_seed(seed)
    return torch.rand(100, generator=EpochDraws().generator(epoch))


def test_draws_follow_from_the_seed_and_the_epoch() -> None:
    assert torch.equal(draws_of(1, 3), draws_of(1, 3))
    for seed, epoch in ((1, 4), (2, 3), (3, 1)):
        same = draws_of(1, 3) == draws_of(seed, epoch)
        assert same.sum() < 5


def test_draws_are_in_the_state_and_touch_no_other_generator() -> None:
    one, other = EpochDraws(), EpochDraws()
    assert int(one.seed) != int(other.seed)
    other.load_state_dict(one.state_dict())
    before = torch.random.get_rng_state()
    drawn = [torch.rand(9, generator=draws.generator(2)) for draws in (one, other)]
    assert torch.equal(*drawn)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_weighted_mean() -> None:
    losses = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    weights = torch.tensor([1.0, 0.0, 0.5])
    mean = weighted_mean(losses, weights)
    assert float(mean.detach()) == pytest.approx((1.0 + 2.0) / 1.5)
    mean.backward()
    torch.testing.assert_close(losses.grad, weights / 1.5)


def test_the_weighted_mean_of_nothing_is_nothing() -> None:
    losses = torch.tensor([1.0, 2.0], requires_grad=True)
    mean = weighted_mean(losses, torch.zeros(2))
    mean.backward()
    assert float(mean.detach()) == 0.0
    assert torch.equal(losses.grad, torch.zeros(2))


def test_the_parts_of_two_processes_make_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    losses, weights = torch.tensor([1.0, 2.0, 4.0, 8.0]), torch.tensor([1.0, 0.0, 0.5, 0.25])
    monkeypatch.setattr(processes, "process_count", lambda: 2)
    parts: list[Any] = []
    for rank in range(2):
        monkeypatch.setattr(dist, "get_rank", lambda rank=rank: rank)
        own = losses[2 * rank : 2 * rank + 2]
        assert torch.equal(own_rows(losses), own)
        parts.append(float(weighted_mean(own, weights)))
    whole = float((weights * losses).sum() / weights.sum())
    assert sum(parts) / 2 == pytest.approx(whole)
