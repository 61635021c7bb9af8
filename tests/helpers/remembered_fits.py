"""Fits of the noise that are computed once, where several runs ask for the same one.

Tests compare runs that must be equal, so that most fits have been made before, to the same bits of
input. The fits themselves are tested in `tests/judging`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from discrimloss import judge

_found: dict[Hashable, Any] = {}


@contextmanager
def remembered_fits() -> Iterator[None]:
    """Within the block, fits to the same input are made once."""
    before = {name: judge._functions[name] for name in ("fit_noise", "target_errors")}
    judge.set_functions(**{name: _remembered(name, fit) for name, fit in before.items()})
    try:
        yield
    finally:
        judge.set_functions(**before)


def _remembered(name: str, fit: Callable[..., Any]) -> Callable[..., Any]:
    def found(*inputs: Tensor) -> Any:
        key = (name, *((each.dtype, each.shape, each.numpy().tobytes()) for each in inputs))
        if key not in _found:
            _found[key] = fit(*inputs)
        return copy.deepcopy(_found[key])

    return found
