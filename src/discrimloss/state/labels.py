"""Checks targets and predictions of a batch, and packs them for the exchange of processes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from discrimloss.state.batch_checks import first_outside, is_integer, kind_of
from discrimloss.state.predictions import TopPredictions
from discrimloss.state.processes import INT32


def checked_classes(target: Any, losses: Tensor) -> Tensor:
    """Return class labels as int64, or raise an error if they are not valid.

    `check_labels` checks their values.

    Raises:
        TypeError: if labels are not integers.
        ValueError: if there is not one label for each loss.
    """
    if not isinstance(target, Tensor) or not is_integer(target):
        raise TypeError(
            f"target must be a tensor of class positions, not {kind_of(target)}: for regression "
            'build DiscrimLoss with task="regression"'
        )
    _require_one_each("target", target, losses)
    classes: Tensor = target.long()
    return classes


def checked_values(values: Any, losses: Tensor, name: str) -> Tensor:
    """Return regression targets or predictions as float32, shape (batch,), or raise an error."""
    if not isinstance(values, Tensor) or values.is_complex() or values.dtype == torch.bool:
        raise TypeError(f"{name} must be a tensor of real numbers, not {kind_of(values)}")
    if values.shape == (len(losses), 1):
        values = values[:, 0]
    _require_one_each(name, values, losses)
    as_float: Tensor = values.float()
    return as_float


def checked_logits(logits: Any, losses: Tensor, num_classes: int) -> Tensor:
    """Return the logits of a batch, or raise an error if they are not valid."""
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        raise TypeError(f"logits must be a tensor of real numbers, not {kind_of(logits)}")
    if logits.shape != (len(losses), num_classes):
        raise ValueError(
            f"logits must have shape (batch, num_classes), here {(len(losses), num_classes)}, "
            f"not {tuple(logits.shape)}"
        )
    if losses.requires_grad and not logits.requires_grad:
        raise ValueError(
            "logits carry no gradient although the losses do: pass the network's output itself, "
            "not a detached copy; parts of the loss are computed from it"
        )
    return logits


def _require_one_each(name: str, values: Tensor, losses: Tensor) -> None:
    if values.shape != losses.shape:
        raise ValueError(
            f"{name} must have the shape of the losses, {tuple(losses.shape)}, "
            f"not {tuple(values.shape)}: one for each loss"
        )


def check_labels(
    table_rows: Tensor,
    target: Tensor,
    stored: Tensor,
    index: Tensor,
    own: slice,
    num_classes: int | None,
) -> tuple[Tensor, Tensor]:
    """Raise an error if a target is not a class, or differs from that of an earlier visit.

    Under `torch.compile`, the check is an operator, and all later operations must use its output.
    So it runs before any state changes.

    Args:
        table_rows: rows of the table that the batch will change.
        target: shape (rows,): targets of all processes.
        stored: shape (rows,): the targets of the same samples at earlier visits.
        index: shape (rows,): the samples.
        own: the rows of this process. They are checked first, so that errors name them.
        num_classes: number of classes; None for regression.

    Returns:
        `table_rows` and `target`.

    Raises:
        IndexError: if a target is not one of the classes. On a GPU, the device raises all errors.
        ValueError: if a target has changed.
    """
    if torch.compiler.is_compiling():
        start, stop, _ = own.indices(len(target))
        checked: tuple[Tensor, Tensor] = _checked_labels(
            table_rows, target, stored, index, start, stop, num_classes or 0
        )
        return checked
    _raise_if_wrong(target, stored, index, own, num_classes or 0)
    return table_rows, target


def _raise_if_wrong(
    target: Tensor, stored: Tensor, index: Tensor, own: slice, num_classes: int
) -> None:
    if num_classes:
        if own != slice(None):
            _raise_if_no_class(target[own], num_classes)
        _raise_if_no_class(target, num_classes)
    _raise_if_changed(target, stored, index)


def _raise_if_no_class(target: Tensor, num_classes: int) -> None:
    row = first_outside(target, num_classes, "target") if len(target) else None
    if row is not None:
        raise IndexError(
            f"target {int(target[row])} (row {row} of the batch) is out of range: "
            f"num_classes={num_classes}, so valid targets are 0 to {num_classes - 1}"
        )


def _raise_if_changed(target: Tensor, stored: Tensor, index: Tensor) -> None:
    is_same = stored.eq(target)
    if target.is_floating_point():
        is_same = is_same | (stored.isnan() & target.isnan())
    if is_same.device.type != "cpu":
        torch._assert_async(
            is_same.all(), "the target of a sample differs from that of an earlier visit"
        )
    elif not bool(is_same.all()):
        row = int(is_same.long().argmin())
        now, then = (f"{values[row].item():g}" for values in (target, stored))
        if now == then:  # they differ only in rounding
            now, then = (f"{values[row].item():.9g}" for values in (target, stored))
        raise ValueError(
            f"sample {int(index[row])} has target {now} but had {then} before: the index must "
            "identify the same sample in every epoch; if you have corrected labels, start a new "
            "DiscrimLoss"
        )


@torch.library.custom_op("discrimloss::checked_labels", mutates_args=())
def _checked_labels(
    table_rows: Tensor,
    target: Tensor,
    stored: Tensor,
    index: Tensor,
    start: int,
    stop: int,
    num_classes: int,
) -> tuple[Tensor, Tensor]:
    _raise_if_wrong(target, stored, index, slice(start, stop), num_classes)
    return table_rows.clone(), target.clone()


@_checked_labels.register_fake
def _(
    table_rows: Tensor,
    target: Tensor,
    stored: Tensor,
    index: Tensor,
    start: int,
    stop: int,
    num_classes: int,
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(table_rows), torch.empty_like(target)


# ----------------------------------------------------------------------- packing


def pack_classes(target: Tensor, top: TopPredictions | None) -> Tensor:
    """Pack class labels and the most likely classes as int32, shape (rows, words)."""
    # An invalid target remains invalid when it is clamped to 32 bits.
    words = [target.clamp(INT32.min, INT32.max).int().unsqueeze(1)]
    if top is not None:
        halves = torch.stack([top.classes.short(), top.mass.half().view(torch.int16)], dim=2)
        words.append(halves.view(torch.int32).squeeze(2))
    return torch.cat(words, 1)


def unpack_classes(words: Tensor) -> tuple[Tensor, TopPredictions | None]:
    """Return the target and the predictions that `pack_classes` packed."""
    target = words[:, 0].long()
    if words.shape[1] == 1:
        return target, None
    halves = words[:, 1:].contiguous().view(torch.int16).view(len(words), -1, 2)
    mass = halves[:, :, 1].contiguous().view(torch.float16).float()
    return target, TopPredictions(halves[:, :, 0].long(), mass)


def pack_values(target: Tensor, predictions: Tensor | None) -> Tensor:
    """Pack regression targets and predictions as int32, shape (rows, words)."""
    columns = [target] if predictions is None else [target, predictions.detach()]
    return torch.stack(columns, 1).contiguous().view(torch.int32)


def unpack_values(words: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the target and the predictions that `pack_values` packed."""
    # Contiguous, because `torch.bucketize` otherwise warns.
    columns = [column.contiguous() for column in words.contiguous().view(torch.float32).unbind(1)]
    return columns[0], columns[1] if len(columns) > 1 else None
