"""Batches that are broken, misaddressed, empty or tiny."""

import math
from typing import Any

import pytest
import torch
from state_comparison import assert_same_state, state_of
from torch import Tensor

from discrimloss import DiscrimLoss, SampleIds

both_variants = pytest.mark.parametrize("variant", ["paper", "released"])
every_threshold = pytest.mark.parametrize(
    "threshold", ["bounded_split", "split", "ema", "mean", 0.7]
)


def make_criterion(**changes: Any) -> DiscrimLoss:
    """A criterion that has already seen two of its four samples."""
    settings: dict[str, Any] = {"num_samples": 4, "epochs": 10, "reduction": "none"}
    criterion = DiscrimLoss(**(settings | changes))
    criterion(torch.tensor([1.0, 3.0]), torch.tensor([0, 1]))
    return criterion


# Losses that are not finite.


@both_variants
@every_threshold
@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_a_broken_loss_shows_in_the_value_and_leaves_no_trace(
    variant: str, threshold: Any, broken: float
) -> None:
    criterion = make_criterion(variant=variant, threshold=threshold)
    without = make_criterion(variant=variant, threshold=threshold)
    values = criterion(torch.tensor([2.0, broken, 5.0]), torch.tensor([0, 1, 2]))
    expected = without(torch.tensor([2.0, 5.0]), torch.tensor([0, 2]))

    assert not math.isfinite(values[1])
    assert torch.equal(values[[0, 2]], expected)
    assert_same_state(criterion, without)


@both_variants
@every_threshold
def test_a_batch_of_broken_losses_moves_nothing(variant: str, threshold: Any) -> None:
    criterion = make_criterion(variant=variant, threshold=threshold)
    before = state_of(criterion)
    values = criterion(torch.tensor([math.nan, math.inf, -math.inf]), torch.tensor([0, 1, 3]))
    assert not values.isfinite().any()
    assert_same_state(criterion, before)


@both_variants
@every_threshold
def test_a_run_may_begin_with_a_broken_batch(variant: str, threshold: Any) -> None:
    settings = {"epochs": 10, "variant": variant, "threshold": threshold}
    broken_first, untouched = DiscrimLoss(4, **settings), DiscrimLoss(4, **settings)
    broken_first(torch.tensor([math.nan, math.inf]), torch.tensor([0, 1]))
    for criterion in (broken_first, untouched):
        criterion(torch.tensor([2.0, 5.0]), torch.tensor([0, 2]))
    assert_same_state(broken_first, untouched)


@both_variants
@every_threshold
@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_sample_with_a_finite_duplicate_is_visited_by_that_one(
    variant: str, threshold: Any, broken: float
) -> None:
    criterion = make_criterion(variant=variant, threshold=threshold)
    without = make_criterion(variant=variant, threshold=threshold)
    values = criterion(torch.tensor([broken, 2.0, 5.0]), torch.tensor([0, 0, 1]))
    expected = without(torch.tensor([2.0, 5.0]), torch.tensor([0, 1]))

    assert not math.isfinite(values[0])
    assert torch.equal(values[1:], expected)
    assert_same_state(criterion, without)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_broken_loss_reaches_the_reduced_value(reduction: str) -> None:
    criterion = make_criterion(reduction=reduction)
    value = criterion(torch.tensor([2.0, math.inf]), torch.tensor([0, 1]))
    assert not math.isfinite(value)


def test_a_gradient_scaler_sees_an_overflow() -> None:
    criterion = make_criterion(reduction="mean")
    scaler = torch.amp.GradScaler("cpu")
    parameter = torch.nn.Parameter(torch.tensor([1.0, 100.0]))
    optimizer = torch.optim.SGD([parameter], lr=0.1)

    losses = parameter.exp()  # e^100 is infinite in float32
    scaler.scale(criterion(losses, torch.tensor([0, 1]))).backward()
    scaler.step(optimizer)
    assert parameter.tolist() == [1.0, 100.0]


# A wrong index.


@pytest.mark.parametrize(
    ("index", "error", "names"),
    [
        (torch.tensor([0, 4, 1]), IndexError, ["index 4", "0 to 3"]),
        (torch.tensor([0, 1, 10**12]), IndexError, ["index 1000000000000", "0 to 3"]),
        (torch.tensor([-1, 1, 2]), IndexError, ["index -1", "0 to 3"]),
        (torch.tensor([0.0, 1.0, 2.0]), TypeError, ["torch.float32"]),
        (torch.tensor([True, False, True]), TypeError, ["torch.bool"]),
        (torch.tensor([0, 1]), ValueError, ["index", "(2,)", "(3,)"]),
        (torch.tensor([[0], [1], [2]]), ValueError, ["index", "(3, 1)", "(3,)"]),
        (torch.tensor(0), ValueError, ["index", "()", "(3,)"]),
    ],
    ids=["high", "very high", "negative", "float", "bool", "short", "column", "scalar"],
)
@both_variants
def test_a_wrong_index_is_named_and_nothing_moves(
    variant: str, index: Tensor, error: type[Exception], names: list[str]
) -> None:
    criterion = make_criterion(variant=variant)
    before = state_of(criterion)
    with pytest.raises(error) as raised:
        criterion(torch.tensor([1.0, 2.0, 3.0]), index)
    for name in names:
        assert name in str(raised.value)
    assert_same_state(criterion, before)


@pytest.mark.parametrize(
    ("losses", "index", "names"),
    [
        (torch.ones(3, 2), torch.tensor([0, 1, 2]), ["losses", "(3, 2)"]),
        (torch.ones(3, 1), torch.tensor([[0], [1], [2]]), ["losses", "(3, 1)"]),
        (torch.tensor(1.5), torch.tensor([0, 1, 2]), ["losses", "()", 'reduction="none"']),
        (torch.tensor(1.5), torch.tensor(0), ["losses", "()", 'reduction="none"']),
    ],
    ids=["two losses per sample", "column", "reduced", "reduced, one index"],
)
def test_losses_of_the_wrong_shape_are_named_and_nothing_moves(
    losses: Tensor, index: Tensor, names: list[str]
) -> None:
    criterion = make_criterion()
    before = state_of(criterion)
    with pytest.raises(ValueError, match="losses") as raised:
        criterion(losses, index)
    for name in names:
        assert name in str(raised.value)
    assert_same_state(criterion, before)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_any_integer_dtype_is_an_index(dtype: torch.dtype) -> None:
    criterion, usual = make_criterion(), make_criterion()
    losses = torch.tensor([1.0, 5.0])
    values = criterion(losses, torch.tensor([3, 1], dtype=dtype))
    assert torch.equal(values, usual(losses, torch.tensor([3, 1])))
    assert_same_state(criterion, usual)


# Very small batches.


@both_variants
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_an_empty_batch_is_worth_nothing_and_moves_nothing(variant: str, reduction: str) -> None:
    criterion = make_criterion(variant=variant, reduction=reduction)
    before = state_of(criterion)
    losses = torch.tensor([], requires_grad=True)
    value = criterion(losses, torch.tensor([], dtype=torch.int64))
    value.sum().backward()

    assert value.detach().sum() == 0.0
    assert value.shape == ((0,) if reduction == "none" else ())
    assert losses.grad is not None
    assert losses.grad.shape == (0,)
    assert_same_state(criterion, before)


@both_variants
@every_threshold
def test_a_batch_of_one(variant: str, threshold: Any) -> None:
    criterion = make_criterion(variant=variant, threshold=threshold)
    together = make_criterion(variant=variant, threshold=threshold)
    value = criterion(torch.tensor([5.0]), torch.tensor([2]))
    same = together(torch.tensor([5.0, 5.0]), torch.tensor([2, 2]))
    assert value.shape == (1,)
    assert torch.equal(value.expand(2), same)
    assert_same_state(criterion, together)
    assert float(criterion.average_losses[2]) == pytest.approx(5.0)


def test_the_check_on_an_accelerator_asks_the_device_and_not_the_host() -> None:
    from torch._subclasses import FakeTensorMode

    from discrimloss.state.batch_checks import checked_index

    # A fake tensor has no values: anything that waited for one would raise.
    with FakeTensorMode():
        index = torch.zeros(8, dtype=torch.int64, device="cuda")
        assert checked_index(index, 4) is index


@pytest.mark.parametrize("losses", [[1.0, 2.0], torch.ones(2, dtype=torch.complex64), None])
def test_losses_that_are_not_real_tensors_are_an_error(losses: object) -> None:
    criterion = DiscrimLoss(4, epochs=3)
    with pytest.raises(TypeError, match="losses must be a tensor of real numbers"):
        criterion(losses, torch.tensor([0, 1]))


@pytest.mark.parametrize("size", ["x", None, 7.5, 2**31])
def test_a_size_that_is_no_size_is_an_error(size: object) -> None:
    with pytest.raises(ValueError, match="num_samples"):
        DiscrimLoss(4, epochs=3).resize(size)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "target"),
    [
        (["c", "d"], [0, 7]),
        (["c", "a"], [0, 2]),
        (["c", "d"], [0]),
        (["c"], [0, 1]),
        (["c", 1.5], [0, 1]),
    ],
    ids=["no class", "changed target", "short target", "few names", "no name"],
)
def test_a_refused_batch_leaves_no_names(names: list[str], target: list[int]) -> None:
    criterion = DiscrimLoss(ids=SampleIds(["a", "b"]), epochs=10, num_classes=3)
    criterion(torch.ones(2), ["a", "b"], target=torch.tensor([0, 1]))
    before = {name: value.clone() for name, value in criterion.state_dict().items()}
    with pytest.raises((TypeError, ValueError, IndexError)):
        criterion(torch.ones(2), names, target=torch.tensor(target))
    assert criterion.ids is not None
    assert criterion.ids.names() == ["a", "b"]
    for name, value in criterion.state_dict().items():
        torch.testing.assert_close(value, before[name], equal_nan=True)
    criterion(torch.ones(2), ["d", "a"], target=torch.tensor([2, 0]))
    assert criterion.ids.names() == ["a", "b", "d"]
    assert criterion.table.visits.tolist() == [2, 1, 1]
