"""Small data use one thread, and what was set before comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from threadpoolctl import threadpool_info

from discrimloss.auditing.out_of_fold.threads import FEW_SAMPLES, limited_threads


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("samples", "threads", "expected"),
    [(FEW_SAMPLES, 0, 1), (FEW_SAMPLES + 1, 0, 2), (FEW_SAMPLES + 1, 1, 1), (10, 2, 2)],
)
def test_threads_follow_from_the_number_of_samples(
    samples: int, threads: int, expected: int
) -> None:
    with limited_threads(samples, threads):
        assert torch.get_num_threads() == expected
        if expected == 1:
            assert {pool["num_threads"] for pool in threadpool_info()} == {1}
    assert torch.get_num_threads() == 2


def test_threads_are_restored_after_an_error() -> None:
    with pytest.raises(KeyError), limited_threads(10):
        raise KeyError
    assert torch.get_num_threads() == 2
