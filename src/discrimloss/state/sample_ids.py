"""Maps ids of samples to rows of the table."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from discrimloss.state.processes import Processes

SampleId = str | int

FEWEST_RECENT = 1024  # new ids are in a dict until there are this many


@dataclass(frozen=True)
class KnownNames:
    """The number and the checksum of the ids when `SampleIds.mark` was called."""

    number: int
    checksum: int

    def __len__(self) -> int:
        return self.number


class SampleIds(nn.Module):
    """Maps ids of samples, strings or integers, to rows in the order of their first appearance.

    An id always keeps its row. So every sample keeps its history if data is filtered, split again
    or appended. The ids are saved with the state.

    >>> ids = SampleIds(["cat-1", "cat-2"])
    >>> ids.rows(["cat-2", "dog-1", "cat-2"])
    tensor([1, 2, 1])
    >>> ids.names()
    ['cat-1', 'cat-2', 'dog-1']

    An id takes about 20 bytes plus its own length. Ids are found by their sorted hashes. A match is
    compared with the id itself, so that ids with equal hashes remain distinct.

    Args:
        ids: Initial ids, without duplicates.
        grow: Whether an unknown id gets a new row. Otherwise it is an error.
    """

    def __init__(self, ids: Iterable[SampleId] = (), *, grow: bool = True) -> None:
        super().__init__()
        self.grow = grow
        self._forget()
        for position, name in enumerate(_as_names(ids)):
            if self._add(_encoded(name)) < position:
                raise ValueError(
                    f"sample id {name!r} appears twice, the second time at position {position}: "
                    "ids must be unique"
                )

    def _forget(self) -> None:
        self._text = bytearray()  # all ids, concatenated
        self._checksum = 0  # of the ids in order
        self._ends = array("q")  # the end of each id
        self._hashes: npt.NDArray[np.int64] = np.empty(0, np.int64)  # sorted
        self._hash_rows: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._recent: dict[int, int] = {}  # hash to row, not in the arrays yet
        self._collided: dict[bytes, int] = {}  # ids whose hash was already used

    def __len__(self) -> int:
        return len(self._ends)

    def __contains__(self, name: object) -> bool:
        try:
            return self._find(_encoded(name)) is not None
        except TypeError:  # not an id
            return False

    @property
    def checksum(self) -> int:
        """Checksum of all ids in order, by which processes compare their ids."""
        return self._checksum

    def names(self) -> list[SampleId]:
        """Return all ids, in the order of their rows."""
        return [_decoded(self._encoded_at(row)) for row in range(len(self))]

    def rows(self, ids: Any, processes: Processes | None = None) -> Tensor:
        """Return the rows of some ids, shape (number,), int64.

        Args:
            ids: Ids, in a list, an array or a tensor.
            processes: Processes that must give new ids the same rows. All of them must call this.

        Raises:
            KeyError: if an id is unknown and new ids are not allowed.
        """
        names = _as_names(ids)
        encoded = [_encoded(name) for name in names]
        rows = [self._find(text) for text in encoded]
        if not self.grow and None in rows:
            raise KeyError(
                f"sample id {names[rows.index(None)]!r} is not known: "
                "add it to SampleIds, or allow new ids with grow=True"
            )
        if self.grow and processes is not None and processes.count > 1:
            unknown = [text for text, row in zip(encoded, rows, strict=True) if row is None]
            for found in processes.all_gather_objects(unknown):
                for text in found:
                    self._add(text)
        known = [
            self._add(text) if row is None else row for text, row in zip(encoded, rows, strict=True)
        ]
        return torch.tensor(known, dtype=torch.int64)

    def mark(self) -> KnownNames:
        """Return what `back_to` needs to restore the current ids."""
        return KnownNames(len(self), self._checksum)

    def back_to(self, known: KnownNames) -> None:
        """Remove all ids that were added after `known` was returned by `mark`."""
        del self._ends[known.number :]
        del self._text[self._ends[-1] if self._ends else 0 :]
        self._checksum = known.checksum
        kept = self._hash_rows < known.number
        self._hashes, self._hash_rows = self._hashes[kept], self._hash_rows[kept]
        self._recent = {key: row for key, row in self._recent.items() if row < known.number}
        self._collided = {name: row for name, row in self._collided.items() if row < known.number}

    def _add(self, text: bytes) -> int:
        """Return the row of an id. A new id gets a new row."""
        found = self._find(text)
        if found is not None:
            return found
        row = len(self)
        self._text += text
        self._checksum = zlib.crc32(b"%d:" % len(text) + text, self._checksum)
        self._ends.append(len(self._text))
        key = _hash(text)
        if self._row_of_hash(key) is None:
            self._recent[key] = row
            if len(self._recent) > max(FEWEST_RECENT, len(self._hashes) // 4):
                self._sort_in()
        else:
            self._collided[text] = row
        return row

    def _find(self, text: bytes) -> int | None:
        row = self._row_of_hash(_hash(text))
        if row is None or self._encoded_at(row) == text:
            return row
        return self._collided.get(text)

    def _row_of_hash(self, key: int) -> int | None:
        position = int(self._hashes.searchsorted(key))
        if position < len(self._hashes) and self._hashes[position] == key:
            return int(self._hash_rows[position])
        return self._recent.get(key)

    def _sort_in(self) -> None:
        hashes = np.concatenate([self._hashes, np.fromiter(self._recent, np.int64)])
        rows = np.concatenate([self._hash_rows, np.fromiter(self._recent.values(), np.int32)])
        order = hashes.argsort(kind="stable")
        self._hashes, self._hash_rows, self._recent = hashes[order], rows[order], {}

    def _encoded_at(self, row: int) -> bytes:
        return bytes(self._text[self._ends[row - 1] if row else 0 : self._ends[row]])

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "text"] = torch.from_numpy(np.array(self._text, dtype=np.uint8))
        destination[prefix + "ends"] = torch.from_numpy(np.array(self._ends, dtype=np.int64))

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        *args: Any,
    ) -> None:
        """Load the saved ids with their rows. Other ids get the next rows."""
        missing = [prefix + key for key in ("text", "ends") if prefix + key not in state_dict]
        if missing:
            missing_keys += missing
            return
        known = [self._encoded_at(row) for row in range(len(self))]
        text = state_dict[prefix + "text"].cpu().numpy().tobytes()
        self._forget()
        start = 0
        for end in state_dict[prefix + "ends"].tolist():
            self._add(text[start:end])
            start = end
        for name in known:
            self._add(name)

    def extra_repr(self) -> str:
        """Return the text of `repr`."""
        return f"{len(self)} ids" + ("" if self.grow else ", grow=False")


def _hash(text: bytes) -> int:
    """Return a hash that is equal in all processes, unlike Python's `hash`."""
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)


def _encoded(name: object) -> bytes:
    """Encode an id as bytes. 7 and "7" are different ids."""
    if isinstance(name, str):
        return b"s" + name.encode(errors="surrogatepass")
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
        return b"i%d" % name
    raise TypeError(f"sample ids are strings or whole numbers, not {type(name).__name__}")


def _decoded(text: bytes) -> SampleId:
    return text[1:].decode(errors="surrogatepass") if text[:1] == b"s" else int(text[1:])


def number_of_names(ids: Any) -> int:
    """Return the number of ids in a batch, or raise an error if there are no ids."""
    return len(_as_names(ids))


def _as_names(ids: Any) -> Sequence[Any]:
    names = ids.tolist() if isinstance(ids, (Tensor, np.ndarray)) else ids
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise TypeError(f"sample ids must be a list with one id per row, not {names!r}")
    return list(names)
