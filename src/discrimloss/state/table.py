"""The state table of DiscrimLoss: one row per sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from discrimloss.state.batch_checks import REFUSALS
from discrimloss.state.compiled import constant_while_compiled
from discrimloss.state.exchange import WHOLE_TABLE, Shards
from discrimloss.state.fixed_dtype import keeping_dtype
from discrimloss.state.sample_ids import SampleIds

MAX_SAMPLES = (1 << 31) - 1  # an index and the bits of a loss share one 64-bit sort key
MAX_VISITS = torch.iinfo(torch.int16).max
ROWS_PER_CHUNK = 1 << 22

# Values of `learned_early`: whether the loss was below k1 when stage 1 ended.
NOT_KNOWN, NO, YES = -1, 0, 1
# Values of `role`: whether the sample is learned from, or held out to detect memorisation.
UNDECIDED, TRAINED, HELD_OUT = 0, 1, 2
LATEST_LOSS = "latest_loss"  # states of older versions lack it
NOT_SEEN = float("-inf")  # in `latest_loss`
NO_CLASS = -1  # `target` of a sample that was never visited


@dataclass(frozen=True)
class Column:
    """One column of the table."""

    dtype: torch.dtype
    initial: float = 0
    """The value of a sample that was never visited."""
    width: int | None = None
    """Number of values per sample; None for a column of shape (rows,)."""

    def filled(self, rows: int, device: torch.device | None = None) -> Tensor:
        """Return a column with this number of rows in their initial state."""
        shape = (rows,) if self.width is None else (rows, self.width)
        return torch.full(shape, self.initial, dtype=self.dtype, device=device)


CLASS_COLUMNS = {"target": Column(torch.int16, NO_CLASS), "role": Column(torch.int8, UNDECIDED)}
"""Additional columns of the form with class labels."""
RANGE_COLUMNS = {"target": Column(torch.float32, float("nan"))}
"""Additional columns of the form with regression targets."""


def prediction_columns(kept: int) -> dict[str, Column]:
    """Return the columns of averaged predictions. See `state.predictions`."""
    return {
        "predicted_class": Column(torch.int16, 0, kept),
        "predicted_mass": Column(torch.float16, 0, kept),
        "predicted_visits": Column(torch.int8, 0),
    }


MEAN_PREDICTION_COLUMNS = {
    "mean_prediction": Column(torch.float32),
    "trust": Column(torch.float16, 1),
    "predicted_visits": Column(torch.int8, 0),
}
"""Columns of averaged predictions of a regression, and of the trust in targets."""


class SampleTable(nn.Module):
    """One row per sample: 13 bytes, or 15 with a velocity.

    The columns are saved, moved and copied like buffers, but are not buffers. Wrappers such as
    `DistributedDataParallel` broadcast all buffers of a model in every step. This would be slow for
    a large table, and wrong for a sharded one.

    | column          | dtype   | content                                                     |
    |-----------------|---------|-------------------------------------------------------------|
    | `history`       | float32 | ``h``, the decayed sum of losses                            |
    | `visits`        | int16   | ``n``, at most 32,767, where ``0.999 ** n`` is 0             |
    | `latest_loss`   | bfloat16 | loss of the latest visit; -inf before. Not with a velocity |
    | `log_weight`    | float32 | ``log delta``                                               |
    | `learned_early` | int8    | whether ``Avg(l) < k1`` when stage 1 ended; -1 until then   |
    | `velocity`      | float32 | momentum of `log_weight`, of the released form only         |

    The forms with targets have more columns. `add_optional_columns` adds those of predictions.

    Args:
        num_samples: Number of samples, in all processes together.
        ids: Ids of the samples, if they have ids.
        with_velocity: Whether there is a column `velocity`.
        more_columns: Further columns.
        optional_columns: Columns that are added with the first predictions, or with a loaded state
            that has them.
        shards: Division of the rows among processes. By default every process has all rows.
    """

    history: Tensor
    visits: Tensor
    latest_loss: Tensor
    log_weight: Tensor
    learned_early: Tensor
    velocity: Tensor
    target: Tensor
    role: Tensor
    predicted_class: Tensor
    predicted_mass: Tensor
    predicted_visits: Tensor
    mean_prediction: Tensor
    trust: Tensor

    def __init__(
        self,
        num_samples: int,
        *,
        ids: SampleIds | None = None,
        with_velocity: bool = False,
        more_columns: dict[str, Column] | None = None,
        optional_columns: dict[str, Column] | None = None,
        shards: Shards | None = None,
    ) -> None:
        super().__init__()
        self.ids = ids
        self.shards = shards or WHOLE_TABLE
        self.num_samples = num_samples
        """Number of samples of all processes. This process has ``len(table)`` rows."""
        self.is_partial = False
        """Whether `state_dict` contains only the rows of this process."""
        self._columns: dict[str, Column] = {}
        self._optional = optional_columns or {}
        self._allocated: dict[str, Tensor] = {}  # columns with space for more rows
        self._length = self.shards.length(num_samples)
        self._add_columns(
            {
                "history": Column(torch.float32),
                "visits": Column(torch.int16),
                "log_weight": Column(torch.float32),
                "learned_early": Column(torch.int8, NOT_KNOWN),
            }
        )
        if with_velocity:
            self._add_columns({"velocity": Column(torch.float32)})
        else:
            self._add_columns({LATEST_LOSS: Column(torch.bfloat16, NOT_SEEN)})
        self._add_columns(more_columns or {})
        self.register_load_state_dict_post_hook(_add_rows_of_new_ids)  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return self._length

    def _add_columns(self, columns: dict[str, Column]) -> None:
        """Add columns with all samples in their initial state."""
        for name, column in columns.items():
            device = self.history.device if self._columns else None
            self._columns[name] = column
            setattr(self, name, column.filled(self._length, device))

    def has_column(self, name: str) -> bool:
        """Return whether the table has this column."""
        return name in self._columns

    # Both methods run during compilation, so that a step is not compiled again for the columns that
    # its first batch adds.

    @constant_while_compiled
    def has_optional_columns(self) -> bool:
        """Return whether the optional columns were added."""
        return bool(self._optional) and self._optional.keys() <= self._columns.keys()

    @constant_while_compiled
    def add_optional_columns(self) -> bool:
        """Add the optional columns if they are missing."""
        if not self.has_optional_columns():
            self._add_columns(self._optional)
        return True

    def _remove_optional_columns(self) -> None:
        for name in self._optional:
            if self._columns.pop(name, None) is not None:
                delattr(self, name)
                self._allocated.pop(name, None)

    @property
    def bytes_per_sample(self) -> int:
        """Return the number of bytes per sample."""
        return sum(
            column.element_size() * (self._columns[name].width or 1)
            for name, column in self.columns()
        )

    def columns(self) -> Iterator[tuple[str, Tensor]]:
        """Iterate over the columns and their names."""
        return ((name, getattr(self, name)) for name in self._columns)

    def chunks(self) -> Iterator[slice]:
        """Iterate over slices of the table, for operations that need extra memory."""
        for start in range(0, max(len(self), 1), ROWS_PER_CHUNK):  # an empty table has one slice
            yield slice(start, min(start + ROWS_PER_CHUNK, len(self)))

    def whole(self, column: Tensor) -> Tensor:
        """Return a column with the rows of all processes. All of them must call this."""
        return self.shards.whole_column(column, self.num_samples)

    def all_visited_twice(self) -> bool:
        """Return whether there are visits, and no sample of this process has exactly one."""
        seen = self.visits[self.visits > 0]
        return len(seen) > 0 and int(seen.min()) > 1

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._allocated = {}  # they are on the old device
        for name, column in self.columns():
            setattr(self, name, keeping_dtype(fn)(column))
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    # ------------------------------------------------------------------ growing

    def resize(self, num_samples: int, *, with_room: bool = False) -> None:
        """Append rows in their initial state. Existing rows keep their state.

        Args:
            num_samples: New number of samples.
            with_room: Whether to reserve memory for half as many rows again, so that a table that
                grows sample by sample is not copied every time.
        """
        if num_samples < self.num_samples:
            raise ValueError(
                f"cannot resize from {self.num_samples} to {num_samples} samples: that would "
                "delete the state of the last samples; build a new DiscrimLoss to start over"
            )
        length = self.shards.length(num_samples)
        for name, column in self.columns():
            allocated = self._allocated.get(name)
            is_current = allocated is not None and allocated.data_ptr() == column.data_ptr()
            if allocated is None or not is_current or len(allocated) < length:
                size = max(length, 3 * len(column) // 2) if with_room else length
                allocated = self._columns[name].filled(size, column.device)
                allocated[: len(column)] = column
                self._allocated[name] = allocated
            setattr(self, name, allocated[:length])
        self.num_samples, self._length = num_samples, length

    def restart(self, num_samples: int) -> None:
        """Reset to the initial state with another number of samples."""
        length = self.shards.length(num_samples)
        self._allocated = {}
        for name, column in self.columns():
            setattr(self, name, self._columns[name].filled(length, column.device))
        self.num_samples, self._length = num_samples, length

    def rows_of(self, names: Any) -> Tensor:
        """Return the rows of some ids, and add rows for new ids."""
        assert self.ids is not None
        rows = self.ids.rows(names, self.shards.processes)
        self.grow_with_ids()
        return rows

    @contextmanager
    def names_of_accepted_batches(self) -> Iterator[None]:
        """Return a context that removes ids added by a batch if the batch is refused."""
        assert self.ids is not None
        self.grow_with_ids()
        known = self.ids.mark()
        try:
            yield
        except REFUSALS:
            if len(self.ids) > len(known):
                self.ids.back_to(known)
                self._drop_rows_from(len(known))
            raise

    def _drop_rows_from(self, num_samples: int) -> None:
        """Remove rows that were added and never changed."""
        length = self.shards.length(num_samples)
        for name, column in self.columns():
            setattr(self, name, column[:length])
        self.num_samples, self._length = num_samples, length

    def grow_with_ids(self) -> None:
        """Add a row for every id without a row."""
        if self.ids is not None and len(self.ids) > self.num_samples:
            self.resize(len(self.ids), with_room=True)

    # ---------------------------------------------------------- saving and loading

    @contextmanager
    def own_rows_only(self) -> Iterator[None]:
        """Return a context in which the state dict has only this process's rows."""
        self.is_partial = True
        try:
            yield
        finally:
            self.is_partial = False

    def make_fit(self, saved_samples: int, *, has_ids: bool) -> None:
        """Prepare the table for a saved state of this many samples, or raise an error."""
        if has_ids != (self.ids is not None):
            raise ValueError(
                "the saved state has samples with ids: build DiscrimLoss with ids=SampleIds()"
                if has_ids
                else "the saved state has samples without ids: "
                f"build DiscrimLoss with num_samples={saved_samples}"
            )
        if self.ids is not None:
            self.restart(saved_samples)  # the saved ids are loaded with the saved rows
        elif saved_samples != self.num_samples:
            grow = f", load, then resize({self.num_samples})"
            raise ValueError(
                f"the saved state has {saved_samples} samples, but this DiscrimLoss has "
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
        if saved is not None:
            if any(prefix + name in state_dict for name in self._optional):
                self.add_optional_columns()
            else:
                self._remove_optional_columns()
        expected = [prefix + name for name in self._columns]
        missing_keys += [
            key for key in expected if key not in state_dict and key != prefix + LATEST_LOSS
        ]
        ours = [key for key in state_dict if key.startswith(prefix)]
        ours = [key for key in ours if not key.startswith(prefix + "ids.")]
        unexpected_keys += [key for key in ours if key not in expected]
        for name, column in self.columns():
            if prefix + name not in state_dict:
                if name == LATEST_LOSS:
                    column.fill_(self._columns[name].initial)
                continue
            value = state_dict[prefix + name]
            value = value if self.is_partial else self.shards.own_part(value)
            if value.shape != column.shape:
                error_msgs.append(
                    f"{prefix}{name} has the shape {tuple(value.shape)} "
                    f"instead of {tuple(column.shape)}"
                )
            else:
                column.copy_(value)


def _add_rows_of_new_ids(table: SampleTable, incompatible_keys: Any) -> None:
    """Add rows for ids that the loaded state does not have."""
    if table.ids is not None:
        table.resize(len(table.ids))
