"""Modules whose state keeps its precision when the surrounding model is converted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class FixedDtypeModule(nn.Module):
    """A module whose state follows `.to(device)` but keeps its precision under `.half()`.

    A criterion inside a model is converted with the model. Its running averages would stop changing
    in half precision.

    Its buffers are saved, moved and copied like other buffers, but are not listed among the model's
    buffers. Otherwise, `AveragedModel(use_buffers=True)` would average epochs and booleans.
    """

    def __init__(self) -> None:
        super().__init__()
        self._persistent: dict[str, bool] = {}  # for each tensor of the state

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor to the state."""
        self._persistent[name] = persistent
        setattr(self, name, tensor)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        for name in self._persistent:
            setattr(self, name, keeping_dtype(fn)(getattr(self, name)))
        return super()._apply(keeping_dtype(fn), recurse)  # type: ignore[no-untyped-call]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, is_saved in self._persistent.items():
            if is_saved:
                destination[prefix + name] = getattr(self, name)

    @torch.no_grad()
    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        own = [name for name, is_saved in self._persistent.items() if is_saved]
        others = {
            key: value for key, value in state_dict.items() if key.removeprefix(prefix) not in own
        }
        super()._load_from_state_dict(
            others, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        for name in own:
            value, current = state_dict.get(prefix + name), getattr(self, name)
            if value is None:
                missing_keys.append(prefix + name)
            elif value.shape != current.shape:
                error_msgs.append(
                    f"{prefix}{name} has the shape {tuple(value.shape)} "
                    f"instead of {tuple(current.shape)}"
                )
            else:
                current.copy_(value)


def keeping_dtype(fn: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a function that moves tensors like `fn` does, but keeps their dtype."""

    def moved(tensor: Tensor) -> Tensor:
        after = fn(tensor)
        return after if after.dtype == tensor.dtype else tensor.to(after.device)

    return moved
