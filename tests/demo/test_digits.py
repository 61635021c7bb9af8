"""The demo's data: how many labels are wrong, and that they really are."""

import torch
from sklearn.datasets import load_digits

from discrimloss.demo.digits import noisy_digits


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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
