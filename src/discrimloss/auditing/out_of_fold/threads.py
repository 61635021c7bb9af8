"""Limits the threads of simple models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

FEW_SAMPLES = 10_000
"""Up to this number of samples, one thread is not slower than several, which mostly wait for each
other. On a busy machine, several threads take ten times as long."""


@contextmanager
def limited_threads(samples: int, threads: int = 0) -> Iterator[None]:
    """Limit the threads of scikit-learn, of linear algebra and of torch.

    Args:
        samples: number of samples.
        threads: number of CPU threads. 0 means one for few samples, otherwise all.
    """
    # Imported first, because only loaded libraries can be limited.
    import sklearn.ensemble
    import sklearn.linear_model  # noqa: F401
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    limit = threads or (1 if samples <= FEW_SAMPLES else None)
    before = torch.get_num_threads()
    if limit is not None:
        torch.set_num_threads(limit)
    try:
        with threadpool_limits(limit):
            yield
    finally:
        torch.set_num_threads(before)
