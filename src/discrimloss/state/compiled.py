"""Marks functions whose result is constant in compiled training steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def constant_while_compiled(function: Function) -> Function:
    """Mark a function whose result `torch.compile` treats as constant.

    This is `torch.compiler.assume_constant_result` without its import of the compiler, which takes
    as long as importing PyTorch. Most programs never compile anything.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
