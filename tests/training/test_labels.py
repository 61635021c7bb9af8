"""Labels as a config asks for them; and the clean ones, which training never sees."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lively_task import load_numbers
from torch import Tensor

from discrimloss.data.base import DataError, TaskData
from discrimloss.data.digits import load_digits
from discrimloss.options import OptionError
from discrimloss.recipes import load_recipe
from discrimloss.training.config import NoiseConfig
from discrimloss.training.labels import make_labels, truth_is_known
from discrimloss.training.methods.base import methods
from discrimloss.training.run import prepare_run


@pytest.fixture(scope="module")
def digits() -> TaskData:
    return load_digits(Path())


def made(config: NoiseConfig, task: TaskData, seed: int = 0) -> Any:
    return make_labels(config, task, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric", "pair", "instance"])
def test_exactly_so_many_are_wrong(kind: Any, digits: TaskData) -> None:
    labels = made(NoiseConfig(kind, rate=0.3), digits)
    number = len(digits.train)
    assert int((labels.target != digits.train.target).sum()) == round(0.3 * number)
    assert torch.equal(labels.clean_target, digits.train.target)
    assert torch.equal(labels.target, made(NoiseConfig(kind, rate=0.3), digits).target)
    assert not torch.equal(labels.target, made(NoiseConfig(kind, rate=0.3), digits, 1).target)


@pytest.mark.parametrize("kind", ["asymmetric", "pair"])
def test_the_next_class(kind: Any, digits: TaskData) -> None:
    labels = made(NoiseConfig(kind, rate=0.5), digits)
    wrong = labels.is_wrong
    assert torch.equal(labels.target[wrong], (labels.clean_target[wrong] + 1) % 10)


def test_a_mapping(digits: TaskData) -> None:
    labels = made(NoiseConfig("asymmetric", 0.5, mapping={"1": 7, "4": 9}), digits)
    wrong = labels.is_wrong
    pairs = set(
        zip(labels.clean_target[wrong].tolist(), labels.target[wrong].tolist(), strict=True)
    )
    assert pairs == {(1, 7), (4, 9)}
    with pytest.raises(OptionError, match="noise: mapping has 1 to 12"):
        made(NoiseConfig("asymmetric", 0.5, mapping={"1": 12}), digits)


def test_permuted_keeps_how_often_a_label_is_given(digits: TaskData) -> None:
    labels = made(NoiseConfig("permuted", 0.5), digits)
    assert torch.equal(labels.target.bincount(), digits.train.target.bincount())
    assert 0.35 < labels.rate < 0.5


def test_none(digits: TaskData) -> None:
    assert torch.equal(made(NoiseConfig(), digits).target, digits.train.target)


def test_labels_of_people_from_a_file(digits: TaskData, tmp_path: Path) -> None:
    given = (digits.train.target.numpy() + 1) % 10
    np.save(tmp_path / "labels.npy", given)
    labels = made(NoiseConfig("human", labels=str(tmp_path / "labels.npy")), digits)
    assert np.array_equal(labels.target.numpy(), given)
    assert labels.rate == 1.0
    np.save(tmp_path / "short.npy", given[:-1])
    with pytest.raises(OptionError, match="1347 labels for 1348 samples"):
        made(NoiseConfig("human", labels=str(tmp_path / "short.npy")), digits)


def test_labels_of_people_by_name(digits: TaskData) -> None:
    asked = []

    def human_labels(name: str) -> Tensor:
        asked.append(name)
        return torch.zeros(len(digits.train), dtype=torch.int64)

    task = dataclasses.replace(digits, human_labels=human_labels)
    assert made(NoiseConfig("human", labels="worse"), task).target.sum() == 0
    assert asked == ["worse"]
    with pytest.raises(DataError, match="'worse' is not a file, and this dataset has no human"):
        made(NoiseConfig("human", labels="worse"), digits)


@pytest.mark.parametrize("kind", ["none", "symmetric", "permuted"])
def test_numbers(kind: Any) -> None:
    task = load_numbers(Path())
    rate = 0.0 if kind == "none" else 0.4
    labels = made(NoiseConfig(kind, rate), task)
    assert labels.target.dtype == torch.float32
    assert labels.rate == pytest.approx(rate, abs=0.05)
    assert torch.isin(labels.target, task.train.target).all()


@pytest.mark.parametrize("kind", ["asymmetric", "pair", "instance", "human"])
def test_noise_that_does_not_fit_numbers(kind: Any) -> None:
    labels = "any" if kind == "human" else None
    with pytest.raises(OptionError, match="is for classes, not for a regression"):
        made(NoiseConfig(kind, 0.4, labels=labels), load_numbers(Path()))


def test_noise_that_needs_inputs_in_memory(digits: TaskData) -> None:
    inputs = dataclasses.replace(digits.train.inputs, in_memory=False)  # type: ignore[type-var]
    task = dataclasses.replace(digits, train=dataclasses.replace(digits.train, inputs=inputs))
    with pytest.raises(OptionError, match="needs inputs that are numbers in memory"):
        made(NoiseConfig("instance", 0.4), task)


def test_when_the_truth_is_known(digits: TaskData) -> None:
    published_noisy = dataclasses.replace(digits, train_labels_are_clean=False)
    assert truth_is_known(NoiseConfig(), digits)
    assert not truth_is_known(NoiseConfig(), published_noisy)
    assert truth_is_known(NoiseConfig("symmetric", 0.2), published_noisy)


def tensors_within(thing: Any, seen: set[int]) -> Iterator[Tensor]:
    """Every tensor that can be reached: attributes, items, and what functions have closed over."""
    if id(thing) in seen or isinstance(thing, (str, bytes, int, float, type, types.ModuleType)):
        return
    seen.add(id(thing))
    if isinstance(thing, Tensor):
        yield thing
        return
    inside: list[Any] = []
    if isinstance(thing, dict):
        inside += thing.values()
    elif isinstance(thing, (list, tuple, set, frozenset)):
        inside += thing
    elif isinstance(thing, types.MethodType):
        inside += [thing.__self__, thing.__func__]
    elif isinstance(thing, types.FunctionType):
        inside += [cell.cell_contents for cell in thing.__closure__ or ()]
        inside += [*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
    elif hasattr(thing, "__dict__"):
        inside += vars(thing).values()
    for entry in inside:
        yield from tensors_within(entry, seen)


@pytest.mark.parametrize("method", methods.names())
def test_clean_labels_are_out_of_reach_of_training(method: str) -> None:
    """With every label wrong, a tensor that equals the clean labels can only be these."""
    config = load_recipe("digits", [f"method={method}", "noise.rate=1.0", "epochs=2"])
    prepared = prepare_run(config, Path())
    clean = prepared.labels.clean_target
    assert prepared.labels.is_wrong.all()
    reached = list(
        tensors_within([prepared.method, prepared.method.setting, prepared.splits], set())
    )
    assert any(torch.equal(tensor, prepared.labels.target) for tensor in reached)
    for tensor in [*reached, *prepared.method.state_dict().values()]:
        assert tensor.data_ptr() != clean.data_ptr()
        assert tensor.shape != clean.shape or not torch.equal(tensor.to(clean), clean)
