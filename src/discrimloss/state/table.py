"""The per-sample table: what DiscrimLoss remembers of each sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from discrimloss.state.exchange import WHOLE_TABLE, Shards
from discrimloss.state.sample_ids import SampleIds

MAX_SAMPLES = (1 << 31) - 1  # an index and the bits of a loss share one 64-bit sort key
MAX_VISITS = torch.iinfo(torch.int16).max
ROWS_PER_CHUNK = 1 << 22

# Values of `learned_early`: whether the loss was below k1 when stage 1 ended.
NOT_KNOWN, NO, YES = -1, 0, 1


class FixedDtypeModule(nn.Module):
    """A module whose state follows `.to(device)` but keeps its precision under `.half()`.

    A criterion inside a model is converted with it. Running averages in half precision would stop
    moving.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        return super()._apply(_keeping_dtype(fn), recurse)  # type: ignore[no-untyped-call]


def _keeping_dtype(fn: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def moved(tensor: Tensor) -> Tensor:
        after = fn(tensor)
        return after if after.dtype == tensor.dtype else tensor.to(after.device)

    return moved


class SampleTable(nn.Module):
    """One row per sample: 11 bytes, or 15 with a velocity.

    The columns are saved, moved and copied like buffers, but are no buffers. Wrappers such as
    `DistributedDataParallel` broadcast all buffers of a model in every step. That is slow for a
    large table, and wrong for a sharded one.

    | column          | dtype   | what                                                        |
    |-----------------|---------|-------------------------------------------------------------|
    | `history`       | float32 | ``h``, the decayed sum of losses                            |
    | `visits`        | int16   | ``n``; stays at 32,767, where ``0.999 ** n`` is 0            |
    | `log_weight`    | float32 | ``log delta``                                               |
    | `learned_early` | int8    | whether ``Avg(l) < k1`` when stage 1 ended; -1 until then   |
    | `velocity`      | float32 | momentum of `log_weight`, of the released form only         |

    Args:
        num_samples: Number of samples, in all processes together.
        ids: Names of the samples, if they are known by names.
        with_velocity: Whether there is a column `velocity`.
        shards: How the rows are divided among processes; by default every process has them all.
    """

    history: Tensor
    visits: Tensor
    log_weight: Tensor
    learned_early: Tensor
    velocity: Tensor

    def __init__(
        self,
        num_samples: int,
        *,
        ids: SampleIds | None = None,
        with_velocity: bool = False,
        shards: Shards | None = None,
    ) -> None:
        super().__init__()
        self.ids = ids
        self.shards = shards or WHOLE_TABLE
        self.num_samples = num_samples
        """Number of samples of all processes; this one holds ``len(table)`` rows."""
        self.is_partial = False
        """Whether `state_dict` is about the rows of this process only."""
        self._columns: dict[str, tuple[torch.dtype, int]] = {  # dtype and initial value
            "history": (torch.float32, 0),
            "visits": (torch.int16, 0),
            "log_weight": (torch.float32, 0),
            "learned_early": (torch.int8, NOT_KNOWN),
        }
        if with_velocity:
            self._columns["velocity"] = (torch.float32, 0)
        self._allocated: dict[str, Tensor] = {}  # columns with room for more rows
        length = self.shards.length(num_samples)
        for name, (dtype, initial) in self._columns.items():
            setattr(self, name, torch.full((length,), initial, dtype=dtype))
        self.register_load_state_dict_post_hook(_add_rows_of_new_ids)  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return self.history.shape[0]

    @property
    def bytes_per_sample(self) -> int:
        """Bytes of state that each sample takes."""
        return sum(column.element_size() for _, column in self.columns())

    def columns(self) -> Iterator[tuple[str, Tensor]]:
        """Iterate over the columns and their names."""
        return ((name, getattr(self, name)) for name in self._columns)

    def chunks(self) -> Iterator[slice]:
        """Iterate over slices that cover the table, for operations that need extra memory."""
        for start in range(0, max(len(self), 1), ROWS_PER_CHUNK):  # an empty table has one slice
            yield slice(start, min(start + ROWS_PER_CHUNK, len(self)))

    def whole(self, column: Tensor) -> Tensor:
        """Return a column with the rows of all processes. All of them must call this."""
        return self.shards.whole_column(column, self.num_samples)

    def all_visited_twice(self) -> bool:
        """Whether there are visits, and no sample of this process has just one."""
        seen = self.visits[self.visits > 0]
        return len(seen) > 0 and int(seen.min()) > 1

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._allocated = {}  # stays behind on the old device
        for name, column in self.columns():
            setattr(self, name, _keeping_dtype(fn)(column))
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    # ------------------------------------------------------------------ growing

    def resize(self, num_samples: int, *, with_room: bool = False) -> None:
        """Append rows in their initial state; existing rows keep theirs.

        Args:
            num_samples: New number of samples.
            with_room: Whether to allocate half as much again, so that a table that grows sample by
                sample is not copied every time.
        """
        if num_samples < self.num_samples:
            raise ValueError(
                f"cannot resize from {self.num_samples} to {num_samples} samples: that would throw "
                "away what is known of the last ones; build a new DiscrimLoss to start over"
            )
        length = self.shards.length(num_samples)
        for name, column in self.columns():
            allocated = self._allocated.get(name)
            is_current = allocated is not None and allocated.data_ptr() == column.data_ptr()
            if allocated is None or not is_current or len(allocated) < length:
                size = max(length, 3 * len(column) // 2) if with_room else length
                allocated = column.new_full((size,), self._columns[name][1])
                allocated[: len(column)] = column
                self._allocated[name] = allocated
            setattr(self, name, allocated[:length])
        self.num_samples = num_samples

    def restart(self, num_samples: int) -> None:
        """Reset to the initial state, with another number of samples."""
        length = self.shards.length(num_samples)
        self._allocated = {}
        for name, column in self.columns():
            setattr(self, name, column.new_full((length,), self._columns[name][1]))
        self.num_samples = num_samples

    def rows_of(self, names: Any) -> Tensor:
        """Return the rows of some names, and add rows for new names."""
        assert self.ids is not None
        rows = self.ids.rows(names, self.shards.processes)
        self.grow_with_ids()
        return rows

    def grow_with_ids(self) -> None:
        """Add a row for every name that has none yet."""
        if self.ids is not None and len(self.ids) > self.num_samples:
            self.resize(len(self.ids), with_room=True)

    # ---------------------------------------------------------- saving and loading

    @contextmanager
    def own_rows_only(self) -> Iterator[None]:
        """Within the block, `state_dict` and `load_state_dict` are about this process's rows."""
        self.is_partial = True
        try:
            yield
        finally:
            self.is_partial = False

    def make_fit(self, saved_samples: int, *, has_ids: bool) -> None:
        """Prepare for loading a state of this many samples, or raise an error that says why not."""
        if has_ids != (self.ids is not None):
            raise ValueError(
                "the saved state knows its samples by ids: give DiscrimLoss ids=SampleIds()"
                if has_ids
                else "the saved state knows its samples by position, not by ids: "
                f"give DiscrimLoss num_samples={saved_samples}"
            )
        if self.ids is not None:
            self.restart(saved_samples)  # the saved names come with the saved rows
        elif saved_samples != self.num_samples:
            grow = f", load, then resize({self.num_samples})"
            raise ValueError(
                f"the saved state holds {saved_samples} samples, this DiscrimLoss "
                f"{self.num_samples}: build it with num_samples={saved_samples}"
                + (grow if saved_samples < self.num_samples else "")
            )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        self.grow_with_ids()
        for name, column in self.columns():
            if not self.is_partial and self.shards.several:
                column = self.whole(column)
            elif len(self._allocated.get(name, column)) > len(column):
                column = column.clone()  # a slice would be saved with its whole storage
            destination[prefix + name] = column

    @torch.no_grad()
    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        saved = state_dict.get(prefix + "history")
        if saved is not None and not self.is_partial:
            self.make_fit(len(saved), has_ids=prefix + "ids.text" in state_dict)
        expected = [prefix + name for name in self._columns]
        missing_keys += [key for key in expected if key not in state_dict]
        ours = [key for key in state_dict if key.startswith(prefix)]
        ours = [key for key in ours if not key.startswith(prefix + "ids.")]
        unexpected_keys += [key for key in ours if key not in expected]
        for name, column in self.columns():
            if prefix + name not in state_dict:
                continue
            value = state_dict[prefix + name]
            value = value if self.is_partial else self.shards.own_part(value)
            if value.shape != column.shape:
                error_msgs.append(f"{prefix}{name} has {len(value)} rows instead of {len(column)}")
            else:
                column.copy_(value)


def _add_rows_of_new_ids(table: SampleTable, incompatible_keys: Any) -> None:
    """Add rows for the names that were not known when the loaded state was saved."""
    if table.ids is not None:
        table.resize(len(table.ids))
