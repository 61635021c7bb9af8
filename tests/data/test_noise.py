"""Label noise: exactly as many wrong labels as asked for, of the kind asked for."""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from discrimloss.data import noise
from discrimloss.data.noise import NoisyLabels

FEATURES = 5
RANDOM_KINDS = ("symmetric", "permuted", "asymmetric", "pair", "instance")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make(
    kind: str, clean_target: Tensor, rate: float, num_classes: int | None, seed: int = 0
) -> NoisyLabels:
    """Noise of any kind that is drawn."""
    options: dict[str, Any] = {}
    if kind == "instance":
        options["features"] = torch.randn(len(clean_target), FEATURES, generator=generator(99))
    function = getattr(noise, kind)
    labels: NoisyLabels = function(clean_target, rate, generator(seed), num_classes, **options)
    return labels


@st.composite
def classes(draw: st.DrawFn) -> tuple[Tensor, int]:
    """A clean target, and the number of classes; not every class need be there."""
    num_classes = draw(st.integers(2, 12))
    labels = draw(st.lists(st.integers(0, num_classes - 1), max_size=60))
    return torch.tensor(labels, dtype=torch.int64), num_classes


# Few different values, so that samples share them; -0.0 and 0.0 are the same value.
numbers = st.lists(st.sampled_from([-3.5, -0.0, 0.0, 1.0, 1.25, 40.0]), max_size=40).map(
    lambda values: torch.tensor(values, dtype=torch.float32)
)
rates = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0]))
seeds = st.integers(0, 2**32)
kinds = st.sampled_from(RANDOM_KINDS)


def test_every_kind_but_none_is_a_function() -> None:
    assert noise.NOISE_KINDS[0] == "none"
    for kind in noise.NOISE_KINDS[1:]:
        assert callable(getattr(noise, kind))
    assert noise.__all__ == sorted(noise.__all__)


@given(classes(), rates, seeds)
@pytest.mark.parametrize("kind", ["symmetric", "asymmetric", "pair", "instance"])
def test_exactly_the_share_asked_for_is_wrong(
    kind: str, data: tuple[Tensor, int], rate: float, seed: int
) -> None:
    clean_target, num_classes = data
    labels = make(kind, clean_target, rate, num_classes, seed)
    num_wrong = round(rate * len(clean_target))
    assert sum(labels.is_wrong.tolist()) == num_wrong
    assert labels.rate == (num_wrong / len(clean_target) if len(clean_target) else 0.0)
    assert labels.target.dtype == torch.int64
    assert labels.target.shape == clean_target.shape
    assert all(0 <= label < num_classes for label in labels.target.tolist())


@given(classes(), rates, seeds, kinds)
def test_the_clean_labels_stay_what_and_where_they_were(
    data: tuple[Tensor, int], rate: float, seed: int, kind: str
) -> None:
    clean_target, num_classes = data
    before = clean_target.clone()
    labels = make(kind, clean_target, rate, num_classes, seed)
    assert torch.equal(clean_target, before)
    assert torch.equal(labels.clean_target, before)
    labels.target.fill_(0)
    assert torch.equal(labels.clean_target, before)


@given(classes(), rates, seeds, kinds)
def test_transitions_are_what_a_loop_counts(
    data: tuple[Tensor, int], rate: float, seed: int, kind: str
) -> None:
    clean_target, num_classes = data
    labels = make(kind, clean_target, rate, num_classes, seed)
    counts = Counter(zip(clean_target.tolist(), labels.target.tolist(), strict=True))
    assert labels.transitions is not None
    assert labels.transitions.dtype == torch.int64
    assert labels.transitions.tolist() == [
        [counts[clean, given] for given in range(num_classes)] for clean in range(num_classes)
    ]
    assert int(labels.transitions.sum()) == len(clean_target)
    wrong = int(labels.transitions.sum() - labels.transitions.trace())
    assert wrong == int(labels.is_wrong.sum())


@given(classes(), rates, seeds, kinds)
def test_the_same_seed_repeats(data: tuple[Tensor, int], rate: float, seed: int, kind: str) -> None:
    clean_target, num_classes = data
    once, again = (make(kind, clean_target, rate, num_classes, seed) for _ in range(2))
    assert torch.equal(once.target, again.target)


@pytest.mark.parametrize("kind", RANDOM_KINDS)
def test_another_seed_gives_other_labels_and_the_global_generator_is_left_alone(kind: str) -> None:
    clean_target = torch.arange(200) % 10
    before = torch.get_rng_state()
    targets = [make(kind, clean_target, 0.4, 10, seed).target for seed in range(3)]
    assert torch.equal(torch.get_rng_state(), before)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not torch.equal(targets[one], targets[other])


@pytest.mark.parametrize("kind", RANDOM_KINDS)
def test_a_rate_of_zero_gives_an_untouched_copy(kind: str) -> None:
    clean_target = torch.arange(50) % 10
    labels = make(kind, clean_target, 0.0, 10)
    assert torch.equal(labels.target, clean_target)
    assert labels.target.data_ptr() != clean_target.data_ptr()
    assert labels.rate == 0.0


@pytest.mark.parametrize("kind", RANDOM_KINDS)
@pytest.mark.parametrize("number", [0, 1])
def test_no_sample_and_one_sample(kind: str, number: int) -> None:
    clean_target = torch.full((number,), 2)
    for rate in (0.0, 0.4, 0.6, 1.0):
        labels = make(kind, clean_target, rate, 3)
        # One label alone cannot move, so that permuted leaves it as it is.
        expected = 0 if kind == "permuted" else round(rate * number)
        assert int(labels.is_wrong.sum()) == expected
        assert labels.transitions is not None
        assert labels.transitions.shape == (3, 3)


@pytest.mark.parametrize("kind", RANDOM_KINDS)
def test_wrong_labels_are_spread_over_the_samples(kind: str) -> None:
    clean_target = torch.zeros(10_000, dtype=torch.int64)
    clean_target[1::2] = 1
    is_wrong = make(kind, clean_target, 0.4, 2).is_wrong
    expected = 1000 if kind == "permuted" else 2000
    assert abs(int(is_wrong[:5000].sum()) - expected) < 200  # a standard deviation is about 30


def chi_square(observed: Tensor, expected: float) -> float:
    return float(((observed - expected) ** 2 / expected).sum())


def test_symmetric_noise_takes_each_other_class_alike() -> None:
    clean_target = torch.arange(90_000) % 10
    labels = noise.symmetric(clean_target, 0.5, generator(), 10)
    assert labels.transitions is not None
    off_diagonal = labels.transitions[~torch.eye(10, dtype=torch.bool)]
    # 90 cells that share 45,000 samples: a mean of 89 and a standard deviation of 13.
    assert 45 < chi_square(off_diagonal, 45_000 / 90) < 150
    # Nothing is more even than chance allows, either: exactly even counts would give 0.


def test_symmetric_noise_draws_what_the_demo_always_drew() -> None:
    # The demo's published figures rest on this order of draws.
    clean_target = torch.arange(37) % 10
    labels = noise.symmetric(clean_target, 0.4, generator(5), 10)
    source = generator(5)
    order = torch.randperm(37, generator=source).tolist()
    shifts = torch.randint(1, 10, (15,), generator=source).tolist()
    expected = clean_target.tolist()
    for sample, shift in zip(order, shifts, strict=False):
        expected[sample] = (expected[sample] + shift) % 10
    assert labels.target.tolist() == expected


@given(classes(), rates, seeds)
def test_permuted_noise_keeps_how_often_each_class_is_given(
    data: tuple[Tensor, int], rate: float, seed: int
) -> None:
    clean_target, num_classes = data
    labels = noise.permuted(clean_target, rate, generator(seed), num_classes)
    assert sorted(labels.target.tolist()) == sorted(clean_target.tolist())
    assert int(labels.is_wrong.sum()) <= round(rate * len(clean_target))


def test_permuted_noise_leaves_one_chosen_label_in_ten_right() -> None:
    clean_target = torch.arange(20_000) % 10
    labels = noise.permuted(clean_target, 0.4, generator(), 10)
    assert abs(labels.rate - 0.4 * 0.9) < 0.01
    # With all labels different, whatever moves is wrong: nearly all of the chosen.
    distinct = noise.permuted(torch.arange(1000), 0.4, generator(), 1000)
    assert 390 <= int(distinct.is_wrong.sum()) <= 400


@st.composite
def mappings(draw: st.DrawFn) -> dict[int, int]:
    """Of ten classes, none to itself."""
    shifts = draw(st.dictionaries(st.integers(0, 9), st.integers(1, 9), min_size=1))
    return {source: (source + shift) % 10 for source, shift in shifts.items()}


@given(st.lists(st.integers(0, 9), max_size=60), mappings(), rates, seeds)
def test_asymmetric_noise_goes_along_the_map_only(
    clean: list[int], mapping: dict[int, int], rate: float, seed: int
) -> None:
    clean_target = torch.tensor(clean, dtype=torch.int64)
    labels = noise.asymmetric(clean_target, rate, generator(seed), 10, mapping)
    num_wrong = 0
    for before, after in zip(clean, labels.target.tolist(), strict=True):
        assert after == before or after == mapping[before]
        num_wrong += after != before
    # The rate is of the samples that the map can make wrong.
    assert num_wrong == round(rate * sum(label in mapping for label in clean))


def test_asymmetric_noise_on_cifar10_is_half_of_its_rate() -> None:
    clean_target = torch.arange(5000) % 10
    labels = noise.asymmetric(clean_target, 0.4, generator(), 10, noise.CIFAR10_LOOK_ALIKES)
    assert labels.rate == 0.2
    assert labels.transitions is not None
    wrong = labels.transitions - torch.diag(labels.transitions.diag())
    assert {tuple(cell) for cell in wrong.nonzero().tolist()} == {
        (9, 1),
        (2, 0),
        (4, 7),
        (3, 5),
        (5, 3),
    }
    # 200 of the 500 of each class, with a standard deviation of 10.
    assert (wrong[wrong > 0] - 200).abs().max() < 50


def test_pair_noise_takes_a_class_for_the_next_and_the_last_for_the_first() -> None:
    clean_target = torch.tensor([0, 1, 2, 3, 3])
    labels = noise.pair(clean_target, 1.0, generator(), 4)
    assert labels.target.tolist() == [1, 2, 3, 0, 0]


@given(numbers, rates, seeds)
def test_symmetric_noise_of_numbers_is_exact_and_of_the_others(
    clean_target: Tensor, rate: float, seed: int
) -> None:
    num_wrong = round(rate * len(clean_target))
    assume(num_wrong == 0 or len(set(clean_target.tolist())) > 1)
    labels = noise.symmetric(clean_target, rate, generator(seed))
    assert labels.num_classes is None
    assert labels.transitions is None
    assert labels.target.dtype == clean_target.dtype
    assert sum(labels.is_wrong.tolist()) == num_wrong
    assert set(labels.target.tolist()) <= set(clean_target.tolist())


def test_symmetric_noise_of_numbers_draws_every_differing_sample_alike() -> None:
    # 40 % ones, 30 % twos, 20 % threes and 10 % fours.
    clean_target = torch.tensor([1.0, 1, 1, 1, 2, 2, 2, 3, 3, 4]).repeat(3000)
    labels = noise.symmetric(clean_target, 1.0, generator())
    for value, shares in (
        (1.0, {2.0: 3 / 6, 3.0: 2 / 6, 4.0: 1 / 6}),
        (2.0, {1.0: 4 / 7, 3.0: 2 / 7, 4.0: 1 / 7}),
        (4.0, {1.0: 4 / 9, 2.0: 3 / 9, 3.0: 2 / 9}),
    ):
        given_labels = labels.target[clean_target == value]
        for other, share in shares.items():
            expected = share * len(given_labels)
            deviation = math.sqrt(expected * (1 - share))
            assert abs(int((given_labels == other).sum()) - expected) < 5 * deviation


@given(numbers, rates, seeds)
def test_permuted_noise_of_numbers_keeps_the_numbers(
    clean_target: Tensor, rate: float, seed: int
) -> None:
    labels = noise.permuted(clean_target, rate, generator(seed))
    assert sorted(labels.target.tolist()) == sorted(clean_target.tolist())
    assert int(labels.is_wrong.sum()) <= round(rate * len(clean_target))
    assert labels.transitions is None


def test_numbers_that_are_all_the_same_cannot_be_made_wrong() -> None:
    same = torch.full((10,), 7.0)
    with pytest.raises(ValueError, match=r"^4 of 10 labels cannot .* 7\.0"):
        noise.symmetric(same, 0.4, generator())
    with pytest.raises(ValueError, match=r"^1 of 1 labels cannot"):
        noise.symmetric(same[:1], 1.0, generator())
    assert noise.symmetric(same, 0.04, generator()).rate == 0.0
    assert noise.permuted(same, 1.0, generator()).rate == 0.0


@pytest.mark.parametrize("kind", RANDOM_KINDS)
@pytest.mark.parametrize("rate", [math.nan, -0.1, 1.1, math.inf, 40])
def test_a_rate_that_is_no_share_is_refused(kind: str, rate: float) -> None:
    with pytest.raises(ValueError, match=r"^rate must be between 0 and 1, not"):
        make(kind, torch.arange(10), rate, 10)


@pytest.mark.parametrize("kind", RANDOM_KINDS)
def test_labels_that_are_no_classes_are_refused(kind: str) -> None:
    for clean_target, num_classes, message in (
        (torch.zeros(4, dtype=torch.int64), 1, "num_classes must be at least 2, not 1"),
        (torch.zeros(4), 3, r"int64 classes, not torch\.float32"),
        (torch.zeros(4, dtype=torch.int32), 3, r"int64 classes, not torch\.int32"),
        (torch.zeros(4, 1, dtype=torch.int64), 3, r"shape \(samples,\), not \(4, 1\)"),
        (torch.tensor([0, 2, 3]), 3, r"clean_target\[2\] is 3, but classes are 0 to 2"),
        (torch.tensor([0, -1, 3]), 3, r"clean_target\[1\] is -1, but classes are 0 to 2"),
    ):
        with pytest.raises(ValueError, match=message):
            make(kind, clean_target, 0.4, num_classes)


def test_a_kind_that_does_not_fit_a_regression_is_refused() -> None:
    numbers = torch.rand(10, generator=generator())
    for kind in ("asymmetric", "pair", "instance"):
        with pytest.raises(ValueError, match="noise is for classes: for regression there are"):
            make(kind, numbers, 0.4, None)
    with pytest.raises(ValueError, match=r"^human noise is for classes"):
        noise.human(numbers, torch.zeros(10, dtype=torch.int64), None)


@pytest.mark.parametrize("kind", ["symmetric", "permuted"])
def test_targets_that_are_no_numbers_are_refused(kind: str) -> None:
    for clean_target, message in (
        (torch.arange(4), r"must have floating point numbers, not torch\.int64: for classes"),
        (torch.rand(4, 1), r"shape \(samples,\), not \(4, 1\)"),
        (torch.tensor([1.0, math.nan]), "not finite"),
        (torch.tensor([1.0, math.inf]), "not finite"),
    ):
        with pytest.raises(ValueError, match=message):
            make(kind, clean_target, 0.4, None)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({3: 3}, "class 3 to itself"),
        ({}, "mapping is empty"),
        ({1: 10}, "mapping has 1 to 10, but classes are 0 to 9"),
        ({-1: 2}, "mapping has -1 to 2, but"),
        ({"9": 1}, "mapping has '9' to 1, but"),
    ],
)
def test_a_map_that_cannot_be_followed_is_refused(mapping: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        noise.asymmetric(torch.arange(10), 0.4, generator(), 10, mapping)


@given(classes(), st.data())
def test_human_labels_are_given_as_they_are(data: tuple[Tensor, int], drawn: st.DataObject) -> None:
    clean_target, num_classes = data
    size = len(clean_target)
    people = st.lists(st.integers(0, num_classes - 1), min_size=size, max_size=size)
    kind = drawn.draw(st.sampled_from([torch.int64, torch.int32, torch.uint8]))
    given_labels = torch.tensor(drawn.draw(people), dtype=kind)
    labels = noise.human(clean_target, given_labels, num_classes)
    assert labels.target.dtype == torch.int64
    assert labels.target.tolist() == given_labels.tolist()
    labels.target.fill_(1)
    assert torch.equal(labels.clean_target, clean_target)


def test_human_labels_are_a_copy() -> None:
    people = torch.tensor([1, 1, 0])
    noise.human(torch.tensor([0, 1, 0]), people, 2).target.fill_(0)
    assert people.tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("people", "message"),
    [
        (torch.tensor([0, 1]), "there are 2 labels for 3 samples"),
        (torch.tensor([0.0, 1.0, 2.0]), r"whole numbers, not torch\.float32"),
        (torch.tensor([True, False, True]), r"whole numbers, not torch\.bool"),
        (torch.tensor([[0], [1], [2]]), r"labels must have shape \(samples,\)"),
        (torch.tensor([0, 1, 3]), r"labels\[2\] is 3, but classes are 0 to 2"),
        (torch.tensor([0, -1, 3]), r"labels\[1\] is -1, but classes are 0 to 2"),
    ],
)
def test_human_labels_that_do_not_fit_are_refused(people: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        noise.human(torch.tensor([0, 1, 2]), people, 3)


@pytest.mark.parametrize(
    ("file", "key", "num_classes", "num_wrong"),
    [
        ("CIFAR-10_human.npz", "worse_label", 10, 20_104),
        ("CIFAR-10_human.npz", "aggre_label", 10, 4_505),
        ("CIFAR-10_human.npz", "random_label1", 10, 8_617),
        ("CIFAR-100_human.npz", "noisy_label", 100, 20_100),
    ],
)
def test_the_labels_of_cifar_n_are_as_wrong_as_they_were_published(
    file: str, key: str, num_classes: int, num_wrong: int
) -> None:
    directory = os.environ.get("DISCRIMLOSS_DATA")
    if directory is None:
        pytest.skip("DISCRIMLOSS_DATA is not set")
    path = Path(directory) / "cifar-n" / file
    if not path.is_file():
        pytest.skip(f"there is no {path}")
    clean_target = noise.read_label_file(path, "clean_label")
    labels = noise.human(clean_target, noise.read_label_file(path, key), num_classes)
    assert labels.rate == num_wrong / 50_000
    assert labels.transitions is not None
    assert labels.transitions.sum(dim=1).tolist() == [50_000 // num_classes] * num_classes
