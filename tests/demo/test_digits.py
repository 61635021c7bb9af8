"""The demo's data: how many labels are wrong, and that they really are."""

import pytest
import torch
from sklearn.datasets import load_digits

from discrimloss.demo.digits import noisy_digits, symmetric_noise


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.4, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("number", [0, 1, 7, 1348])
def test_the_number_of_wrong_labels_is_exact(noise: float, number: int) -> None:
    clean_target = torch.arange(number) % 10
    target = symmetric_noise(clean_target, noise, generator())
    assert int((target != clean_target).sum()) == round(noise * number)


def test_wrong_labels_are_each_of_the_others_alike() -> None:
    clean_target = torch.full((90_000,), 3)
    target = symmetric_noise(clean_target, 1.0, generator())
    counts = torch.bincount(target, minlength=10)
    assert counts[3] == 0
    others = counts[torch.arange(10) != 3]
    # 10,000 expected of each, with a standard deviation of 94.
    assert (others - 10_000).abs().max() < 500


def test_wrong_labels_are_spread_over_the_samples() -> None:
    clean_target = torch.zeros(10_000, dtype=torch.int64)
    is_wrong = symmetric_noise(clean_target, 0.4, generator()) != clean_target
    first_half = int(is_wrong[:5000].sum())
    assert abs(first_half - 2000) < 200  # a standard deviation is 24


def test_noise_leaves_its_input_alone() -> None:
    clean_target = torch.zeros(10, dtype=torch.int64)
    symmetric_noise(clean_target, 0.5, generator())
    assert clean_target.tolist() == [0] * 10


def test_the_digits_are_those_of_scikit_learn_and_no_test_image_is_trained_on() -> None:
    digits = noisy_digits(0.4, generator())
    pixels, labels = load_digits(return_X_y=True)
    assert digits.images.shape == (1348, 64)
    assert digits.test_images.shape == (449, 64)
    assert torch.equal(digits.images * 16, torch.from_numpy(pixels).float()[digits.index])
    assert torch.equal(digits.clean_target, torch.from_numpy(labels).long()[digits.index])
    assert len(set(digits.index.tolist())) == 1348
    rest = sorted(set(range(1797)) - set(digits.index.tolist()))
    assert sorted(digits.test_target.tolist()) == sorted(labels[rest].tolist())
    assert int(digits.is_wrong.sum()) == 539


def test_the_same_seed_gives_the_same_digits_and_another_seed_others() -> None:
    once, again, other = (noisy_digits(0.4, generator(seed)) for seed in (1, 1, 2))
    for name in ("index", "images", "target", "clean_target", "test_images", "test_target"):
        assert torch.equal(getattr(once, name), getattr(again, name))
    assert not torch.equal(once.index, other.index)
    assert not torch.equal(once.target, other.target)


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    noisy_digits(0.4, generator())
    assert torch.equal(torch.get_rng_state(), before)
