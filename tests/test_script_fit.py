"""What existing scripts need: no index in evaluation, a loss for logs, steps, averaged models."""

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from discrimloss import DiscrimLoss
from discrimloss.errors import needs_extra

from .helpers.state_comparison import assert_same_state, state_of


def test_the_index_is_optional_in_eval_mode() -> None:
    criterion = DiscrimLoss(4, epochs=3).eval()
    assert float(criterion(torch.tensor([1.0, 3.0]))) == 2.0
    with pytest.raises(TypeError, match="index is None"):
        criterion.train()(torch.rand(2))


def test_the_task_loss_of_the_last_batch() -> None:
    criterion = DiscrimLoss(4, epochs=3)
    with pytest.raises(ValueError, match="no batch yet"):
        _ = criterion.task_loss
    criterion(torch.tensor([1.0, 2.0, 6.0], requires_grad=True), torch.arange(3))
    assert float(criterion.task_loss) == 3.0
    assert not criterion.task_loss.requires_grad


def test_steps_make_epochs() -> None:
    by_steps = DiscrimLoss(6, epochs=3, steps_per_epoch=2)
    by_epochs = DiscrimLoss(6, epochs=3)
    losses = torch.rand(6, 3)
    epochs = []
    for step in range(6):
        if step % 2 == 0:
            by_epochs.set_epoch(step // 2 + 1)
        for criterion in (by_steps, by_epochs):
            criterion(losses[step], torch.arange(3) + 3 * (step % 2))
        epochs.append(by_steps.epoch)
    assert epochs == [1, 1, 2, 2, 3, 3]
    assert by_steps.average_losses.equal(by_epochs.average_losses)
    assert by_steps.sample_weights.equal(by_epochs.sample_weights)


def test_steps_are_resumed_within_an_epoch() -> None:
    options = {"num_samples": 6, "epochs": 3, "steps_per_epoch": 3}
    whole, first = (DiscrimLoss(**options) for _ in range(2))  # type: ignore[arg-type]
    losses = torch.rand(7, 6)
    for step in range(7):
        whole(losses[step], torch.arange(6))
    for step in range(4):
        first(losses[step], torch.arange(6))
    second = DiscrimLoss(**options)  # type: ignore[arg-type]
    second.load_state_dict(first.state_dict())
    for step in range(4, 7):
        second(losses[step], torch.arange(6))
    assert second.epoch == whole.epoch == 3
    assert_same_state(second, whole)


def test_an_averaged_model_that_holds_the_criterion() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
            self.criterion = DiscrimLoss(6, epochs=4, num_classes=3)

    model = Model()
    averaged = AveragedModel(model, use_buffers=True)
    for epoch in (1, 2, 3):
        model.criterion.set_epoch(epoch)
        losses = nn.functional.cross_entropy(
            model.layer(torch.rand(6, 2)), torch.arange(6) % 3, reduction="none"
        )
        model.criterion(losses, torch.arange(6), target=torch.arange(6) % 3)
        averaged.update_parameters(model)
    assert not [name for name, _ in model.named_buffers() if name.startswith("criterion")]
    assert model.criterion.epoch == 3
    assert averaged.module.criterion.epoch == 1  # it keeps what it was copied with


def test_mixed_samples_are_visits_to_the_larger_part() -> None:
    criterion = DiscrimLoss(8, epochs=4)
    losses, others = torch.rand(4, requires_grad=True), torch.rand(4, requires_grad=True)
    criterion.mixed(losses, others, torch.arange(4), torch.arange(4, 8), 0.25).backward()
    seen = ~criterion.average_losses.isnan()
    assert seen.tolist() == [False] * 4 + [True] * 4
    torch.testing.assert_close(criterion.average_losses[4:], others.detach())
    # Early suppression halves the first epoch; all weights are still 1.
    assert losses.grad is not None
    assert others.grad is not None
    torch.testing.assert_close(losses.grad, torch.full((4,), 0.5 * 0.25 / 4))
    torch.testing.assert_close(others.grad, torch.full((4,), 0.5 * 0.75 / 4))
    torch.testing.assert_close(criterion.task_loss, (0.25 * losses + 0.75 * others).detach().mean())


def test_the_smaller_part_has_its_own_weight() -> None:
    criterion = DiscrimLoss(4, epochs=4, weight_lr=1.0, suppressed_epochs=0)
    criterion(torch.tensor([0.1, 9.0]), torch.tensor([0, 1]))
    weight = criterion.sample_weights[1]
    assert weight > 1
    losses, others = torch.rand(1, requires_grad=True), torch.rand(1, requires_grad=True)
    criterion.mixed(losses, others, torch.tensor([2]), torch.tensor([1]), 0.75).backward()
    assert others.grad is not None
    torch.testing.assert_close(others.grad, 0.25 / weight.reshape(1))


def test_mixed_samples_in_eval_mode_and_wrong_fractions() -> None:
    criterion = DiscrimLoss(4, epochs=4).eval()
    ones, threes = torch.ones(2), torch.full((2,), 3.0)
    assert float(criterion.mixed(ones, threes, None, None, 0.25)) == 2.5
    with pytest.raises(ValueError, match="fraction must be from 0 to 1"):
        criterion.mixed(ones, threes, None, None, 1.5)


@pytest.mark.parametrize(
    ("others", "other_index", "message"),
    [
        (torch.rand(3), torch.arange(2), "other_losses has shape"),
        (torch.rand(2), torch.tensor([0, 9]), "9"),
    ],
)
def test_a_bad_smaller_part_changes_nothing(
    others: torch.Tensor, other_index: torch.Tensor, message: str
) -> None:
    criterion = DiscrimLoss(4, epochs=4)
    before = state_of(criterion)
    with pytest.raises((ValueError, IndexError), match=message):
        criterion.mixed(torch.rand(2), others, torch.arange(2), other_index, 0.75)
    assert_same_state(criterion, before)


@pytest.mark.parametrize("fraction", [0.25, 0.75])
@pytest.mark.parametrize("part", ["target", "other_target"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, "target is missing|need target and other_target"),
        (torch.tensor([0, 5]), "target 5 .* is out of range: num_classes=3"),
        (torch.tensor([2, 2]), "has target 2 but had"),
        (torch.tensor([0, 1, 2]), "target must have the shape of the losses"),
        (torch.tensor([0.0, 1.0]), "target must be a tensor of class positions"),
    ],
)
def test_a_bad_target_of_either_part_changes_nothing(
    bad: torch.Tensor | None, message: str, part: str, fraction: float
) -> None:
    criterion = DiscrimLoss(4, epochs=4, num_classes=3)
    target, index = torch.tensor([0, 1, 0, 1]), torch.arange(4)
    criterion(torch.rand(4), index, target=target)
    before = state_of(criterion)
    targets = {"target": target[:2], "other_target": target[2:]}
    losses, others = torch.rand(2), torch.rand(2)
    with pytest.raises((ValueError, IndexError, TypeError), match=message):
        criterion.mixed(losses, others, index[:2], index[2:], fraction, **(targets | {part: bad}))
    assert_same_state(criterion, before)
    criterion.mixed(losses, others, index[:2], index[2:], fraction, **targets)


def test_a_bad_target_begins_no_epoch() -> None:
    criterion = DiscrimLoss(4, epochs=4, steps_per_epoch=1, num_classes=2)
    index, target = torch.arange(4), torch.tensor([0, 1, 0, 1])
    criterion(torch.rand(4), index, target=target)
    before = state_of(criterion)
    with pytest.raises(IndexError, match="target"):
        criterion(torch.rand(4), index, target=target + 1)
    assert_same_state(criterion, before)
    assert criterion.steps == 1


@pytest.mark.parametrize("options", [{}, {"num_classes": 3}, {"task": "regression"}])
def test_verdicts_before_the_first_batch(options: dict[str, Any]) -> None:
    verdicts = DiscrimLoss(10, epochs=5, **options).verdicts()
    assert set(verdicts.verdict) == {"unseen"}
    assert verdicts.noise_rate is None


def test_another_package_s_missing_import_is_not_blamed_on_an_extra(tmp_path: object) -> None:
    with pytest.raises(ModuleNotFoundError) as caught, needs_extra("transformers"):
        exec(compile("import not_there", "/elsewhere/library.py", "exec"), {})
    assert "discrimloss[" not in str(caught.value)


def test_a_copy_keeps_its_own_state() -> None:
    criterion = DiscrimLoss(4, epochs=4)
    other = copy.deepcopy(criterion)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        criterion(torch.rand(2), torch.arange(2))
    assert int(other.tracker.visits_seen.sum()) == 0
