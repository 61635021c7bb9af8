"""DiscrimLoss with targets and predictions: broken batches, rows in any order, precision."""

import copy
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from labelled_batches import (
    CLASSES,
    EPOCHS,
    FORMS,
    MEMORISED,
    SAMPLES,
    STORIES,
    LabelledBatches,
    make_criterion,
    phase_of,
)
from state_comparison import assert_same_state, state_of
from torch import Tensor, nn

from discrimloss import DiscrimLoss, SampleIds
from discrimloss.label_correction import MIXING
from discrimloss.state.table import HELD_OUT, UNDECIDED

pytestmark = pytest.mark.usefixtures("fits_once")

every_form = pytest.mark.parametrize("form", FORMS)
with_predictions = pytest.mark.parametrize("form", ["logits", "regression with predictions"])


def begun(form: str, **options: Any) -> DiscrimLoss:
    """A criterion in its second epoch."""
    criterion = make_criterion(form, **options)
    LabelledBatches(form, MEMORISED).train(criterion, 1, 2)
    return criterion


def good_batch(form: str, rows: int = 6) -> tuple[Tensor, Tensor, dict[str, Any]]:
    batches, index = LabelledBatches(form, MEMORISED), torch.arange(rows)
    outputs = batches.outputs(index, 3)
    return batches.losses(outputs, index), index, batches.arguments(outputs, index)


# Bad input.

BAD: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]], type[Exception], str]] = {
    "a target that is no class": (
        "classes",
        lambda given: {"target": torch.tensor([0, CLASSES, 0, 0, 0, 0])},
        IndexError,
        rf"target {CLASSES} \(row 1 of the batch\) .*valid targets are 0 to {CLASSES - 1}",
    ),
    "a target below zero": (
        "logits",
        lambda given: given | {"target": torch.tensor([0, 0, -1, 0, 0, 0])},
        IndexError,
        r"target -1 \(row 2 of the batch\)",
    ),
    "a target far outside": (
        "classes",
        lambda given: {"target": given["target"] + 2**32},
        IndexError,
        r"target \d+ \(row 0 of the batch\) is out of range",
    ),
    "classes that are no integers": (
        "classes",
        lambda given: {"target": given["target"].float()},
        TypeError,
        r"target must be a tensor of class positions, not torch.float32: .*task=\"regression\"",
    ),
    "targets in a list": (
        "classes",
        lambda given: {"target": given["target"].tolist()},
        TypeError,
        "target must be a tensor of class positions, not list",
    ),
    "too few targets": (
        "classes",
        lambda given: {"target": given["target"][:5]},
        ValueError,
        r"target must have the shape of the losses, \(6,\), not \(5,\)",
    ),
    "too few regression targets": (
        "regression",
        lambda given: {"target": given["target"][:5]},
        ValueError,
        r"target must have the shape of the losses, \(6,\), not \(5,\)",
    ),
    "a class that changes": (
        "classes",
        lambda given: {"target": (given["target"] + torch.tensor([0, 0, 0, 1, 0, 0])) % CLASSES},
        ValueError,
        r"sample 3 has target \d but had \d before: the index must identify the same",
    ),
    "a regression target that changes": (
        "regression with predictions",
        lambda given: given | {"target": given["target"] + 0.5},
        ValueError,
        r"sample 0 has target \S+ but had \S+ before",
    ),
    "a target that is missing": (
        "classes",
        lambda given: {},
        ValueError,
        "target is missing: .* every training batch needs a target",
    ),
    "logits without a target": (
        "logits",
        lambda given: {"logits": given["logits"]},
        ValueError,
        "target is missing",
    ),
    "logits that are missing": (
        "logits",
        lambda given: {"target": given["target"]},
        ValueError,
        "logits are not given, but were in earlier batches: pass them in every training batch",
    ),
    "logits that come late": (
        "classes",
        lambda given: given | {"logits": torch.zeros(6, CLASSES, requires_grad=True)},
        ValueError,
        "logits are given, but were not in earlier batches",
    ),
    "predictions that are missing": (
        "regression with predictions",
        lambda given: {"target": given["target"]},
        ValueError,
        "predictions are not given, but were in earlier batches",
    ),
    "logits of another shape": (
        "logits",
        lambda given: given | {"logits": given["logits"][:, :3]},
        ValueError,
        rf"logits must have shape \(batch, num_classes\), here \(6, {CLASSES}\), not \(6, 3\)",
    ),
    "logits without gradient": (
        "logits",
        lambda given: given | {"logits": given["logits"].detach()},
        ValueError,
        "logits carry no gradient although the losses do: pass the network's output itself",
    ),
    "logits that are no numbers": (
        "logits",
        lambda given: given | {"logits": given["logits"].long()},
        TypeError,
        "logits must be a tensor of real numbers, not torch.int64",
    ),
    "predictions of another shape": (
        "regression with predictions",
        lambda given: given | {"predictions": given["predictions"][:2]},
        ValueError,
        r"predictions must have the shape of the losses, \(6,\), not \(2,\)",
    ),
    "predictions for classes": (
        "classes",
        lambda given: given | {"predictions": torch.zeros(6)},
        ValueError,
        "predictions are for regression: pass the output of a classifier as logits",
    ),
    "logits for a regression": (
        "regression",
        lambda given: given | {"logits": torch.zeros(6, 1)},
        ValueError,
        "logits are for classification: pass the output of a regressor as predictions",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_batch_is_one_sentence_and_moves_nothing(name: str) -> None:
    form, make_bad, error, message = BAD[name]
    criterion, untouched = begun(form), begun(form)
    losses, index, given = good_batch(form)
    before = state_of(criterion)
    with pytest.raises(error, match=message) as raised:
        criterion(losses, index, **make_bad(given))
    assert "\n" not in str(raised.value)
    assert_same_state(criterion, before)
    assert torch.equal(criterion(losses, index, **given), untouched(losses, index, **given))
    assert_same_state(criterion, untouched)


@pytest.mark.parametrize(
    "name", [name for name, case in BAD.items() if not re.search("before|but were", case[3])]
)
def test_a_run_may_begin_with_a_bad_batch(name: str) -> None:
    form, make_bad, error, _ = BAD[name]
    criterion = make_criterion(form)
    before = state_of(criterion)
    losses, index, given = good_batch(form)
    with pytest.raises(error):
        criterion(losses, index, **make_bad(given))
    assert_same_state(criterion, before)
    criterion(losses, index, **given)


@with_predictions
def test_a_wrong_index_in_the_first_batch_adds_no_columns(form: str) -> None:
    criterion = make_criterion(form)
    before = state_of(criterion)
    losses, index, given = good_batch(form)
    with pytest.raises(IndexError, match="sample index"):
        criterion(losses, index + SAMPLES, **given)
    assert_same_state(criterion, before)


@pytest.mark.parametrize("form", ["classes", "regression"])
def test_rows_of_one_sample_with_different_targets(form: str) -> None:
    criterion = make_criterion(form)
    before = state_of(criterion)
    losses, index, given = good_batch(form)
    target = given["target"].clone()
    target[1] = (target[0] + 1) % CLASSES
    with pytest.raises(ValueError, match="sample 0 has target"):
        criterion(losses, index.clamp(max=0) + torch.tensor([0, 0, 2, 3, 4, 5]), target=target)
    assert_same_state(criterion, before)


@pytest.mark.parametrize("argument", ["target", "logits", "predictions"])
def test_the_form_of_the_paper_takes_losses_alone(argument: str) -> None:
    criterion = DiscrimLoss(4, epochs=10)
    before = state_of(criterion)
    with pytest.raises(ValueError, match="built for losses alone: build it with num_classes"):
        criterion(torch.ones(2), torch.arange(2), **{argument: torch.zeros(2)})
    assert_same_state(criterion, before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_classes": 1}, "num_classes"),
        ({"num_classes": 2.5}, "num_classes"),
        ({"num_classes": 2**15}, "num_classes"),
        ({"task": "ranking"}, "task must be 'classification' or 'regression'"),
        ({"task": "regression", "num_classes": 3}, "task='regression' has no classes"),
        ({"num_classes": 3, "variant": "released"}, "variant='released' does not use targets"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DiscrimLoss(4, epochs=10, **options)


def test_regression_targets_that_differ_in_rounding_are_printed_with_all_digits() -> None:
    criterion = DiscrimLoss(1, epochs=10, task="regression")
    target = torch.tensor([0.1])
    criterion(torch.ones(1), torch.tensor([0]), target=target)
    with pytest.raises(ValueError, match=r"target 0\.100000009 but had 0\.100000001 before"):
        criterion(torch.ones(1), torch.tensor([0]), target=target.nextafter(torch.ones(1)))


def test_a_missing_regression_target_with_a_broken_loss_is_no_change() -> None:
    criterion, untouched = begun("regression"), begun("regression")
    losses, index, given = good_batch("regression")
    new = torch.tensor([math.nan])
    assert not criterion(new, torch.tensor([0]), target=given["target"][:1]).isfinite()
    assert_same_state(criterion, untouched)
    fresh, other = make_criterion("regression"), make_criterion("regression")
    fresh(new, torch.tensor([0]), target=new)
    for each in (fresh, other):
        each(losses, index, **given)
    assert_same_state(fresh, other)


# What a target and predictions cost.


@pytest.mark.parametrize("classes", [2, 14, 100, 10_000])
def test_bytes_of_a_sample(classes: int) -> None:
    paper = DiscrimLoss(4, epochs=10).table.bytes_per_sample
    criterion = DiscrimLoss(4, epochs=10, num_classes=classes)
    with_target = criterion.table.bytes_per_sample
    assert 0 < with_target - paper <= 4
    logits = torch.zeros(2, classes, requires_grad=True)
    target = torch.tensor([0, classes - 1])
    criterion(logits.sum(1), torch.arange(2), target=target, logits=logits)
    assert 0 < criterion.table.bytes_per_sample - with_target <= 64
    held = sum(column.nbytes for _, column in criterion.table.columns()) / 4
    assert held == criterion.table.bytes_per_sample


def test_bytes_of_a_regression_target() -> None:
    paper = DiscrimLoss(4, epochs=10).table.bytes_per_sample
    criterion = DiscrimLoss(4, epochs=10, task="regression")
    assert criterion.table.bytes_per_sample - paper == 4
    target, outputs = torch.tensor([0.5, 1.5]), torch.zeros(2, requires_grad=True)
    criterion((outputs - target) ** 2, torch.arange(2), target=target, predictions=outputs)
    assert 0 < criterion.table.bytes_per_sample - paper <= 4 + 64


def test_the_roles_of_a_regression_follow_from_the_index() -> None:
    samples = 4_000
    criterion = DiscrimLoss(samples, epochs=20, task="regression")
    assert criterion.labels is not None
    assert (criterion.labels.roles(criterion.table) == UNDECIDED).all()
    losses = torch.ones(samples // 2, requires_grad=True)
    index = torch.arange(0, samples, 2)
    criterion(losses, index, target=torch.rand(samples // 2)).backward()
    roles = criterion.labels.roles(criterion.table)
    assert (roles[1::2] == UNDECIDED).all()
    assert 0.05 < float((roles[::2] == HELD_OUT).float().mean()) < 0.15
    assert losses.grad is not None
    assert torch.equal(losses.grad == 0, roles[::2] == HELD_OUT)


# Rare classes.


def test_a_rare_class_is_never_held_out_completely() -> None:
    samples = 4_000
    target = torch.arange(samples) % 3
    target[target == 2] = 0
    target[::500] = 2  # eight samples
    criterion = DiscrimLoss(samples, epochs=20, num_classes=3)
    for epoch in (1, 2):
        criterion.set_epoch(epoch)
        order = torch.randperm(samples, generator=torch.Generator().manual_seed(epoch))
        for index in order.split(50):
            criterion(torch.ones(len(index)), index, target=target[index])
    roles = criterion.table.role
    assert not (roles[target == 2] == HELD_OUT).any()
    for common in (0, 1):
        fraction = float((roles[target == common] == HELD_OUT).float().mean())
        assert 0.05 < fraction < 0.15
    assert not (roles == UNDECIDED).any()


# Rows in any order, and several of one sample.


@every_form
@pytest.mark.parametrize("story", ["noisy", "memorised"])
def test_the_order_of_the_rows_does_not_matter(form: str, story: str) -> None:
    usual, shuffled = (make_criterion(form, reduction="none") for _ in range(2))
    batches = LabelledBatches(form, STORIES[story])
    generator = torch.Generator().manual_seed(0)
    for epoch in range(1, EPOCHS + 1):
        for criterion in (usual, shuffled):
            criterion.set_epoch(epoch)
        for index in batches.order(epoch):
            index = torch.cat([index, index[5:15]])
            outputs = batches.outputs(index, epoch).detach()
            outputs[-5:] += 1.0 if batches.is_regression else torch.arange(CLASSES) / CLASSES
            order = torch.randperm(len(index), generator=generator)
            rows = usual(*_call(batches, outputs, index)[0], **_call(batches, outputs, index)[1])
            positional, given = _call(batches, outputs[order], index[order])
            torch.testing.assert_close(shuffled(*positional, **given), rows[order])
        assert_same_state(shuffled, usual)


def _call(
    batches: LabelledBatches, outputs: Tensor, index: Tensor
) -> tuple[tuple[Tensor, Tensor], dict[str, Any]]:
    outputs = outputs.clone().requires_grad_()
    return (batches.losses(outputs, index), index), batches.arguments(outputs, index)


def test_equal_losses_with_different_logits_in_any_order() -> None:
    logits = torch.tensor([[3.0, 1.0, 0.0, 0.0], [3.0, 0.0, 1.0, 0.0]])
    states = []
    for order in ([0, 1], [1, 0]):
        criterion = make_criterion("logits")
        criterion(torch.ones(2), torch.zeros(2).long(), torch.zeros(2).long(), logits[order])
        states.append(criterion)
    assert_same_state(*states)


# Losses that are not finite.


@every_form
@pytest.mark.parametrize("broken", [math.nan, -math.nan, math.inf])
@pytest.mark.parametrize("story", ["noisy", "memorised"])
def test_broken_rows_leave_no_trace_in_any_phase(form: str, broken: float, story: str) -> None:
    usual, hurt = (make_criterion(form, reduction="none") for _ in range(2))
    batches = LabelledBatches(form, STORIES[story])
    for epoch in range(1, EPOCHS + 1):
        for criterion in (usual, hurt):
            criterion.set_epoch(epoch)
        for index in batches.order(epoch)[::3]:
            outputs = batches.outputs(index, epoch)
            losses = batches.losses(outputs, index)
            rows = usual(losses, index, **batches.arguments(outputs, index))
            # The first sample again, and one that is visited here only.
            more = torch.cat([index, index[:1], torch.tensor([7])])
            again = batches.outputs(more, epoch).detach()
            again[-2:] = broken
            again.requires_grad_()
            hurt_losses = torch.cat([losses.detach(), torch.full((2,), broken)])
            found = hurt(hurt_losses, more, **batches.arguments(again, more))
            if 7 in index:
                continue
            assert not found[-2:].isfinite().any()
            torch.testing.assert_close(found[:-2], rows, rtol=1e-4, atol=1e-4)
        assert_same_state(hurt, usual)


@every_form
def test_a_batch_of_broken_losses_moves_nothing(form: str) -> None:
    criterion = begun(form)
    before = state_of(criterion)
    losses, index, given = good_batch(form)
    assert not criterion(losses * torch.nan, index, **given).isfinite()
    assert_same_state(criterion, before)


# Precision.


@every_form
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("story", ["noisy", "memorised"])
def test_any_precision_of_losses_and_outputs(form: str, dtype: torch.dtype, story: str) -> None:
    full, other = make_criterion(form), make_criterion(form)
    batches = LabelledBatches(form, STORIES[story])
    dtypes = {name: value.dtype for name, value in begun(form).state_dict().items()}
    for epoch in range(1, EPOCHS + 1):
        for criterion in (full, other):
            criterion.set_epoch(epoch)
        for index in batches.order(epoch):
            outputs = batches.outputs(index, epoch).detach().to(dtype)
            values, gradients = [], []
            for criterion, precision in ((full, torch.float32), (other, dtype)):
                own = outputs.to(precision).requires_grad_()
                losses = batches.losses(own.float(), index).to(precision)
                value = criterion(losses, index, **batches.arguments(own, index))
                gradients.append(torch.autograd.grad(value, own)[0])
                values.append(value.detach())
            assert values[1].dtype == torch.promote_types(dtype, torch.float32)
            assert gradients[1].dtype == dtype
            assert values[1].isfinite()
            if phase_of(full) == phase_of(other):
                assert float(values[1]) == pytest.approx(float(values[0]), rel=0.05, abs=0.05)
    after = {name: value.dtype for name, value in other.state_dict().items()}
    assert after == dtypes


@every_form
@pytest.mark.parametrize("cast", [nn.Module.half, nn.Module.bfloat16, nn.Module.double])
def test_casting_a_model_leaves_the_state_as_it_is(
    form: str, cast: Callable[[nn.Module], nn.Module]
) -> None:
    criterion, untouched = begun(form), begun(form)
    model = nn.Sequential(nn.Linear(2, 2), criterion)
    cast(model)
    assert_same_state(criterion, untouched)
    batches = LabelledBatches(form, MEMORISED)
    for each in (criterion, untouched):
        batches.train(each, 3, EPOCHS)
    assert_same_state(criterion, untouched)
    assert phase_of(criterion) == MIXING


@every_form
def test_autocast_does_not_change_a_step(form: str) -> None:
    inside, outside = make_criterion(form), make_criterion(form)
    batches = LabelledBatches(form, MEMORISED)
    expected = batches.train(outside)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = batches.train(inside)
    assert all(torch.equal(a[1], b[1]) for a, b in zip(found, expected, strict=True))
    assert_same_state(inside, outside)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_classes_of_any_integer_dtype(dtype: torch.dtype) -> None:
    usual, other = make_criterion("logits"), make_criterion("logits")
    batches = LabelledBatches("logits", MEMORISED)
    expected = batches.train(usual)
    arguments = batches.arguments
    batches.arguments = lambda outputs, index: {  # type: ignore[method-assign]
        "target": arguments(outputs, index)["target"].to(dtype),
        "logits": outputs,
    }
    for epoch in range(1, EPOCHS + 1):
        other.set_epoch(epoch)
        for index in batches.order(epoch):
            batches.step(other, index, epoch)
    assert expected[-1][0] == MIXING
    assert_same_state(other, usual)


# Reductions, accumulation, evaluation, copies.


@every_form
@pytest.mark.parametrize("story", ["clean", "memorised"])
def test_reductions_agree(form: str, story: str) -> None:
    criteria = {name: make_criterion(form, reduction=name) for name in ("none", "sum", "mean")}
    batches = LabelledBatches(form, STORIES[story])
    for epoch in range(1, EPOCHS + 1):
        for criterion in criteria.values():
            criterion.set_epoch(epoch)
        for index in batches.order(epoch):
            found = {name: batches.step(each, index, epoch) for name, each in criteria.items()}
            rows, gradient = found["none"]
            assert rows.shape == index.shape
            torch.testing.assert_close(found["sum"][0], rows.sum())
            torch.testing.assert_close(found["mean"][0], rows.mean())
            torch.testing.assert_close(found["sum"][1], gradient)
            torch.testing.assert_close(found["mean"][1], gradient / len(index))
    assert_same_state(criteria["sum"], criteria["none"])
    assert_same_state(criteria["mean"], criteria["none"])


@every_form
def test_accumulated_gradients_are_those_of_the_parts(form: str) -> None:
    batches, index = LabelledBatches(form, MEMORISED), torch.arange(40)
    criterion = begun(form)
    parts = copy.deepcopy(criterion)
    outputs = batches.outputs(index, 3).detach().requires_grad_()
    expected = []
    for rows in torch.arange(40).split(10):
        own = outputs.detach()[rows].clone().requires_grad_()
        value = parts(batches.losses(own, rows), rows, **batches.arguments(own, rows))
        expected.append(torch.autograd.grad(value / 4, own)[0])
        part = outputs[rows]
        value = criterion(batches.losses(part, rows), rows, **batches.arguments(part, rows))
        (value / 4).backward()
    torch.testing.assert_close(outputs.grad, torch.cat(expected))
    assert_same_state(criterion, parts)


@every_form
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_evaluation_is_the_plain_loss_and_moves_nothing(form: str, reduction: str) -> None:
    criterion = begun(form, reduction=reduction).eval()
    before = state_of(criterion)
    losses, index, given = good_batch(form)
    expected = losses if reduction == "none" else losses.mean()
    assert torch.equal(criterion(losses, index, **given), expected)
    assert torch.equal(criterion(losses, index), expected)
    assert_same_state(criterion, before)


@every_form
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_an_empty_batch_moves_nothing(form: str, reduction: str) -> None:
    for criterion in (make_criterion(form, reduction=reduction), begun(form, reduction=reduction)):
        before = state_of(criterion)
        losses, index, given = good_batch(form, rows=0)
        assert criterion(losses, index, **given).sum() == 0.0
        assert_same_state(criterion, before)


@every_form
def test_names_are_as_good_as_positions(form: str) -> None:
    by_name = make_criterion(form, ids=SampleIds(range(SAMPLES)))
    by_index = make_criterion(form)
    batches = LabelledBatches(form, MEMORISED)
    for criterion in (by_name, by_index):
        batches.train(criterion)
    found = {name: value for name, value in state_of(by_name).items() if ".ids." not in name}
    torch.testing.assert_close(found, state_of(by_index), rtol=0, atol=0, equal_nan=True)
    assert phase_of(by_name) == MIXING
