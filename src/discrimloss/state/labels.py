"""Targets and predictions of a batch: checked, and packed for the exchange between processes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from discrimloss.state.exchange import first_outside, is_integer, kind_of
from discrimloss.state.predictions import TopPredictions


def checked_classes(target: Any, losses: Tensor, num_classes: int) -> Tensor:
    """Return class labels as int64, or raise an error that says what is wrong with them.

    Raises:
        TypeError: if they are not integers.
        ValueError: if there is not one for each loss.
        IndexError: if a label is not one of the classes. On a GPU the device raises it later.
    """
    if not isinstance(target, Tensor) or not is_integer(target):
        raise TypeError(
            f"target must be a tensor of class positions, not {kind_of(target)}: for regression "
            'build DiscrimLoss with task="regression"'
        )
    _require_one_each("target", target, losses)
    classes: Tensor = target.long()
    if torch.compiler.is_compiling():
        checked: Tensor = _checked_classes(classes, num_classes)
        return checked
    _raise_if_no_class(classes, num_classes)
    return classes


def _raise_if_no_class(target: Tensor, num_classes: int) -> None:
    row = first_outside(target, num_classes, "target") if len(target) else None
    if row is not None:
        raise IndexError(
            f"target {int(target[row])} (row {row} of the batch) is out of range: "
            f"num_classes={num_classes}, so valid targets are 0 to {num_classes - 1}"
        )


@torch.library.custom_op("discrimloss::checked_classes", mutates_args=())
def _checked_classes(target: Tensor, num_classes: int) -> Tensor:
    _raise_if_no_class(target, num_classes)
    return target.clone()


@_checked_classes.register_fake
def _(target: Tensor, num_classes: int) -> Tensor:
    return torch.empty_like(target)


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
    """Return the logits of a batch, or raise an error that says what is wrong with them."""
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


def check_unchanged(stored: Tensor, target: Tensor, index: Tensor) -> Tensor:
    """Return `target`, or raise an error where it differs from that of an earlier visit.

    Args:
        stored: shape (rows,): targets of the earlier visits.
        target: shape (rows,), of the same dtype.
        index: shape (rows,): the samples.
    """
    if torch.compiler.is_compiling():
        checked: Tensor = _unchanged_target(stored, target, index)
        return checked
    _raise_if_changed(stored, target, index)
    return target


def _raise_if_changed(stored: Tensor, target: Tensor, index: Tensor) -> None:
    differs = stored != target
    if differs.device.type != "cpu":
        torch._assert_async(~differs.any(), "the target of a sample differs from that seen before")
    elif bool(differs.any()):
        row = int(differs.nonzero()[0, 0])
        raise ValueError(
            f"sample {int(index[row])} has target {target[row].item():g} and had "
            f"{stored[row].item():g} before: the index must name the same sample in every epoch; "
            "for labels that you have mended start a new DiscrimLoss"
        )


@torch.library.custom_op("discrimloss::unchanged_target", mutates_args=())
def _unchanged_target(stored: Tensor, target: Tensor, index: Tensor) -> Tensor:
    _raise_if_changed(stored, target, index)
    return target.clone()


@_unchanged_target.register_fake
def _(stored: Tensor, target: Tensor, index: Tensor) -> Tensor:
    return torch.empty_like(target)


# ----------------------------------------------------------------------- packing


def pack_classes(target: Tensor, top: TopPredictions | None) -> Tensor:
    """Shape (rows, words), int32: class labels, and the likeliest classes with their mass."""
    words = [target.int().unsqueeze(1)]
    if top is not None:
        halves = torch.stack([top.classes.short(), top.mass.half().view(torch.int16)], dim=2)
        words.append(halves.view(torch.int32).squeeze(2))
    return torch.cat(words, 1)


def unpack_classes(words: Tensor) -> tuple[Tensor, TopPredictions | None]:
    """The inverse of `pack_classes`."""
    target = words[:, 0].long()
    if words.shape[1] == 1:
        return target, None
    halves = words[:, 1:].contiguous().view(torch.int16).view(len(words), -1, 2)
    mass = halves[:, :, 1].contiguous().view(torch.float16).float()
    return target, TopPredictions(halves[:, :, 0].long(), mass)


def pack_values(target: Tensor, predictions: Tensor | None) -> Tensor:
    """Shape (rows, words), int32: regression targets and predictions."""
    columns = [target] if predictions is None else [target, predictions.detach()]
    return torch.stack(columns, 1).contiguous().view(torch.int32)


def unpack_values(words: Tensor) -> tuple[Tensor, Tensor | None]:
    """The inverse of `pack_values`."""
    # `torch.bucketize` warns of columns that are not contiguous.
    columns = [column.contiguous() for column in words.contiguous().view(torch.float32).unbind(1)]
    return columns[0], columns[1] if len(columns) > 1 else None
