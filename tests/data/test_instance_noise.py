"""Instance-dependent noise: what a sample looks like decides what it is taken for."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from discrimloss.data import noise
from discrimloss.data.noise import choose_in_proportion, truncated_normal


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def two_clusters(num_samples: int, num_features: int = 20) -> tuple[Tensor, Tensor]:
    """Features of two clusters that are far apart, and which sample is in the second."""
    in_second = torch.arange(num_samples) % 2 == 1
    centres = 3 * torch.randn(2, num_features, generator=generator(7))
    spread = 0.1 * torch.randn(num_samples, num_features, generator=generator(8))
    return centres[in_second.long()] + spread, in_second


def given_shares(target: Tensor, rows: Tensor, num_classes: int) -> Tensor:
    counts = torch.bincount(target[rows], minlength=num_classes)
    return counts / counts.sum()


def test_clusters_of_features_are_taken_for_other_classes_and_symmetric_noise_is_blind() -> None:
    clean_target = torch.full((8000,), 4)
    features, in_second = two_clusters(8000)
    distances = {}
    for kind, labels in (
        ("instance", noise.instance(clean_target, 0.4, generator(), 10, features)),
        ("symmetric", noise.symmetric(clean_target, 0.4, generator(), 10)),
    ):
        first = given_shares(labels.target, labels.is_wrong & ~in_second, 10)
        second = given_shares(labels.target, labels.is_wrong & in_second, 10)
        distances[kind] = float((first - second).abs().sum() / 2)
    # Total variation, from 0 to 1.
    assert distances["instance"] > 0.9
    assert distances["symmetric"] < 0.1


def test_the_classes_of_a_cluster_are_taken_for_different_ones() -> None:
    # Every class has a projection of its own: the same features mislead in another way.
    features = 3 * torch.randn(1, 20, generator=generator(7)).expand(4000, 20)
    clean_target = torch.arange(4000) % 10
    labels = noise.instance(clean_target, 1.0, generator(), 10, features)
    assert labels.transitions is not None
    assert len(set(labels.transitions.argmax(dim=1).tolist())) > 3


def test_wrong_labels_follow_the_softmax_of_the_projection() -> None:
    # Drawn again from the same generator, by the order that the function documents by its code:
    # flip rates, choice, Gumbel noise, then one projection per class.
    num_samples, num_classes = 60_000, 4
    features = torch.tensor([[0.6, -0.4, 0.5]]).expand(num_samples, 3)
    clean_target = torch.ones(num_samples, dtype=torch.int64)
    labels = noise.instance(clean_target, 1.0, generator(3), num_classes, features)
    source = generator(3)
    for _ in range(2):
        torch.rand(num_samples, generator=source, dtype=torch.float64)
    torch.rand(num_samples, num_classes, generator=source)
    torch.randn(3, num_classes, generator=source)
    logits = features[0] @ torch.randn(3, num_classes, generator=source)
    logits[1] = -math.inf
    shares = torch.bincount(labels.target, minlength=num_classes) / num_samples
    assert (shares - logits.softmax(0)).abs().max() < 0.01  # a standard deviation is 0.002


def test_features_of_zero_make_every_other_class_alike() -> None:
    clean_target = torch.arange(45_000) % 10
    labels = noise.instance(clean_target, 1.0, generator(), 10, torch.zeros(45_000, 3))
    assert labels.transitions is not None
    off_diagonal = labels.transitions[~torch.eye(10, dtype=torch.bool)]
    # 90 cells of 500: chi-square has a mean of 89 and a standard deviation of 13.
    assert 45 < float(((off_diagonal - 500) ** 2 / 500).sum()) < 150


@pytest.mark.parametrize("num_classes", [2, 3])
def test_very_long_features_never_choose_the_own_class(num_classes: int) -> None:
    clean_target = torch.arange(3000) % num_classes
    features = 1e6 * torch.randn(3000, 50, generator=generator())
    labels = noise.instance(clean_target, 1.0, generator(), num_classes, features)
    assert bool(labels.is_wrong.all())


def test_how_many_rows_are_read_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_target = torch.arange(500) % 5
    features = torch.randn(500, 8, generator=generator(1))
    at_once = noise.instance(clean_target, 0.5, generator(), 5, features)
    monkeypatch.setattr(noise, "ROWS_AT_ONCE", 7)
    in_steps = noise.instance(clean_target, 0.5, generator(), 5, features)
    assert torch.equal(at_once.target, in_steps.target)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_features_of_any_precision(dtype: torch.dtype) -> None:
    clean_target = torch.arange(500) % 5
    features = torch.randn(500, 8, generator=generator(1)).to(dtype)
    labels = noise.instance(clean_target, 0.5, generator(), 5, features)
    in_single = noise.instance(clean_target, 0.5, generator(), 5, features.float())
    assert torch.equal(labels.target, in_single.target)


def test_flip_rates_are_normal_around_the_rate_and_cut_off() -> None:
    drawn = truncated_normal(0.4, 40_000, generator())
    assert abs(float(drawn.mean()) - 0.4) < 0.003
    assert abs(float(drawn.std()) - 0.1) < 0.003
    for mean, expected in ((0.0, 0.0798), (1.0, 1 - 0.0798)):
        half = truncated_normal(mean, 40_000, generator())
        assert 0 <= float(half.min()) <= float(half.max()) <= 1
        # Half of a normal distribution has its mean at 0.1 * sqrt(2/pi).
        assert abs(float(half.mean()) - expected) < 0.002


def test_a_choice_is_exact_and_follows_the_weights() -> None:
    weights = torch.tensor([0.2, 0.4, 0.6], dtype=torch.float64).repeat_interleave(5000)
    chosen = choose_in_proportion(weights, 6000, generator())
    assert len(set(chosen.tolist())) == len(chosen) == 6000
    counts = torch.bincount(chosen // 5000, minlength=3)
    # 6,000 of 15,000 are the mean weight, 0.4; a standard deviation is 35 at most.
    assert (counts - torch.tensor([1000, 2000, 3000])).abs().max() < 175


def test_weights_of_zero_are_chosen_last() -> None:
    weights = torch.tensor([0.0, 0.5, 0.0, 0.5], dtype=torch.float64)
    for seed in range(20):
        assert set(choose_in_proportion(weights, 2, generator(seed)).tolist()) == {1, 3}
    assert len(choose_in_proportion(weights, 4, generator())) == 4


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (torch.zeros(4, 3, dtype=torch.uint8), r"floating point numbers, not torch\.uint8"),
        (torch.zeros(3, 3), r"shape \(4, features\), not \(3, 3\)"),
        (torch.zeros(4, 3, 2), r"shape \(4, features\), not \(4, 3, 2\)"),
        (torch.full((4, 3), math.nan), "not finite"),
        (torch.full((4, 3), math.inf), "not finite"),
    ],
)
def test_features_that_do_not_fit_are_refused(features: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        noise.instance(torch.tensor([0, 1, 0, 1]), 1.0, generator(), 2, features)
