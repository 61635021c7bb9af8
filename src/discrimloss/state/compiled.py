"""Compiled training steps: what the compiler may take as constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def constant_while_compiled(function: Function) -> Function:
    """Mark a function that `torch.compile` calls once, to take its result as constant.

    As `torch.compiler.assume_constant_result` does, which imports the compiler. That takes as long
    as to import PyTorch, and most programs never compile anything.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
