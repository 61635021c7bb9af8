"""What a training step gives back and what it leaves behind."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from state_comparison import assert_same_state, state_of
from torch import Tensor

from discrimloss import DiscrimLoss

both_variants = pytest.mark.parametrize("variant", ["paper", "released"])


def make_criterion(num_samples: int = 6, **changes: Any) -> DiscrimLoss:
    settings: dict[str, Any] = {"epochs": 10, "threshold": "ema", "weight_range": (0.1, 20.0)}
    return DiscrimLoss(num_samples, **(settings | changes))


def step(criterion: DiscrimLoss, losses: list[float], index: list[int]) -> tuple[Tensor, Tensor]:
    """What the criterion returns, and the gradient that reaches each task loss."""
    inner = torch.tensor(losses, requires_grad=True)
    returned = criterion(inner, torch.tensor(index))
    returned.sum().backward()
    assert inner.grad is not None
    return returned.detach(), inner.grad


# The gradient.


def test_gradient_is_suppression_over_delta() -> None:
    criterion = make_criterion(reduction="none", suppressed_epochs=3)
    for epoch, suppression in [(1, 1 / 3), (2, 2 / 3), (3, 1.0), (4, 1.0)]:
        criterion.set_epoch(epoch)
        delta = criterion.sample_weights
        _, gradient = step(criterion, [0.2, 3.0, 7.0, -1.0], [0, 1, 2, 3])
        torch.testing.assert_close(gradient, suppression / delta[:4], rtol=1e-6, atol=0)
    assert len(set(criterion.sample_weights[:4].tolist())) >= 3  # the check above saw real weights


def test_gradient_is_exactly_one_before_anything_is_learned() -> None:
    criterion = make_criterion(reduction="none", suppressed_epochs=0)
    _, gradient = step(criterion, [0.2, 3.0, 7.0], [0, 1, 2])
    assert gradient.tolist() == [1.0, 1.0, 1.0]


def test_released_samples_that_come_later_enter_at_the_lowest_weight() -> None:
    criterion = make_criterion(
        variant="released", weight_range=(1.5, 20.0), suppressed_epochs=0, reduction="none"
    )
    # The first batch enters at 1; the others are clamped before they are in one.
    _, gradient = step(criterion, [0.2, 3.0], [0, 1])
    assert gradient.tolist() == [1.0, 1.0]
    _, gradient = step(criterion, [0.2, 3.0], [2, 3])
    assert gradient.tolist() == pytest.approx([1 / 1.5, 1 / 1.5])


def test_gradient_reaches_the_model_through_the_task_loss() -> None:
    criterion = make_criterion(reduction="sum", suppressed_epochs=0)
    step(criterion, [0.2, 9.0], [0, 1])
    delta = criterion.sample_weights[:2]

    parameter = torch.tensor([1.0, 2.0], requires_grad=True)
    criterion(3.0 * parameter.square(), torch.tensor([0, 1])).backward()
    assert parameter.grad is not None
    torch.testing.assert_close(parameter.grad, 6.0 * parameter.detach() / delta)


# Reduction.


@both_variants
def test_mean_and_sum_are_the_mean_and_sum_of_none(variant: str) -> None:
    criteria = {
        reduction: make_criterion(reduction=reduction, variant=variant, regularization=0.1)
        for reduction in ("none", "mean", "sum")
    }
    for epoch in (1, 2, 3):
        returned, gradient = {}, {}
        for reduction, criterion in criteria.items():
            criterion.set_epoch(epoch)
            batch = [0.5 * epoch, 3.0, 0.1, 8.0], [0, 1, 1, 5]
            returned[reduction], gradient[reduction] = step(criterion, *batch)
        assert returned["none"].shape == (4,)
        torch.testing.assert_close(returned["mean"], returned["none"].mean())
        torch.testing.assert_close(returned["sum"], returned["none"].sum())
        torch.testing.assert_close(gradient["mean"], gradient["none"] / 4)
        torch.testing.assert_close(gradient["sum"], gradient["none"])
        assert_same_state(criteria["mean"], criteria["none"])
        assert_same_state(criteria["sum"], criteria["none"])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_weight_step_does_not_depend_on_the_batch_size(reduction: str) -> None:
    # A constant threshold and an absolute step, so that the batches have nothing else in common.
    settings = {"threshold": 1.0, "weight_lr": 0.5, "reduction": reduction}
    together, one_by_one = make_criterion(**settings), make_criterion(**settings)
    losses, index = [0.2, 3.0, 7.0, -1.0], [0, 1, 2, 3]
    for epoch in (1, 2, 3):
        together.set_epoch(epoch)
        one_by_one.set_epoch(epoch)
        step(together, losses, index)
        for loss, sample in zip(losses, index, strict=True):
            step(one_by_one, [loss], [sample])
    assert together.sample_weights.tolist() == one_by_one.sample_weights.tolist()
    assert together.sample_weights.max() > 1.0 > together.sample_weights.min()


# Eval mode.


@both_variants
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_eval_mode_returns_the_task_loss_and_moves_nothing(variant: str, reduction: str) -> None:
    criterion = make_criterion(reduction=reduction, variant=variant)
    step(criterion, [0.2, 3.0, 7.0], [0, 1, 2])
    before = state_of(criterion)

    losses = torch.tensor([0.5, 1.0, 9.0], requires_grad=True)
    returned = criterion.eval()(losses, torch.tensor([0, 1, 1]))

    assert_same_state(criterion, before)
    expected = {"mean": losses.mean(), "sum": losses.sum(), "none": losses}[reduction]
    assert torch.equal(returned, expected)
    if reduction == "none":
        assert returned is losses


# Order and duplicates.


@both_variants
@pytest.mark.parametrize("threshold", ["bounded_split", "split", "ema", "mean", 0.7])
@given(data=st.data())
def test_the_order_of_rows_changes_nothing_to_the_last_bit(
    variant: str, threshold: Any, data: st.DataObject
) -> None:
    # 0.1, 0.2, 0.3 and their kind: sums of three depend on the order of summation.
    loss = st.sampled_from([0.1, 0.2, 0.3, 0.7, 1e-3, 1e4, -0.6])
    sample = st.sampled_from([0, 0, 0, 1, 2, 3])
    straight = make_criterion(variant=variant, threshold=threshold, reduction="none")
    shuffled = make_criterion(variant=variant, threshold=threshold, reduction="none")
    for epoch in (1, 2, 3):
        rows = data.draw(st.lists(st.tuples(loss, sample), min_size=1, max_size=12))
        order = data.draw(st.permutations(range(len(rows))))
        results = []
        for criterion, positions in ((straight, range(len(rows))), (shuffled, order)):
            criterion.set_epoch(epoch)
            batch = [rows[i] for i in positions]
            results.append(step(criterion, [row[0] for row in batch], [row[1] for row in batch]))
        (values, gradients), (shuffled_values, shuffled_gradients) = results
        assert torch.equal(shuffled_values, values[list(order)])
        assert torch.equal(shuffled_gradients, gradients[list(order)])
        assert_same_state(shuffled, straight)


@both_variants
@pytest.mark.parametrize("threshold", ["bounded_split", "split", "ema", "mean", 0.7])
def test_duplicates_are_one_visit_with_their_mean(variant: str, threshold: Any) -> None:
    repeated = make_criterion(variant=variant, threshold=threshold, reduction="none")
    merged = make_criterion(variant=variant, threshold=threshold, reduction="none")
    for epoch in (1, 2):
        repeated.set_epoch(epoch)
        merged.set_epoch(epoch)
        values, gradients = step(repeated, [1.0, 5.0, 0.5, 3.0], [2, 2, 4, 2])
        merged_values, merged_gradients = step(merged, [3.0, 0.5], [2, 4])
        assert torch.equal(values, merged_values[[0, 0, 1, 0]])
        assert torch.equal(gradients, merged_gradients[[0, 0, 1, 0]])
        assert_same_state(repeated, merged)


# The base threshold.


def test_ema_threshold_starts_at_the_first_batch_mean() -> None:
    criterion = make_criterion(threshold="ema")
    step(criterion, [2.0, 4.0], [0, 1])
    assert float(criterion.k1) == pytest.approx(3.0)
    step(criterion, [1.0], [2])
    assert float(criterion.k1) == pytest.approx(0.9 * 3.0 + 0.1 * 1.0)


def test_mean_threshold_weighs_every_visit_alike() -> None:
    criterion = make_criterion(threshold="mean")
    step(criterion, [2.0, 4.0, 6.0], [0, 1, 2])
    step(criterion, [0.0], [3])
    criterion.set_epoch(2)
    step(criterion, [8.0], [3])
    assert float(criterion.k1) == pytest.approx((2 + 4 + 6 + 0 + 8) / 5)


@pytest.mark.parametrize("constant", [0.7, -0.7, 0.0, 2])
def test_constant_threshold_does_not_move(constant: float) -> None:
    criterion = make_criterion(threshold=constant)
    for epoch in (1, 2):
        criterion.set_epoch(epoch)
        step(criterion, [5.0, 9.0], [0, 1])
    assert float(criterion.k1) == pytest.approx(constant)


def test_split_threshold_is_an_ema_first_and_then_parts_the_groups() -> None:
    criterion = make_criterion(threshold="split")
    step(criterion, [0.1, 5.0, 0.3], [0, 1, 2])
    step(criterion, [0.2, 6.0], [3, 4])
    in_first_epoch = 0.9 * (5.4 / 3) + 0.1 * 3.1
    assert float(criterion.k1) == pytest.approx(in_first_epoch)

    criterion.set_epoch(2)
    parted = float(criterion.k1)
    assert 0.3 < parted < 5.0
    step(criterion, [100.0], [5])
    assert float(criterion.k1) == parted  # once per epoch, whatever the batches bring
    criterion.set_epoch(3)
    assert 6.0 < float(criterion.k1) < 100.0


@pytest.mark.parametrize("rows_per_chunk", [1, 4, 100])
def test_split_threshold_reads_every_row_of_the_table(
    rows_per_chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discrimloss.state.table.ROWS_PER_CHUNK", rows_per_chunk)
    criterion = make_criterion(num_samples=10, threshold="split")
    step(criterion, [0.1] * 4 + [0.2] * 5 + [9.0], list(range(10)))
    criterion.set_epoch(2)
    assert 0.2 < float(criterion.k1) < 9.0


def test_split_threshold_keeps_its_value_where_there_is_nothing_to_split() -> None:
    criterion = make_criterion(threshold="split")
    step(criterion, [2.0, 2.0], [0, 1])
    criterion.set_epoch(2)
    assert float(criterion.k1) == pytest.approx(2.0)


def test_k2_is_where_the_threshold_ends() -> None:
    criterion = make_criterion(
        epochs=100, threshold=-2.0, switch_gain=0.25, switch_rate=5.0, switch_epoch=4
    )
    criterion.set_epoch(1)
    assert criterion.k_dyn == pytest.approx(-2.0)
    criterion.set_epoch(100)
    assert criterion.k_dyn == pytest.approx(criterion.k2) == pytest.approx(-1.0)


# Epochs.


@pytest.mark.parametrize("epoch", [0, -1, 1.5, True, "2", float("nan"), None])
def test_an_epoch_that_cannot_be_is_an_error_and_moves_nothing(epoch: Any) -> None:
    criterion = make_criterion(threshold="split")
    criterion.set_epoch(3)
    step(criterion, [1.0, 5.0], [0, 1])
    before = state_of(criterion)
    with pytest.raises((ValueError, TypeError), match="epoch"):
        criterion.set_epoch(epoch)
    assert_same_state(criterion, before)
    assert criterion.epoch == 3


def test_saying_the_same_epoch_twice_changes_nothing() -> None:
    criterion = make_criterion(threshold="split")
    criterion.set_epoch(1)
    step(criterion, [1.0, 5.0], [0, 1])
    before = state_of(criterion)
    criterion.set_epoch(1)
    assert_same_state(criterion, before)


# What was never visited, and what is never left.


def test_an_unvisited_sample_has_neutral_weight_and_no_average() -> None:
    criterion = make_criterion(num_samples=3)
    step(criterion, [4.0], [1])
    assert criterion.sample_weights[[0, 2]].tolist() == [1.0, 1.0]
    assert criterion.average_losses.isnan().tolist() == [True, False, True]


def assert_weights_in_range(criterion: DiscrimLoss, lowest: float, highest: float) -> None:
    weights = criterion.sample_weights
    assert bool((weights > 0).all())
    assert bool(((weights >= lowest * (1 - 1e-6)) & (weights <= highest * (1 + 1e-6))).all())


@both_variants
@pytest.mark.parametrize("weight_range", [(0.05, 20.0), (1.0, 3.0)])
@given(
    batches=st.lists(
        st.lists(st.sampled_from([1e30, -1e30, 0.0, 1.0, 1e-30]), min_size=4, max_size=4),
        min_size=1,
        max_size=6,
    )
)
def test_weights_stay_in_range_under_extreme_losses(
    variant: str, weight_range: tuple[float, float], batches: list[list[float]]
) -> None:
    criterion = make_criterion(
        num_samples=3, threshold="split", variant=variant, weight_range=weight_range
    )
    for epoch, losses in enumerate(batches, start=1):
        criterion.set_epoch(epoch)
        step(criterion, losses, [0, 1, 2, 2])
        assert_weights_in_range(criterion, *weight_range)


@pytest.mark.parametrize("history_decay", [0.0, 0.9])
@pytest.mark.parametrize(
    "losses", [[3e38] * 4, [3e38, -3e38, 3e38, 3e38], [1e-40] * 4, [1e-40, 2e-40, 0.0, 0.0]]
)
def test_weights_stay_in_range_at_the_ends_of_float32(
    losses: list[float], history_decay: float
) -> None:
    criterion = make_criterion(num_samples=3, threshold="split", history_decay=history_decay)
    for epoch in (1, 2, 3):
        criterion.set_epoch(epoch)
        step(criterion, losses, [0, 1, 2, 2])
        assert_weights_in_range(criterion, 0.1, 20.0)
