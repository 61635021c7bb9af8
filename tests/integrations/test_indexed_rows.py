"""Indices travel beside the samples, and no collator sees them."""

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Subset, TensorDataset

from discrimloss import IndexedDataset
from discrimloss.integrations.indexed_rows import (
    INDEX_KEY,
    IndexedCollator,
    IndexedRow,
    IndexedRows,
)


def test_rows_keep_their_sample_and_their_original_position() -> None:
    data = [{"x": 10}, {"x": 11}, {"x": 12}]
    rows = IndexedRows(Subset(data, [2, 0]))
    assert rows[0] == IndexedRow({"x": 12}, 2)
    assert rows[-1] == IndexedRow({"x": 10}, 0)
    assert rows.__getitems__([1]) == [IndexedRow({"x": 10}, 0)]
    assert rows.num_samples == 3


def test_an_indexed_dataset_keeps_the_indices_it_was_given() -> None:
    rows = IndexedRows(IndexedDataset([{"x": 1}, {"x": 2}], index=[7, 3]))
    assert [row.index for row in rows] == [7, 3]
    assert rows[0].sample == {"x": 1}
    assert rows.num_samples == 8


def test_any_collator_gets_the_samples_alone() -> None:
    def collate(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, Any]:
        assert all(len(pair) == 2 for pair in pairs)
        return {"x": torch.stack([x for x, _ in pairs])}

    rows = IndexedRows(TensorDataset(torch.arange(5.0), torch.arange(5)))
    first, second = DataLoader(rows, batch_size=3, collate_fn=IndexedCollator(collate))
    assert first[INDEX_KEY].tolist() == [0, 1, 2]
    assert second["x"].tolist() == [3.0, 4.0]
    assert second[INDEX_KEY].dtype == torch.int64


def test_a_stream_is_refused() -> None:
    with pytest.raises(TypeError, match="map-style"):
        IndexedRows(iter([1, 2]))
