from pathlib import Path

import numpy as np
import pytest

from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.features import Array, cache_file, cached_rows

ROWS = np.arange(14, dtype=np.float32).reshape(7, 2)


class Maker:
    def __init__(self, breaks_at: int | None = None) -> None:
        self.asked: list[tuple[int, int]] = []
        self.breaks_at = breaks_at

    def __call__(self, first: int, last: int) -> Array:
        if first == self.breaks_at:
            raise KeyboardInterrupt
        self.asked.append((first, last))
        return ROWS[first:last]


def test_rows_are_made_once(tmp_path: Path) -> None:
    path, make = tmp_path / "cache" / "rows.npy", Maker()
    assert np.array_equal(cached_rows(path, 7, make, 3), ROWS)
    assert np.array_equal(cached_rows(path, 7, make, 3), ROWS)
    assert make.asked == [(0, 3), (3, 6), (6, 7)]
    assert [file.name for file in path.parent.iterdir()] == ["rows.npy"]


@pytest.mark.parametrize("rest_of_a_row", [b"", b"\1\2\3"])
def test_an_interruption_costs_one_batch(tmp_path: Path, rest_of_a_row: bytes) -> None:
    path = tmp_path / "rows.npy"
    with pytest.raises(KeyboardInterrupt):
        cached_rows(path, 7, Maker(breaks_at=6), 3)
    assert not path.exists()
    with path.with_name("rows.npy.unfinished").open("ab") as file:
        file.write(rest_of_a_row)
    rest = Maker()
    assert np.array_equal(cached_rows(path, 7, rest, 3), ROWS)
    assert rest.asked == [(6, 7)]


def test_a_broken_beginning_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    path.with_name("rows.npy.unfinished").write_bytes(b"not an array")
    assert np.array_equal(cached_rows(path, 7, Maker(), 3), ROWS)


def test_every_part_of_the_key_counts(tmp_path: Path) -> None:
    names = {cache_file(tmp_path, "features", *key) for key in [("a", 1), ("a", 2), ("b", 1)]}
    assert len(names) == 3
    assert cache_file(tmp_path, "features", "a", 1) in names


def test_a_cache_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match=r"cannot keep .*choose another --out"):
        cached_rows(tmp_path / "file" / "rows.npy", 7, Maker(), 3)
