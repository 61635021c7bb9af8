"""Values that cannot be are refused by name, and the rest follows from `epochs`."""

import math
from typing import Any

import pytest

from discrimloss import DiscrimLoss


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threshold", "median"),
        ("threshold", math.nan),
        ("threshold", math.inf),
        ("threshold", True),
        ("switch_gain", -0.1),
        ("switch_gain", math.inf),
        ("switch_gain", "0.1"),
        ("switch_rate", -1.0),
        ("switch_rate", math.nan),
        ("switch_epoch", math.nan),
        ("switch_epoch", "5"),
        ("suppressed_epochs", -1),
        ("suppressed_epochs", 1.5),
        ("suppressed_epochs", math.nan),
        ("suppressed_epochs", math.inf),
        ("suppressed_epochs", "3"),
        ("regularization", -1e-3),
        ("regularization", math.nan),
        ("history_decay", -0.1),
        ("history_decay", 1.0),
        ("history_decay", 1.5),
        ("history_decay", math.nan),
        ("weight_lr", -1.0),
        ("weight_lr", math.inf),
        ("weight_lr", "0.5"),
        ("relative_weight_lr", -1.0),
        ("relative_weight_lr", math.nan),
        ("weight_range", (0.0, 20.0)),
        ("weight_range", (-1.0, 20.0)),
        ("weight_range", (3.0, 2.0)),
        ("weight_range", (1.0, math.inf)),
        ("weight_range", (math.nan, 20.0)),
        ("weight_range", (1.0, 2.0, 3.0)),
        ("weight_range", 20.0),
        ("epochs", 0),
        ("epochs", -3),
        ("epochs", 2.5),
        ("epochs", math.nan),
        ("num_samples", 0),
        ("num_samples", -5),
        ("num_samples", 2.5),
        ("num_samples", True),
        ("num_samples", None),
        ("num_samples", math.nan),
        ("reduction", "median"),
        ("reduction", None),
        ("variant", "original"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(name: str, value: Any) -> None:
    arguments = {"num_samples": 4, "epochs": 10} | {name: value}
    with pytest.raises((ValueError, TypeError), match=name):
        DiscrimLoss(**arguments)


def test_without_epochs_the_error_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match="epochs") as raised:
        DiscrimLoss(4, switch_rate=0.5)
    message = str(raised.value)
    assert "switch_epoch" in message
    assert "suppressed_epochs" in message
    assert "switch_rate" not in message


def test_epochs_are_not_needed_where_everything_they_decide_is_given() -> None:
    criterion = DiscrimLoss(4, switch_epoch=5, switch_rate=0.5, suppressed_epochs=2)
    chosen = criterion.hyperparameters
    assert (chosen.switch_epoch, chosen.switch_rate, chosen.suppressed_epochs) == (5, 0.5, 2)


def test_what_is_given_wins_over_the_default() -> None:
    given: dict[str, Any] = {
        "threshold": "mean",
        "switch_gain": 0.3,
        "switch_rate": 0.7,
        "switch_epoch": 2.5,
        "suppressed_epochs": 0,
        "regularization": 0.25,
        "history_decay": 0.0,
        "weight_lr": 0.0,
        "relative_weight_lr": 0.75,
        "weight_range": (0.5, 2.0),
    }
    chosen = DiscrimLoss(4, epochs=10, **given).hyperparameters
    assert {name: getattr(chosen, name) for name in given} == given


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("epochs", [1, 2, 120])
def test_the_switch_lies_within_the_run(variant: Any, epochs: int) -> None:
    chosen = DiscrimLoss(4, epochs=epochs, variant=variant).hyperparameters
    assert 0 < chosen.switch_epoch < epochs
