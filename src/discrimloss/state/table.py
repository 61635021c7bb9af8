"""The per-sample table: what DiscrimLoss remembers of each sample, keyed by sample index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from discrimloss.state.shards import WHOLE_TABLE, Shards

MAX_SAMPLES = (1 << 31) - 1  # an index and the bits of a loss share one 64-bit sort key
MAX_VISITS = torch.iinfo(torch.int16).max
ROWS_PER_CHUNK = 1 << 22
GROWTH = 3  # halves: a table that grows as samples appear is half as large again each time

# What `learned_early` holds: whether the loss was below k1 when stage 1 ended.
NOT_KNOWN, NO, YES = -1, 0, 1


class FixedDtypeModule(nn.Module):
    """A module whose state follows `.to(device)` but keeps its precision under `.half()`.

    A criterion held inside a model is swept along when the model is cast down; running averages
    in half precision would stop moving.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        return super()._apply(_keeping_dtype(fn), recurse)  # type: ignore[no-untyped-call]


def _keeping_dtype(fn: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def moved(tensor: Tensor) -> Tensor:
        after = fn(tensor)
        return after if after.dtype == tensor.dtype else tensor.to(after.device)

    return moved


class SampleTable(nn.Module):
    """One row per sample: 11 bytes, 15 with momentum.

    The columns are saved, moved and copied like buffers, but are none: a wrapper such as
    `DistributedDataParallel` sends all buffers of a model round in every step, which for a table
    that all processes keep alike is slow, and for one that is divided among them fatal.

    | column          | dtype   | what                                                        |
    |-----------------|---------|-------------------------------------------------------------|
    | `history`       | float32 | ``h``, the decayed sum of losses                            |
    | `visits`        | int16   | ``n``; stays at 32,767, where ``0.999 ** n`` is 0            |
    | `log_weight`    | float32 | ``log delta``                                               |
    | `learned_early` | int8    | whether ``Avg(l) < k1`` when stage 1 ended; -1 until then   |
    | `velocity`      | float32 | momentum of `log_weight`, of the released variant only      |
    """

    history: Tensor
    visits: Tensor
    log_weight: Tensor
    learned_early: Tensor
    velocity: Tensor

    COLUMNS: ClassVar[dict[str, tuple[torch.dtype, int]]] = {
        "history": (torch.float32, 0),
        "visits": (torch.int16, 0),
        "log_weight": (torch.float32, 0),
        "learned_early": (torch.int8, NOT_KNOWN),
    }

    def __init__(
        self, num_samples: int, *, with_velocity: bool = False, shards: Shards | None = None
    ) -> None:
        super().__init__()
        self.shards = shards or WHOLE_TABLE
        self.num_samples = num_samples
        """Of all processes; this one holds `len` of them."""
        self.is_partial = False
        self._with_room: dict[str, Tensor] = {}
        columns = dict(self.COLUMNS)
        if with_velocity:
            columns["velocity"] = (torch.float32, 0)
        length = self.shards.length(num_samples)
        self._names = tuple(columns)
        for name, (dtype, default) in columns.items():
            setattr(self, name, torch.full((length,), default, dtype=dtype))

    def __len__(self) -> int:
        return self.history.shape[0]

    @property
    def bytes_per_sample(self) -> int:
        """Bytes of state that one more sample costs."""
        return sum(column.element_size() for _, column in self.columns())

    def columns(self) -> Iterator[tuple[str, Tensor]]:
        """Every column with its name."""
        return ((name, getattr(self, name)) for name in self._names)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._with_room = {}  # what was set aside stays behind, and must not be kept in memory
        for name, column in self.columns():
            setattr(self, name, _keeping_dtype(fn)(column))
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def resize(self, num_samples: int, *, with_room: bool = False) -> None:
        """Append rows in their initial state; existing rows keep theirs.

        With room, some more is set aside, so that growing sample by sample copies each of them a
        few times and not every time.
        """
        if num_samples < self.num_samples:
            raise ValueError(
                f"cannot resize from {self.num_samples} to {num_samples} samples: that would throw "
                "away what is known of the last ones; build a new DiscrimLoss to start over"
            )
        length = self.shards.length(num_samples)
        for name, column in self.columns():
            roomy = self._with_room.get(name)
            if roomy is None or len(roomy) < length or roomy.data_ptr() != column.data_ptr():
                room = max(length, GROWTH * len(column) // 2) if with_room else length
                roomy = column.new_full((room,), self._default(name))
                roomy[: len(column)] = column
                self._with_room[name] = roomy
            setattr(self, name, roomy[:length])
        self.num_samples = num_samples

    def restart(self, num_samples: int) -> None:
        """Forget everything, with another number of samples."""
        length = self.shards.length(num_samples)
        self._with_room = {}
        for name, column in self.columns():
            setattr(self, name, column.new_full((length,), self._default(name)))
        self.num_samples = num_samples

    @classmethod
    def _default(cls, name: str) -> int:
        return 0 if name == "velocity" else cls.COLUMNS[name][1]

    def whole(self, column: Tensor) -> Tensor:
        """A column with the rows of all processes. All of them must ask for it."""
        return self.shards.whole_column(column, self.num_samples)

    @contextmanager
    def own_rows_only(self) -> Iterator[None]:
        """Within the block, `state_dict` and `load_state_dict` are about this process's rows."""
        self.is_partial = True
        try:
            yield
        finally:
            self.is_partial = False

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, column in self.columns():
            if not self.is_partial and self.shards.several:
                column = self.whole(column)
            elif len(self._with_room.get(name, column)) > len(column):
                column = column.clone()  # a part of a storage is saved as all of it
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
        expected = [prefix + name for name in self._names]
        missing_keys += [key for key in expected if key not in state_dict]
        saved = [key for key in state_dict if key.startswith(prefix)]
        unexpected_keys += [key for key in saved if key not in expected]
        for name, column in self.columns():
            if prefix + name not in state_dict:
                continue
            value = state_dict[prefix + name]
            value = value if self.is_partial else self.shards.own_part(value)
            if value.shape != column.shape:
                error_msgs.append(f"{prefix}{name} has {len(value)} rows instead of {len(column)}")
            else:
                column.copy_(value)

    def all_visited_twice(self) -> bool:
        """Whether there are visits, and no sample of this process has just one."""
        seen = self.visits[self.visits > 0]
        return len(seen) > 0 and int(seen.min()) > 1

    def chunks(self) -> Iterator[slice]:
        """Slices that cover the table, so that whole-table work needs little extra memory."""
        for start in range(0, max(len(self), 1), ROWS_PER_CHUNK):  # one, if empty, of an empty one
            yield slice(start, min(start + ROWS_PER_CHUNK, len(self)))


def _kind(value: object) -> str:
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def as_sample_index(index: Tensor, losses: Tensor) -> Tensor:
    """`index` as int64, checked to hold one whole number for each of the losses."""
    if not isinstance(losses, Tensor) or not losses.is_floating_point():
        raise TypeError(f"losses must be a tensor of real numbers, not {_kind(losses)}")
    if losses.dim() != 1:
        raise ValueError(
            f"losses must have shape (batch,), one task loss each, not {tuple(losses.shape)}: "
            'compute the task loss with reduction="none"'
        )
    if index is None:
        raise TypeError("index is None: pass the sample index of each row")
    index = torch.as_tensor(index)
    if index.dtype == torch.bool or index.is_floating_point() or index.is_complex():
        raise TypeError(f"sample indices must be integers, not {index.dtype}")
    if index.shape != losses.shape:
        raise ValueError(
            f"index must have the shape of the losses, {tuple(losses.shape)}, "
            f"not {tuple(index.shape)}: one sample index for each loss"
        )
    return index.long()


def _raise_if_outside(index: Tensor, num_samples: int) -> None:
    lowest, highest = index.aminmax()
    if index.device.type != "cpu":
        # Asynchronous: the device stops at the bad index, the host never waits for it.
        inside = (lowest >= 0) & (highest < num_samples)
        torch._assert_async(inside, f"a sample index is outside 0 … {num_samples - 1}")
    elif int(lowest) < 0 or int(highest) >= num_samples:
        position = int(((index < 0) | (index >= num_samples)).nonzero()[0, 0])
        raise IndexError(
            f"sample index {int(index[position])} (row {position} of the batch) is out of range: "
            f"num_samples={num_samples}, so valid indices are 0 to {num_samples - 1}"
        )


@torch.library.custom_op("discrimloss::checked_index", mutates_args=())
def _checked_index(index: Tensor, num_samples: int) -> Tensor:
    _raise_if_outside(index, num_samples)
    return index.clone()


@_checked_index.register_fake
def _(index: Tensor, num_samples: int) -> Tensor:
    return torch.empty_like(index)


def checked_index(index: Tensor, num_samples: int) -> Tensor:
    """An `index` itself, or an `IndexError` that names the first one outside the table.

    Under `torch.compile` the check is an operator whose output everything else depends on, so it
    still comes before any state moves, and it needs no graph break.
    """
    if torch.compiler.is_compiling():
        checked: Tensor = _checked_index(index, num_samples)
        return checked
    if len(index) == 0:
        return index
    _raise_if_outside(index, num_samples)
    return index
