"""DiscrimLoss in several processes, against itself in one. Started by `test_processes.py`.

Each process makes every scenario, and writes what became of it to DIRECTORY/outcome-RANK.json. The
reference sees the whole batch in a process group of its own, where nothing is exchanged.
"""

from __future__ import annotations

import copy
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import labelled_batches
import numpy as np
import pytest
import torch
import torch.distributed as dist
from labelled_batches import PHASES, STORIES, LabelledBatches
from remembered_fits import remembered_fits
from state_comparison import assert_same_state
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from discrimloss import DiscrimLoss, SampleIds

SAMPLES, EPOCHS = 37, 4
CRITERIA: dict[str, dict[str, Any]] = {
    "default": {},
    "split": {"threshold": "split"},
    "ema": {"threshold": "ema", "weight_lr": 0.3},
    "mean": {"threshold": "mean", "regularization": 0.1},
    "constant": {"threshold": 1.0},
    "released": {"variant": "released", "threshold": "ema"},
    "released split": {"variant": "released", "regularization": 0.05},
}

SCENARIOS: dict[str, Callable[[Path], None]] = {}


def scenario(function: Callable[[Path], None]) -> Callable[[Path], None]:
    SCENARIOS[function.__name__] = function
    return function


def rank() -> int:
    return dist.get_rank()


def world() -> int:
    return dist.get_world_size()


@cache
def alone() -> Any:
    """A group with nobody else in it."""
    return [dist.new_group([each]) for each in range(world())][rank()]


def reference(**options: Any) -> DiscrimLoss:
    return DiscrimLoss(SAMPLES, EPOCHS, process_group=alone(), **options)


def batches(epoch: int, shares: int) -> Iterator[tuple[Tensor, Tensor, list[int]]]:
    """Losses and indices of whole batches, and how many rows each share has.

    Uneven, some of them empty, with the same sample in several shares, and with bad losses.
    """
    generator = torch.Generator().manual_seed(epoch)
    for step in range(5):
        sizes = torch.randint(0, 6, (shares,), generator=generator)
        sizes[step % shares] = 0
        number = int(sizes.sum())
        index = torch.randint(0, SAMPLES, (number,), generator=generator)
        index[number // 2 :] = index[: number - number // 2].flip(0)
        losses = 3 * torch.rand(number, generator=generator)
        losses[torch.rand(number, generator=generator) < 0.05] = torch.nan
        yield losses, index, sizes.tolist()


def own(sizes: list[int]) -> slice:
    start = sum(sizes[: rank()])
    return slice(start, start + sizes[rank()])


def total(value: Tensor) -> Tensor:
    summed = value.detach().clone()
    dist.all_reduce(summed)
    return summed


def same_verdicts(criterion: DiscrimLoss, expected: DiscrimLoss) -> None:
    ours, theirs = criterion.verdicts(), expected.verdicts()
    assert (ours.code == theirs.code).all()
    for name in ("p_incorrect", "weight", "average_loss"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-6)


def train_beside_reference(criteria: list[DiscrimLoss], expected: DiscrimLoss) -> None:
    for epoch in range(1, EPOCHS + 1):
        for criterion in (*criteria, expected):
            criterion.set_epoch(epoch)
        for losses, index, sizes in batches(epoch, world()):
            everyones = losses.clone().requires_grad_()
            expected_value = expected(everyones, index)
            expected_value.backward()
            assert everyones.grad is not None
            for criterion in criteria:
                mine = losses[own(sizes)].clone().requires_grad_()
                value = criterion(mine, index[own(sizes)])
                torch.testing.assert_close(
                    total(value) / world(), expected_value.detach(), equal_nan=True
                )
                value.backward()
                assert mine.grad is not None
                torch.testing.assert_close(
                    mine.grad / world(), everyones.grad[own(sizes)], equal_nan=True
                )
        for criterion in criteria:
            assert_same_state(criterion, expected)  # to the last bit, in every process


@scenario
def both_kinds_of_table_are_that_of_one_process(directory: Path) -> None:
    # Two processes show that every form is right, more that the number of shards does not matter.
    names = CRITERIA if world() == 2 else ("default", "ema", "released")
    for options in (CRITERIA[name] for name in names):
        whole = DiscrimLoss(SAMPLES, EPOCHS, **options)
        sharded = DiscrimLoss(SAMPLES, EPOCHS, sharded=True, **options)
        expected = reference(**options)
        train_beside_reference([whole, sharded], expected)
        assert len(whole.table) == SAMPLES
        assert len(sharded.table) == len(range(rank(), SAMPLES, world()))
        assert torch.equal(sharded.sample_weights, expected.sample_weights)
        torch.testing.assert_close(
            sharded.average_losses, expected.average_losses, rtol=0, atol=0, equal_nan=True
        )
    same_verdicts(whole, expected)
    same_verdicts(sharded, expected)


@scenario
def more_processes_than_samples(directory: Path) -> None:
    criterion = DiscrimLoss(1, 3, sharded=True)
    expected = DiscrimLoss(1, 3, process_group=alone())
    for epoch in (1, 2, 3):
        criterion.set_epoch(epoch)
        expected.set_epoch(epoch)
        losses = torch.arange(1.0, 1.0 + world())
        criterion(losses[rank() :][:1], torch.zeros(1, dtype=torch.int64))
        expected(losses, torch.zeros(world(), dtype=torch.int64))
    assert_same_state(criterion, expected)


@scenario
def nobody_has_a_sample(directory: Path) -> None:
    criterion = DiscrimLoss(SAMPLES, EPOCHS)
    losses = torch.empty(0, requires_grad=True)
    value = criterion(losses, torch.empty(0, dtype=torch.int64))
    value.backward()
    assert value.item() == 0.0
    assert_same_state(criterion, reference())


@scenario
def sums_and_single_rows(directory: Path) -> None:
    for losses, index, sizes in batches(1, world()):
        mine = losses[own(sizes)].clone().requires_grad_()
        everyones = losses.clone().requires_grad_()
        value = DiscrimLoss(SAMPLES, EPOCHS, reduction="sum")(mine, index[own(sizes)])
        expected = reference(reduction="sum")(everyones, index)
        torch.testing.assert_close(total(value) / world(), expected.detach(), equal_nan=True)
        value.backward()
        expected.backward()
        assert mine.grad is not None
        assert everyones.grad is not None
        torch.testing.assert_close(mine.grad / world(), everyones.grad[own(sizes)], equal_nan=True)
        rows = DiscrimLoss(SAMPLES, EPOCHS, reduction="none")(losses[own(sizes)], index[own(sizes)])
        expected = reference(reduction="none")(losses, index)
        torch.testing.assert_close(rows, expected[own(sizes)], equal_nan=True)


@scenario
def ddp_learns_what_one_process_learns(directory: Path) -> None:
    for sharded in (False, True):
        torch.manual_seed(0)
        inputs, targets = torch.randn(SAMPLES, 5), torch.randint(3, (SAMPLES,))
        model = nn.Linear(5, 3)
        replica = DistributedDataParallel(nn.Linear(5, 3))
        replica.module.load_state_dict(model.state_dict())
        criterion, expected = DiscrimLoss(SAMPLES, EPOCHS, sharded=sharded), reference()
        for epoch in range(1, EPOCHS + 1):
            criterion.set_epoch(epoch)
            expected.set_epoch(epoch)
            for _, index, sizes in batches(epoch, world()):
                for network, loss, rows in (
                    (replica, criterion, index[own(sizes)]),
                    (model, expected, index),
                ):
                    output = network(inputs[rows])
                    losses = nn.functional.cross_entropy(output, targets[rows], reduction="none")
                    network.zero_grad()
                    loss(losses, rows).backward()
                    with torch.no_grad():
                        for parameter in network.parameters():
                            parameter -= 0.3 * parameter.grad
        torch.testing.assert_close(replica.module.state_dict(), model.state_dict())
        torch.testing.assert_close(criterion.state_dict(), expected.state_dict(), equal_nan=True)


@scenario
def a_sampler_pads_with_samples_it_had_already(directory: Path) -> None:
    criterion, expected = DiscrimLoss(SAMPLES, EPOCHS), reference()
    losses = torch.linspace(0.1, 4.0, SAMPLES)
    data = range(SAMPLES)

    def loaders() -> list[DataLoader[int]]:
        samplers = [DistributedSampler(data, world(), each, seed=3) for each in range(world())]
        return [DataLoader(data, batch_size=4, sampler=sampler) for sampler in samplers]  # type: ignore[arg-type]

    assert sum(len(loader.sampler) for loader in loaders()) > SAMPLES  # type: ignore[arg-type]
    for epoch in (1, 2):
        criterion.set_epoch(epoch)
        expected.set_epoch(epoch)
        for parts in zip(*loaders(), strict=True):
            criterion(losses[parts[rank()]], parts[rank()])
            expected(losses[torch.cat(parts)], torch.cat(parts))
    assert int(criterion.table.visits.min()) == 2
    assert_same_state(criterion, expected)


class Counted:
    """Which collectives were used."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __enter__(self) -> Counted:
        def counted(name: str) -> Any:
            original = getattr(dist, name)

            def call(*args: Any, **kwargs: Any) -> Any:
                self.calls.append(name)
                return original(*args, **kwargs)

            return mock.patch.object(dist, name, call)

        names = [
            *("all_gather", "all_gather_object", "all_reduce", "all_to_all_single", "barrier"),
            *("broadcast", "all_gather_into_tensor", "reduce", "gather", "scatter", "all_to_all"),
        ]
        self.patches = [counted(name) for name in names]
        for patch in self.patches:
            patch.start()
        return self

    def __exit__(self, *_: Any) -> None:
        for patch in self.patches:
            patch.stop()


@scenario
def one_collective_in_a_step(directory: Path) -> None:
    losses, index = torch.rand(4), torch.arange(4)
    for options, expected in (
        ({}, ["all_gather"]),
        ({"sharded": True}, ["all_gather", "all_to_all_single"]),
        ({"ids": SampleIds(range(SAMPLES), grow=False)}, ["all_gather"]),
    ):
        criterion = DiscrimLoss(
            None if "ids" in options else SAMPLES,
            EPOCHS,
            **options,  # type: ignore[arg-type]
        )
        with Counted() as first:
            criterion(losses, index)
        assert first.calls == ["all_gather", *expected]  # the first makes room
        with Counted() as later:
            criterion(losses, index)
        assert later.calls == expected
        with Counted() as smaller:
            criterion(losses[:1], index[:1])
        assert smaller.calls == expected
        criterion.eval()
        with Counted() as evaluated:
            criterion(losses, index)
        assert evaluated.calls == []


@scenario
def few_collectives_in_a_step_with_targets(directory: Path) -> None:
    batches, index = LabelledBatches("logits", STORIES["clean"]), torch.arange(4)
    outputs = batches.outputs(index, 1)
    losses, target = batches.losses(outputs, index), batches.target[index]
    for sharded, expected in (
        (False, ["all_gather"]),
        (True, ["all_gather", "all_reduce", "all_to_all_single"]),
    ):
        criterion = labelled_batches.make_criterion("logits", sharded=sharded)
        criterion(losses, index, target, outputs)
        with Counted() as counted:
            criterion(losses, index, target, outputs)
        assert counted.calls == expected


@scenario
def everybody_hears_of_a_mistake(directory: Path) -> None:
    for sharded in (False, True):
        criterion = DiscrimLoss(SAMPLES, EPOCHS, sharded=sharded)
        before = {name: value.clone() for name, value in criterion.state_dict().items()}
        bad = torch.tensor([3, -5 if rank() == 1 else 4])
        row = 1 if rank() == 1 else 3  # of the own batch, or of the whole one
        with pytest.raises(IndexError, match=rf"sample index -5 \(row {row} of"):
            criterion(torch.rand(2), bad)
        with pytest.raises(IndexError, match="out of range"):
            criterion(torch.rand(2), torch.tensor([3, 1 << 40 if rank() == 1 else 4]))
        criterion.set_epoch(2 if rank() == 1 else 1)
        with pytest.raises(ValueError, match=r"disagree about epoch .*2 in process 1"):
            criterion(torch.rand(2), torch.tensor([3, 4]))
        criterion.set_epoch(1)
        assert_same_state(criterion, before)
    batch = torch.rand(2), torch.tensor([3, 4])
    loaded = DiscrimLoss(SAMPLES, EPOCHS)
    if rank() == 1:
        trained = reference()
        trained(*batch)
        loaded.load_state_dict(trained.state_dict())
    names = SampleIds(["a", "b"] if rank() == 1 else ["b", "a"])
    for different in (
        loaded,
        DiscrimLoss(SAMPLES, EPOCHS, threshold=float(rank())),
        DiscrimLoss(ids=names, epochs=EPOCHS),
        DiscrimLoss(ids=SampleIds([f"{rank()} {i}" for i in range(5)], grow=False), epochs=EPOCHS),
    ):
        index = batch[1] if different.ids is None else different.ids.names()[:2]
        with pytest.raises(ValueError, match=r"criteria differ: .* the same ids, .* same state"):
            different(batch[0], index)
    unequal = DiscrimLoss(SAMPLES + rank(), EPOCHS)
    with pytest.raises(ValueError, match=r"disagree about num_samples .*the whole dataset"):
        unequal(torch.rand(2), torch.tensor([3, 4]))


class ModelWithCriterion(nn.Module):
    def __init__(self, criterion: DiscrimLoss) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.criterion = criterion

    def forward(self, index: Tensor) -> Tensor:
        losses = self.layer(index[:, None].float()).flatten()
        loss: Tensor = self.criterion(losses, index)
        return loss


@scenario
def a_batch_that_one_process_refuses(directory: Path) -> None:
    """The others raise in the same step, with its rank, and all of them can go on."""
    for names in (False, True):
        ids = {"ids": SampleIds()} if names else {"num_samples": SAMPLES}
        criterion = DiscrimLoss(epochs=EPOCHS, num_classes=3, **ids)  # type: ignore[arg-type]
        index: Any = [f"sample {rank()}"] if names else torch.tensor([rank()])
        one, right = torch.ones(1), torch.tensor([1])
        is_last = rank() == world() - 1
        error, match = ValueError, rf"process {world() - 1} of {world()} .* it refused"
        if is_last:
            error, match = ValueError, "target must have the shape of the losses"
        with pytest.raises(error, match=match):
            criterion(one, index, target=torch.tensor([1, 1]) if is_last else right)
        assert int(criterion.tracker.visits_seen.sum()) == 0
        if names:
            assert criterion.num_samples == 0
        criterion(one, index, target=right)
        assert int(criterion.tracker.visits_seen.sum()) == world()


@scenario
def a_criterion_within_a_wrapped_model(directory: Path) -> None:
    """DDP makes all buffers of a model those of the first process; the table is none of them."""
    index = torch.arange(3) + 3 * rank()
    everyones = torch.arange(3 * world())
    for sharded in (False, True):
        torch.manual_seed(0)
        model = ModelWithCriterion(reference())
        inside = ModelWithCriterion(DiscrimLoss(SAMPLES, EPOCHS, sharded=sharded))
        inside.layer.load_state_dict(model.layer.state_dict())
        wrapped = DistributedDataParallel(inside)
        for _ in range(3):
            wrapped(index).backward()
            model(everyones).backward()
        torch.testing.assert_close(inside.layer.weight.grad, model.layer.weight.grad)
        assert_same_state(inside.criterion, model.criterion)


@scenario
def some_of_the_processes(directory: Path) -> None:
    pairs = [dist.new_group([first, first + 1]) for first in range(0, world(), 2)]
    group = pairs[rank() // 2]
    criterion, expected = DiscrimLoss(SAMPLES, EPOCHS, process_group=group), reference()
    index = torch.arange(4) + 10 * (rank() // 2)  # every pair has data of its own
    losses = torch.linspace(1.0, 2.0, 4)
    mine = slice(0, 1) if rank() % 2 == 0 else slice(1, 4)
    for _ in range(3):
        criterion = copy.deepcopy(criterion)  # shares with the same
        criterion(losses[mine], index[mine])
        expected(losses, index)
    assert_same_state(criterion, expected)


def named_batches(epoch: int) -> Iterator[tuple[Tensor, list[str], list[int]]]:
    """New names appear in every epoch, in several shares at once."""
    for losses, index, sizes in batches(epoch, world()):
        yield losses, [f"photo-{int(i) % (5 * epoch)}" for i in index], sizes


@scenario
def names_get_the_same_rows_everywhere(directory: Path) -> None:
    for sharded in (False, True):
        criterion = DiscrimLoss(epochs=EPOCHS, ids=SampleIds(), sharded=sharded)
        expected = DiscrimLoss(epochs=EPOCHS, ids=SampleIds(), process_group=alone())
        for epoch in range(1, EPOCHS + 1):
            criterion.set_epoch(epoch)
            expected.set_epoch(epoch)
            for losses, names, sizes in named_batches(epoch):
                criterion(losses[own(sizes)], names[own(sizes)])
                expected(losses, names)
        assert criterion.ids is not None
        assert expected.ids is not None
        assert criterion.ids.names() == expected.ids.names()
        assert 2 * EPOCHS < len(criterion.ids) == criterion.num_samples
        assert_same_state(criterion, expected)
    assert criterion.verdicts().ids == expected.ids.names()


def shares_of(index: Tensor, epoch: int) -> list[Tensor]:
    """A batch in uneven shares, one of them empty."""
    sizes = [1 + (epoch + each) % 3 for each in range(world())]
    sizes[epoch % world()] = 0
    cuts = torch.tensor(sizes).cumsum(0) * len(index) // max(sum(sizes), 1)
    return list(index.tensor_split(cuts[:-1]))


class Trained(NamedTuple):
    """Criteria with targets that have seen the same batches."""

    whole: DiscrimLoss
    sharded: DiscrimLoss
    expected: DiscrimLoss
    """In one process."""


@cache
def trained_with_targets(form: str, story: str, names: bool = False) -> Trained:
    """Criteria that have trained, and agreed, until the last phase has begun."""

    def make(**options: Any) -> DiscrimLoss:
        ids = {"ids": SampleIds()} if names else {}
        return labelled_batches.make_criterion(form, **ids, **options)

    trained = Trained(make(), make(sharded=True), make(process_group=alone()))
    batches = LabelledBatches(form, STORIES[story])
    for epoch in range(1, 8):
        for criterion in trained:
            criterion.set_epoch(epoch)
        for index in batches.order(epoch):
            found = []
            shares = shares_of(index, epoch)
            for each in trained:
                rows = index if each is trained.expected else shares[rank()]
                outputs = batches.outputs(rows, epoch)
                losses = batches.losses(outputs, rows)
                given = batches.arguments(outputs, rows)
                samples = [f"photo-{int(i)}" for i in rows] if names else rows
                value = each(losses, samples, **given)
                found.append((value.detach(), torch.autograd.grad(value, outputs)[0]))
            *own_parts, (whole, whole_gradient) = found
            start = sum(len(share) for share in shares[: rank()])
            for value, gradient in own_parts:
                torch.testing.assert_close(total(value) / world(), whole)
                own_part = whole_gradient[start : start + len(gradient)]
                torch.testing.assert_close(gradient / world(), own_part)
        assert_same_state(trained.whole, trained.expected)
        assert_same_state(trained.sharded, trained.expected)
    return trained


@scenario
def targets_and_predictions_are_those_of_one_process(directory: Path) -> None:
    runs = [("logits", "memorised"), ("regression with predictions", "memorised")]
    if world() == 2:
        runs += [("classes", "memorised"), ("logits", "noisy")]
    for form, story in runs:
        for criterion in trained_with_targets(form, story):
            assert labelled_batches.phase_of(criterion) == PHASES[form, story][-1]


@scenario
def targets_of_names_are_those_of_one_process(directory: Path) -> None:
    trained_with_targets("logits", "memorised", names=True)


@scenario
def everybody_hears_of_a_wrong_part_of_mixed_samples(directory: Path) -> None:
    batches = LabelledBatches("classes", STORIES["clean"])
    index = 2 * rank() + torch.arange(2)
    other = index + 2 * world()
    names = {"ids": SampleIds(), "num_samples": None}
    for options in ({}, names):
        criterion = labelled_batches.make_criterion("classes", **options)

        def named(index: Tensor, has_names: bool = bool(options)) -> Any:
            return [f"sample {i}" for i in index.tolist()] if has_names else index

        target, other_target = batches.target[index], batches.target[other]
        criterion(torch.rand(2), named(index), target)
        before = {name: value.clone() for name, value in criterion.state_dict().items()}
        parts = torch.rand(2), torch.rand(2), named(index), named(other), 0.75, target
        bad: list[Any] = [other_target + 99, None, other_target.float()]
        errors = [IndexError, ValueError, TypeError]
        words = ["target 99|target 1\\d\\d", "need target and other_target", "class positions"]
        for wrong, error, match in zip(bad, errors, words, strict=True):
            if rank() == 1:
                with pytest.raises(error, match=match):
                    criterion.mixed(*parts, wrong)
            else:
                with pytest.raises(ValueError, match=r"process 1 of . had a batch that it"):
                    criterion.mixed(*parts, other_target)
            assert_same_state(criterion, before)
        criterion.mixed(*parts, other_target)


@scenario
def everybody_hears_of_a_wrong_target(directory: Path) -> None:
    batches = LabelledBatches("logits", STORIES["clean"])
    index = 2 * rank() + torch.arange(2)
    for sharded in (False, True):
        criterion = labelled_batches.make_criterion("logits", sharded=sharded)
        outputs = batches.outputs(index, 1)
        losses, target = batches.losses(outputs, index), batches.target[index]
        criterion(losses, index, target, outputs)
        before = {name: value.clone() for name, value in criterion.state_dict().items()}
        changed = (target + (rank() == 1)) % labelled_batches.CLASSES
        with pytest.raises(ValueError, match=r"sample 2 has target \d but had \d before"):
            criterion(losses, index, changed, outputs)
        outside = target + 9 * (rank() == 1)
        row = 0 if rank() == 1 else 2  # of the own batch, or of the whole one
        with pytest.raises(IndexError, match=rf"target \d+ \(row {row} of the batch\)"):
            criterion(losses, index, outside, outputs)
        assert_same_state(criterion, before)
        criterion(losses, index, target, outputs)
        fresh = labelled_batches.make_criterion("logits", sharded=sharded)
        with pytest.raises(ValueError, match="some processes pass predictions and others do not"):
            fresh(losses, index, target, outputs if rank() == 1 else None)
        fresh(losses, index, target, outputs)


def labelled_states_travel(directory: Path) -> None:
    from discrimloss.state.file import load_state, save_state

    trained = trained_with_targets("logits", "memorised")
    for criterion in (trained.whole, trained.sharded):
        folder = directory / f"labelled-{criterion is trained.sharded}"
        save_state(criterion, folder)
        for into in (False, True):
            resumed = labelled_batches.make_criterion("logits", sharded=into)
            load_state(resumed, folder)
            assert_same_state(resumed, trained.expected)
            again = labelled_batches.make_criterion("logits", sharded=not into)
            again.load_state_dict(resumed.state_dict())
            assert_same_state(again, trained.expected)


def train_epochs(criterion: DiscrimLoss, first: int, last: int) -> None:
    """The same whole batches, however many processes share them."""
    for epoch in range(first, last + 1):
        criterion.set_epoch(epoch)
        for losses, index, _ in batches(epoch, 3):
            processes = criterion.processes
            mine = slice(processes.rank, None, processes.count)
            criterion(losses[mine], index[mine])


def states_travel_between_numbers_of_processes(directory: Path) -> None:
    from discrimloss.state.file import load_state, save_state

    expected = reference()
    train_epochs(expected, 1, 2)
    for sharded in (False, True):
        criterion = DiscrimLoss(SAMPLES, EPOCHS, sharded=sharded)
        train_epochs(criterion, 1, 2)
        save_state(criterion, directory / f"of-{world()}-{sharded}")
    # Into the same directory, over what another layout and another number of processes left.
    mixed = directory / "of-mixed"
    save_state(DiscrimLoss(SAMPLES, EPOCHS), mixed)
    if rank() == 0:
        for number in (1, 2, 3):
            stale = mixed / f"discrimloss-0000{number}-of-00003.safetensors"
            stale.write_bytes(b"outdated")
    save_state(criterion, mixed)
    dist.barrier()
    assert len(list(mixed.iterdir())) == world()
    for folder in sorted(directory.parent.glob("*/of-*")):
        for sharded in (False, True):
            resumed = DiscrimLoss(SAMPLES, EPOCHS, sharded=sharded)
            load_state(resumed, folder)
            assert_same_state(resumed, expected)
            again = DiscrimLoss(SAMPLES, EPOCHS, sharded=not sharded)
            again.load_state_dict(resumed.state_dict())
            assert_same_state(again, expected)
    train_epochs(expected, 3, EPOCHS)
    train_epochs(resumed, 3, EPOCHS)
    assert_same_state(resumed, expected)


if find_spec("safetensors"):  # an extra
    scenario(states_travel_between_numbers_of_processes)
    scenario(labelled_states_travel)


def main(directory: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    outcome: dict[str, str] = {}
    for name, function in SCENARIOS.items():
        try:
            with remembered_fits():
                function(directory)
            outcome[name] = "passed"
        except BaseException:  # one that fails would leave the others waiting for it: stop here
            outcome[name] = traceback.format_exc()
            break
        finally:
            (directory / f"outcome-{rank()}.json").write_text(json.dumps(outcome))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
