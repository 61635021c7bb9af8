"""A wrong use of the criterion is noticed while it happens, and warned of once."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from discrimloss import DiscrimLoss

N = 400


def train(
    criterion: DiscrimLoss,
    epochs: int = 3,
    index_of: Callable[[torch.Tensor], torch.Tensor] = lambda rows: rows,
    sets_epoch: bool = True,
    first: int = 1,
) -> list[str]:
    """The warnings of a run."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for epoch in range(first, first + epochs):
            if sets_epoch:
                criterion.set_epoch(epoch)
            for rows in torch.randperm(N).split(20):
                criterion(torch.rand(len(rows)), index_of(rows))
    return [str(warning.message) for warning in caught]


def test_a_proper_run_is_silent() -> None:
    assert train(DiscrimLoss(N, epochs=3)) == []


@pytest.mark.parametrize("index_of", [lambda rows: rows % 10, lambda rows: torch.arange(len(rows))])
def test_targets_and_batch_positions_as_index(
    index_of: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    found = train(DiscrimLoss(N, epochs=3), index_of=index_of)
    assert len(found) == 1
    assert "not its target nor its position in the batch" in found[0]


def test_a_wrong_index_is_noticed_before_a_long_epoch_ends() -> None:
    criterion = DiscrimLoss(10**6, epochs=2)
    for _ in range(49):
        criterion(torch.rand(1000), torch.arange(1000))
    with pytest.warns(UserWarning, match="50000 rows were of 1000 samples only, of 1000000"):
        criterion(torch.rand(1000), torch.arange(1000))


def test_positions_in_large_batches_are_noticed() -> None:
    criterion = DiscrimLoss(N, epochs=1)
    criterion(torch.rand(200), torch.arange(200))
    with pytest.warns(UserWarning, match="400 rows were of 200 samples only, of 400"):
        criterion(torch.rand(200), torch.arange(200))


def test_a_wrong_index_is_noticed_without_set_epoch() -> None:
    found = train(
        DiscrimLoss(N, epochs=3), index_of=lambda rows: torch.arange(len(rows)), sets_epoch=False
    )
    assert len(found) == 1
    assert "400 rows were of 20 samples only, of 400" in found[0]


def test_a_part_of_the_samples_is_no_misuse() -> None:
    criterion = DiscrimLoss(N, epochs=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in (1, 2, 3):
            criterion.set_epoch(epoch)
            for rows in torch.randperm(N // 5).split(20):  # the others are for validation
                criterion(torch.rand(len(rows)), rows)


def test_samples_drawn_with_replacement_are_no_misuse() -> None:
    criterion = DiscrimLoss(N, epochs=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in (1, 2, 3):
            criterion.set_epoch(epoch)
            for rows in torch.randint(N, (3 * N,)).split(20):
                criterion(torch.rand(len(rows)), rows)


def test_a_second_pass_without_set_epoch() -> None:
    found = train(DiscrimLoss(N, epochs=4), epochs=4, sets_epoch=False)
    assert len(found) == 1
    assert "call set_epoch(epoch) with the next epoch at the start of each one" in found[0]


def test_the_same_epoch_in_every_pass() -> None:
    criterion = DiscrimLoss(N, epochs=4)
    found = [warning for _ in range(4) for warning in train(criterion, epochs=1)]
    assert len(found) == 1
    assert "with the next epoch" in found[0]


def test_passes_of_random_samples_without_set_epoch() -> None:
    criterion = DiscrimLoss(N, epochs=4)
    random_rows = torch.randint(N, (N,))
    found = train(criterion, index_of=lambda rows: random_rows[rows], sets_epoch=False)
    assert len(found) == 1
    assert "a second pass" in found[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        criterion.verdicts()  # does not repeat it


def test_more_epochs_than_planned() -> None:
    found = train(DiscrimLoss(N, epochs=3), epochs=5)
    assert len(found) == 1
    assert "epoch 4 begins, but this DiscrimLoss was built for epochs=3" in found[0]


def test_epochs_that_go_backwards() -> None:
    criterion = DiscrimLoss(N, epochs=6)
    train(criterion)
    found = train(criterion, first=1)
    assert found[0].startswith("epoch 1 begins after epoch 3")
    assert len(found) == 1


def test_a_state_of_other_options() -> None:
    saved = DiscrimLoss(N, epochs=3, switch_gain=0.3).state_dict()
    with pytest.warns(
        UserWarning, match=r"with epochs=3, switch_gain=0.3, .* this one has epochs=5"
    ):
        DiscrimLoss(N, epochs=5).load_state_dict(saved)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DiscrimLoss(N, epochs=3, switch_gain=0.3).load_state_dict(saved)


def test_a_state_without_options_loads() -> None:
    saved = DiscrimLoss(N, epochs=3).state_dict()
    del saved["run"]
    DiscrimLoss(N, epochs=5).load_state_dict(saved)


@pytest.mark.parametrize(
    ("losses", "hint"),
    [
        (torch.tensor(1.0), 'reduction="none"'),
        (torch.rand(4, 1), "losses.flatten()"),
        (torch.rand(4, 8, 8), "losses.flatten(1).mean(1)"),
    ],
)
def test_the_hint_fits_the_shape(losses: torch.Tensor, hint: str) -> None:
    with pytest.raises(ValueError, match="losses must have shape") as caught:
        DiscrimLoss(4, epochs=3)(losses, torch.arange(4))
    assert str(caught.value).count(hint) == 1


@pytest.mark.parametrize("index", [["a", "b"], ("a", "b")])
def test_names_without_ids(index: Any) -> None:
    with pytest.raises(TypeError, match=r"strings such as 'a'.*ids=SampleIds\(\)"):
        DiscrimLoss(4, epochs=3)(torch.rand(2), index)
