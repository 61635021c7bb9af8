"""The hyperparameters of DiscrimLoss, and their defaults for a given number of epochs.

`docs/defaults.md` has the measurements behind the defaults. `benchmarks/defaults.py` repeats them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, NoReturn

from discrimloss.released import released_defaults

Threshold = Literal["ema", "mean", "split", "bounded_split"] | float
Variant = Literal["paper", "released"]

THRESHOLDS = ("ema", "mean", "split", "bounded_split")
VARIANTS = ("paper", "released")
REDUCTIONS = ("mean", "sum", "none")
MAX_EPOCHS = (1 << 31) - 1  # processes compare epochs as 32-bit integers


@dataclass(frozen=True)
class Hyperparameters:
    """A complete, validated set of hyperparameters: the type of `criterion.hyperparameters`."""

    threshold: Threshold
    """``k1``: ``"bounded_split"``, ``"split"``, ``"ema"``, ``"mean"`` or a constant."""
    switch_gain: float
    """``a``: sets how far the threshold rises, from ``k1`` to ``(1 + 2 a) k1``."""
    switch_rate: float
    """``p``: speed of the switch between the stages, which takes about ``2 / p`` epochs."""
    switch_epoch: float
    """``q``: the epoch in the middle of the switch."""
    suppressed_epochs: int
    """``e_s``: epochs of early suppression. 0 turns it off."""
    regularization: float
    """``lambda``: strength of the pull of the weights towards 1."""
    history_decay: float
    """``rho``: decay of the historical loss. 0 turns the history off."""
    weight_lr: float | None
    """``tau``: step size of the weights. If None, it is `relative_weight_lr` / loss scale."""
    relative_weight_lr: float
    """``tau`` times the loss scale of the first epoch. Used if `weight_lr` is None."""
    weight_range: tuple[float, float]
    """Bounds of ``delta``."""

    def __post_init__(self) -> None:
        if isinstance(self.threshold, str) and self.threshold not in THRESHOLDS:
            _fail("threshold", self.threshold, f"one of {', '.join(THRESHOLDS)}, or a number")
        if not isinstance(self.threshold, str):
            _require_finite("threshold", self.threshold)
        for name in ("switch_gain", "switch_rate", "regularization"):
            _require_finite(name, getattr(self, name), minimum=0.0)
        _require_finite("switch_epoch", self.switch_epoch)
        require_whole_number("suppressed_epochs", self.suppressed_epochs, 0)
        _require_finite("history_decay", self.history_decay, minimum=0.0)
        if self.history_decay >= 1.0:
            _fail("history_decay", self.history_decay, "a number of at least 0 and less than 1")
        if self.weight_lr is not None:
            _require_finite("weight_lr", self.weight_lr, minimum=0.0)
        _require_finite("relative_weight_lr", self.relative_weight_lr, minimum=0.0)
        lowest, highest = self.weight_range
        if not (0.0 < lowest <= highest < math.inf):
            _fail("weight_range", self.weight_range, "(lowest, highest) with 0 < lowest <= highest")

    @property
    def follows_batches(self) -> bool:
        """Whether every batch updates ``k1``, in all epochs."""
        return self.threshold in ("ema", "mean")


def resolve_hyperparameters(
    epochs: int | None, variant: Variant, given: dict[str, Any]
) -> Hyperparameters:
    """Replace missing hyperparameters (None) by the defaults for `epochs`, and validate all.

    Raises:
        ValueError: a value is out of range, or is missing and has no default without `epochs`.
    """
    if variant not in VARIANTS:
        _fail("variant", variant, f"one of {', '.join(VARIANTS)}")
    if epochs is not None:
        require_whole_number("epochs", epochs, 1)
    defaults = released_defaults(epochs) if variant == "released" else paper_defaults(epochs)
    values = {**defaults, **{name: value for name, value in given.items() if value is not None}}
    missing = [name for name in Hyperparameters.__dataclass_fields__ if name not in values]
    if missing:
        raise ValueError(
            f"pass epochs=… (the length of the training run), or {', '.join(missing)}: "
            "they have no default without it"
        )
    try:
        lowest, highest = (float(bound) for bound in values["weight_range"])
    except (TypeError, ValueError):
        _fail("weight_range", values["weight_range"], "two numbers, (lowest, highest)")
    values["weight_range"] = (lowest, highest)
    return Hyperparameters(**values)


def paper_defaults(epochs: int | None) -> dict[str, Any]:
    """Return the defaults of the paper's form, one set for every task and noise level."""
    defaults: dict[str, Any] = {
        "threshold": "bounded_split",
        "switch_gain": 0.25,
        "regularization": 0.0,
        "history_decay": 0.9,
        "weight_lr": None,
        "relative_weight_lr": 2.0,
        "weight_range": (1.0, 20.0),
    }
    if epochs is not None:
        defaults["switch_epoch"] = 0.75 * epochs
        defaults["switch_rate"] = 20.0 / epochs
        defaults["suppressed_epochs"] = min(2, epochs - 1)
    return defaults


def require_whole_number(name: str, value: Any, minimum: int, maximum: int | None = None) -> None:
    """Raise an error that names the argument unless `value` is a whole number in range."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and value == int(value) and value >= minimum):
        _fail(name, value, f"a whole number of at least {minimum}")
    if maximum is not None and value > maximum:
        _fail(name, value, f"at most {maximum}")


def require_epoch(epoch: Any) -> int:
    """Return an epoch as an int, or raise an error if it is less than 1."""
    if epoch == 0:
        raise ValueError("epochs count from 1: call set_epoch(epoch + 1) if yours start at 0")
    require_whole_number("epoch", epoch, 1, MAX_EPOCHS)
    return int(epoch)


def require_reduction(reduction: str) -> None:
    """Raise an error unless `reduction` is one that PyTorch's losses have."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)}, not {reduction!r}")


def _require_finite(name: str, value: float, minimum: float = -math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if not math.isfinite(value) or value < minimum:
        wanted = "a finite number" + ("" if minimum == -math.inf else f" of at least {minimum}")
        _fail(name, value, wanted)


def _fail(name: str, value: object, wanted: str) -> NoReturn:
    raise ValueError(f"{name} must be {wanted}, not {value!r}")
