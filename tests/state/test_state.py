"""The table of samples: growing it, copying it, saving it, and how far it counts."""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from state_comparison import assert_same_state, state_of
from state_of_0_1 import (
    NAMES_OF_0_1,
    OPTIONS_OF_0_1,
    assert_continues_as_0_1,
    saved_by_0_1,
)

from discrimloss import DiscrimLoss, SampleIds

both_variants = pytest.mark.parametrize("variant", ["paper", "released"])


def make_criterion(num_samples: int = 4, **changes: Any) -> DiscrimLoss:
    """A criterion in the middle of its second epoch."""
    criterion = DiscrimLoss(num_samples, epochs=3, **changes)
    for epoch in (1, 2):
        criterion.set_epoch(epoch)
        criterion(torch.tensor([0.2, 6.0, 3.0]), torch.tensor([0, 1, 3]))
    return criterion


def go_on(criterion: DiscrimLoss) -> None:
    """One more batch, and the end of the epoch."""
    criterion(torch.tensor([1.0, 9.0]), torch.tensor([1, 2]))
    criterion.set_epoch(criterion.epoch + 1)


# Resizing.


@both_variants
def test_resize_keeps_the_old_rows_and_adds_fresh_ones(variant: str) -> None:
    criterion = make_criterion(variant=variant)
    before = state_of(criterion)
    criterion.resize(7)
    after, fresh = state_of(criterion), state_of(DiscrimLoss(7, epochs=3, variant=variant))

    assert criterion.num_samples == 7
    assert criterion.sample_weights.shape == criterion.average_losses.shape == (7,)
    for name, old in before.items():
        if old.dim() == 0 or name == "run":
            assert torch.equal(after[name], old)
        else:
            assert torch.equal(after[name][:4], old)
            assert torch.equal(after[name][4:], fresh[name][4:])
            assert after[name].dtype == old.dtype


@both_variants
def test_training_goes_on_after_resize_as_if_the_rows_had_been_there(variant: str) -> None:
    grown, large = make_criterion(4, variant=variant), make_criterion(7, variant=variant)
    grown.resize(7)
    for criterion in (grown, large):
        criterion(torch.tensor([1.0, 9.0, 2.0]), torch.tensor([1, 6, 4]))
        criterion.set_epoch(3)
    assert_same_state(grown, large)


def test_shrinking_is_an_error_and_moves_nothing() -> None:
    criterion = make_criterion()
    before = state_of(criterion)
    with pytest.raises(ValueError, match="from 4 to 3"):
        criterion.resize(3)
    assert_same_state(criterion, before)


def test_resizing_to_the_same_size_changes_nothing() -> None:
    criterion = make_criterion()
    before = state_of(criterion)
    criterion.resize(4)
    assert_same_state(criterion, before)


# Copies.


def pickled(criterion: DiscrimLoss) -> DiscrimLoss:
    copied: DiscrimLoss = pickle.loads(pickle.dumps(criterion))
    return copied


def saved_whole(criterion: DiscrimLoss) -> DiscrimLoss:
    file = io.BytesIO()
    torch.save(criterion, file)
    file.seek(0)
    loaded: DiscrimLoss = torch.load(file, weights_only=False)
    return loaded


@both_variants
@pytest.mark.parametrize("make_copy", [copy.deepcopy, pickled, saved_whole])
def test_a_copy_is_equal_and_goes_its_own_way(
    variant: str, make_copy: Callable[[DiscrimLoss], DiscrimLoss]
) -> None:
    original, twin = make_criterion(variant=variant), make_criterion(variant=variant)
    copied = make_copy(original)
    assert_same_state(copied, original)
    assert copied.hyperparameters == original.hyperparameters

    before = state_of(original)
    go_on(copied)
    assert_same_state(original, before)
    go_on(twin)
    assert_same_state(copied, twin)


# Saving and loading.


def test_loading_another_number_of_samples_is_an_error_that_names_both() -> None:
    saved = make_criterion(4).state_dict()
    larger = DiscrimLoss(7, epochs=3)
    with pytest.raises(ValueError, match=r"4 samples.* 7"):
        larger.load_state_dict(saved)


def test_what_the_epoch_implies_is_restored_by_loading() -> None:
    criterion = make_criterion()
    loaded = DiscrimLoss(4, epochs=3)
    loaded.load_state_dict(criterion.state_dict())
    assert loaded.epoch == 2
    assert loaded.k_dyn == criterion.k_dyn
    losses, index = torch.tensor([1.0, 9.0]), torch.tensor([1, 2])
    assert torch.equal(loaded(losses, index), criterion(losses, index))


def test_a_criterion_inside_a_model_is_saved_with_it() -> None:
    model, loaded = torch.nn.Module(), torch.nn.Module()
    model.criterion, loaded.criterion = make_criterion(), DiscrimLoss(4, epochs=3)
    loaded.load_state_dict(model.state_dict())
    assert_same_state(loaded.criterion, model.criterion)


def test_a_state_of_0_1_can_be_loaded() -> None:
    criterion = DiscrimLoss(3, **OPTIONS_OF_0_1)
    criterion.load_state_dict(saved_by_0_1())
    assert_continues_as_0_1(criterion, torch.tensor([2, 1]))


def test_a_state_of_0_1_with_ids_inside_a_model_can_be_loaded() -> None:
    model = torch.nn.Module()
    model.criterion = DiscrimLoss(ids=SampleIds(), **OPTIONS_OF_0_1)
    saved = saved_by_0_1() | NAMES_OF_0_1
    model.load_state_dict({f"criterion.{name}": value for name, value in saved.items()})
    assert_continues_as_0_1(model.criterion, ["c", "b"])


def test_a_state_of_0_1_that_lacks_a_value_is_an_error() -> None:
    saved = saved_by_0_1()
    del saved["k1"]
    with pytest.raises(RuntimeError, match=r"Missing key.*tracker\.k1"):
        DiscrimLoss(3, **OPTIONS_OF_0_1).load_state_dict(saved)


# Learned early.


def test_learned_early_is_recorded_when_the_switch_is_over() -> None:
    criterion = DiscrimLoss(4, threshold=1.0, switch_epoch=2.7, epochs=6)

    def learned_early() -> list[int]:
        answers: list[int] = criterion.state_dict()["table.learned_early"].tolist()
        return answers

    # Losses of samples 0, 1, 2; sample 3 is never seen. floor(2.7) = 2: epoch 2 decides.
    unknown, no, yes = -1, 0, 1
    for epoch, losses in [(1, [0.1, 3.0, 3.0]), (2, [0.1, 3.0, 3.0]), (3, [9.0, 0.0, 3.0])]:
        criterion.set_epoch(epoch)
        expected = [unknown] * 4 if epoch <= 2 else [yes, no, no, unknown]
        assert learned_early() == expected
        criterion(torch.tensor(losses), torch.tensor([0, 1, 2]))
    criterion.set_epoch(4)
    assert learned_early() == [yes, no, no, unknown]  # later epochs do not change the answer


# Very long runs.


@both_variants
def test_more_visits_than_the_counter_holds(variant: str) -> None:
    criterion = DiscrimLoss(2, epochs=1_000, threshold=1.0, variant=variant)
    criterion.set_epoch(1_000)
    saved = state_of(criterion)
    saved["table.visits"].fill_(32_766)
    saved["table.history"].fill_(2.0)  # 0.9 ** 32766 is 0, so the average is 2 as well
    criterion.load_state_dict(saved)
    for _ in range(4):
        criterion(torch.tensor([2.0, 2.0]), torch.tensor([0, 1]))
        assert criterion.average_losses.tolist() == pytest.approx([2.0, 2.0])
