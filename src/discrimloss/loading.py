"""Hooks that run before and after a `DiscrimLoss` loads a saved state.

They convert states of version 0.1, refuse a state with other targets, and restore the step
count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

if TYPE_CHECKING:
    from discrimloss.criterion_state import CriterionState

RUN_KEY = "run"
"""Entry of `state_dict` with the options, the steps in the epoch and the kind of loss, as JSON."""


def rename_keys_of_0_1(
    criterion: nn.Module, state_dict: dict[str, Any], prefix: str, *args: Any
) -> None:
    """Convert the keys of a state dict of version 0.1, which had neither a tracker nor groups.

    This hook runs before the criterion loads the state dict.
    """
    for name in ("k1", "visits_seen", "first_mean_abs", "first_mean_square", "past_first_epoch"):
        if prefix + name in state_dict:
            state_dict[f"{prefix}tracker.{name}"] = state_dict.pop(prefix + name).reshape(1)
    for old, new in (
        ("epoch_count", "tracker.epoch_count"),
        ("ids.text", "table.ids.text"),
        ("ids.ends", "table.ids.ends"),
    ):
        if prefix + old in state_dict:
            state_dict[prefix + new] = state_dict.pop(prefix + old)


def options_of_state(shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return the option `num_classes` or `task` of the criterion that saved a state, if any.

    Args:
        shapes: the shape of each entry of the `state_dict`.
    """
    if "table.target" not in shapes:
        return {}
    if "labels.edges" in shapes:
        return {"task": "regression"}
    return {"num_classes": shapes["tracker.k1"][0]}


def require_same_options(
    criterion: Any, state_dict: Mapping[str, Tensor], prefix: str, *args: Any
) -> None:
    """Hook: raise an error if the state to load has other targets than the criterion."""
    shapes = {
        name.removeprefix(prefix): value.shape
        for name, value in state_dict.items()
        if name.startswith(prefix)
    }
    if "table.history" not in shapes:
        return
    saved, own = options_of_state(shapes), criterion.label_options
    if saved != own:
        raise ValueError(
            f"the saved state is from a DiscrimLoss {_in_words(saved)}, but this one was built "
            f"{_in_words(own)}: build it {_in_words(saved)}"
        )


def _in_words(options: dict[str, Any]) -> str:
    if not options:
        return "without num_classes and task"
    return "with " + ", ".join(f"{name}={value!r}" for name, value in options.items())


def take_up_run(
    criterion: CriterionState, state_dict: dict[str, Tensor], prefix: str, *args: Any
) -> None:
    """Hook: take the step count from the state to load, and warn if its options differ."""
    saved = state_dict.pop(prefix + RUN_KEY, None)
    if saved is not None:  # not in a state of 0.1
        run = json.loads(bytes(saved.tolist()))
        criterion.steps = run["steps"]
        criterion.watch.loss_kind = run.get("loss_kind")
        criterion.watch.compare_options(run["options"], criterion.run_options)


def note_visits(criterion: CriterionState, incompatible_keys: Any) -> None:
    """Hook: record whether the loaded state has seen batches."""
    if criterion.labels is not None:
        criterion.labels.has_begun = bool(criterion.tracker.visits_seen.sum() > 0)
