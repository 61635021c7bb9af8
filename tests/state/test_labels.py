"""Targets and predictions survive packing."""

import torch

from discrimloss.state.labels import pack_values, unpack_values


def test_regression_targets_are_unpacked_as_whole_columns() -> None:
    target, predictions = torch.tensor([1.5, -2.0]), torch.tensor([0.0, 1e-30])
    for given in (None, predictions):
        unpacked = unpack_values(pack_values(target, given))
        assert torch.equal(unpacked[0], target)
        assert (unpacked[1] is None) == (given is None)
        assert all(column.is_contiguous() for column in unpacked if column is not None)
    assert torch.equal(unpacked[1], predictions)  # type: ignore[arg-type]
