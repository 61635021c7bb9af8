"""Avoids a second forward pass of networks that are called twice with the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def computed_once(networks: Iterable[nn.Module]) -> Iterator[None]:
    """Within the block, a network called again with the same object returns its last output."""
    changed = list(networks)
    for network in changed:
        network.forward = _remembering(network.forward)
    try:
        yield
    finally:
        for network in changed:
            del network.forward  # restores the method of the class


def _remembering(forward: Callable[[Any], Any]) -> Callable[[Any], Any]:
    seen: list[tuple[Any, Any]] = []

    def remembered(inputs: Any) -> Any:
        if not seen or seen[0][0] is not inputs:
            seen[:] = [(inputs, forward(inputs))]
        return seen[0][1]

    return remembered
