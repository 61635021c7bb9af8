"""State in float32 at home, losses in any precision from anywhere."""

from collections.abc import Callable
from typing import Any

import labelled_batches
import pytest
import torch
from state_comparison import assert_same_state
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

from discrimloss import DiscrimLoss
from discrimloss.label_correction import CORRECTING, MIXING, PLAIN, WATCHING

LOSSES = [0.3, 2.0, 7.0, 0.1]
INDEX = [0, 3, 4, 1]

low_precision = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])


def train(criterion: DiscrimLoss, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Three epochs of one batch; the last value and the last gradient."""
    for epoch in (1, 2, 3):
        criterion.set_epoch(epoch)
        losses = torch.tensor(LOSSES, dtype=dtype, requires_grad=True)
        value = criterion(losses, torch.tensor(INDEX))
        value.sum().backward()
    assert losses.grad is not None
    return value.detach(), losses.grad


def make_criterion(**changes: Any) -> DiscrimLoss:
    return DiscrimLoss(5, epochs=6, **({"reduction": "none"} | changes))


def state_of(module: nn.Module) -> list[torch.Tensor]:
    return [*module.buffers(), *module.state_dict().values()]


def float_dtypes_of_state(module: nn.Module) -> set[torch.dtype]:
    """Without the latest losses, which are always stored in half a float32."""
    latest = {id(part.latest_loss) for part in module.modules() if hasattr(part, "latest_loss")}
    tensors = [tensor for tensor in state_of(module) if id(tensor) not in latest]
    return {tensor.dtype for tensor in tensors if tensor.is_floating_point()}


@low_precision
@pytest.mark.parametrize("variant", ["paper", "released"])
def test_low_precision_losses_keep_the_state_and_the_value_in_float32(
    dtype: torch.dtype, variant: str
) -> None:
    low, full = make_criterion(variant=variant), make_criterion(variant=variant)
    value, gradient = train(low, dtype)
    expected_value, expected_gradient = train(full, torch.float32)

    assert value.dtype == torch.float32
    assert gradient.dtype == dtype
    assert float_dtypes_of_state(low) == {torch.float32}
    rounding = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(value, expected_value, rtol=rounding, atol=8 * rounding)
    torch.testing.assert_close(gradient.float(), expected_gradient, rtol=rounding, atol=rounding)
    torch.testing.assert_close(low.sample_weights, full.sample_weights, rtol=rounding, atol=0)


@low_precision
def test_a_history_moves_by_steps_that_low_precision_could_not_hold(dtype: torch.dtype) -> None:
    criterion = make_criterion(history_decay=0.999, threshold=1.0)
    for loss in [1.0] * 50 + [1.5] * 50:
        criterion(torch.tensor([loss], dtype=dtype), torch.tensor([0]))
    mass = 1 - 0.999**100
    expected = (0.999**50 * (1 - 0.999**50) * 1.0 + (1 - 0.999**50) * 1.5) / mass
    assert float(criterion.average_losses[0]) == pytest.approx(expected, rel=1e-4)


def test_float64_losses_give_float64_values_and_gradients() -> None:
    double, single = make_criterion(), make_criterion()
    value, gradient = train(double, torch.float64)
    expected_value, expected_gradient = train(single, torch.float32)

    assert value.dtype == gradient.dtype == torch.float64
    assert float_dtypes_of_state(double) == {torch.float32}
    torch.testing.assert_close(value.float(), expected_value)
    torch.testing.assert_close(gradient.float(), expected_gradient)


@pytest.mark.parametrize("cast", [nn.Module.half, nn.Module.bfloat16, nn.Module.double])
@pytest.mark.parametrize("inside_a_model", [False, True])
@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.filterwarnings("ignore:epoch 1 begins after epoch 3")
def test_casting_a_module_leaves_the_state_in_float32(
    cast: Callable[[nn.Module], nn.Module], inside_a_model: bool, variant: str
) -> None:
    criterion, untouched = make_criterion(variant=variant), make_criterion(variant=variant)
    train(criterion, torch.float32)
    train(untouched, torch.float32)

    if inside_a_model:
        model = nn.Module()
        model.layer, model.criterion = nn.Linear(2, 2), criterion
        cast(model)
        assert model.layer.weight.dtype != torch.float32
    else:
        cast(criterion)
    assert float_dtypes_of_state(criterion) == {torch.float32}
    assert_same_state(criterion, untouched)

    train(criterion, torch.float32)
    train(untouched, torch.float32)
    assert_same_state(criterion, untouched)


def test_the_default_dtype_does_not_change_the_state() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        criterion = make_criterion()
        train(criterion, torch.float64)
    finally:
        torch.set_default_dtype(torch.float32)
    assert float_dtypes_of_state(criterion) == {torch.float32}


def test_autocast_does_not_change_a_step() -> None:
    inside, outside = make_criterion(), make_criterion()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value, _ = train(inside, torch.float32)
    expected, _ = train(outside, torch.float32)
    assert torch.equal(value, expected)
    assert_same_state(inside, outside)


# Another device. Fake tensors know their device and hold no values, so no GPU is needed; for the
# same reason the check of the indices, which looks at values, has to be left out.


@pytest.fixture
def without_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discrimloss.state.exchange.checked_index", lambda index, _: index)
    monkeypatch.setattr("discrimloss.visits.can_look_at", lambda values: False)


@pytest.mark.usefixtures("without_values")
@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_batch_from_another_device_visits_the_table_and_comes_back(
    variant: str, reduction: str
) -> None:
    with FakeTensorMode():
        criterion = make_criterion(variant=variant, reduction=reduction)
        value = criterion(torch.rand(3, device="cuda"), torch.arange(3, device="cuda"))
        assert value.device.type == "cuda"
        assert {tensor.device.type for tensor in state_of(criterion)} == {"cpu"}


@pytest.mark.usefixtures("without_values")
def test_a_table_elsewhere_serves_a_batch_from_the_host() -> None:
    # "meta" here and below: some of what the table and autograd do needs a real "cuda".
    with FakeTensorMode():
        criterion = make_criterion().to("meta")
        value = criterion(torch.rand(3), torch.arange(3))
        assert value.device.type == "cpu"
        assert {tensor.device.type for tensor in state_of(criterion)} == {"meta"}


@pytest.mark.usefixtures("without_values")
def test_losses_and_index_may_lie_apart() -> None:
    with FakeTensorMode():
        criterion = make_criterion()
        value = criterion(torch.rand(3, device="cuda"), torch.arange(3))
        assert value.device.type == "cuda"


@pytest.mark.usefixtures("without_values")
def test_the_gradient_arrives_on_the_device_of_the_losses() -> None:
    with FakeTensorMode():
        criterion = make_criterion()
        losses = torch.rand(3, device="meta", requires_grad=True)
        criterion(losses, torch.arange(3, device="meta")).sum().backward()
        assert losses.grad is not None
        assert losses.grad.device.type == "meta"
        assert {tensor.device.type for tensor in state_of(criterion)} == {"cpu"}


def test_moving_a_model_moves_the_state_inside() -> None:
    model = nn.Sequential(nn.Linear(2, 2), make_criterion())
    model.to("meta")
    assert {tensor.device.type for tensor in state_of(model)} == {"meta"}


# The forms that know targets and predictions. A fake tensor has no values: whatever waited for one
# would raise.


@pytest.fixture
def without_values_of_labels(monkeypatch: pytest.MonkeyPatch, without_values: None) -> None:
    def unchecked(rows: Tensor, target: Tensor, *_: object) -> tuple[Tensor, Tensor]:
        return rows, target

    monkeypatch.setattr("discrimloss.known_labels.check_labels", unchecked)


@pytest.mark.usefixtures("without_values_of_labels")
@pytest.mark.parametrize(
    ("form", "phase"),
    [(form, phase) for form in labelled_batches.FORMS for phase in (WATCHING, MIXING, PLAIN)]
    + [("logits", CORRECTING)],
)
@pytest.mark.parametrize(("table", "batch"), [("cpu", "cuda"), ("meta", "cpu"), ("meta", "meta")])
def test_no_step_with_targets_waits_for_a_device(
    form: str, phase: int, table: str, batch: str
) -> None:
    criterion = labelled_batches.make_criterion(form)
    assert criterion.labels is not None
    criterion.labels.correction._set_phase(phase)
    criterion.labels.correction.corrects_labels = True
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        criterion.table._apply(mode.from_tensor)
        for module in (criterion.tracker, criterion.labels):
            module._apply(mode.from_tensor)
        criterion.to(table)
        is_regression = "regression" in form
        shape = (8,) if is_regression else (8, labelled_batches.CLASSES)
        outputs = torch.rand(shape, device=batch, requires_grad=batch != "cuda")
        losses = outputs if is_regression else outputs.sum(1)
        given = {"target": torch.rand(8, device=batch)}
        if not is_regression:
            given["target"] = torch.zeros(8, dtype=torch.int64, device=batch)
        if form == "logits":
            given["logits"] = outputs
        elif form == "regression with predictions":
            given["predictions"] = outputs
        value = criterion(losses, torch.arange(8, device=batch), **given)
        assert value.device.type == batch


def test_the_check_of_targets_on_an_accelerator_does_not_wait() -> None:
    from discrimloss.state.labels import check_labels

    with FakeTensorMode():
        rows = torch.zeros(8, dtype=torch.int64, device="cuda")
        assert check_labels(rows, rows, rows, rows, slice(None), 4) == (rows, rows)
