"""The samples that a criterion remembers: by position or by name, in one process or in many."""

from __future__ import annotations

import zlib
from typing import Any

import torch
from torch import Tensor

from discrimloss.hyperparameters import Hyperparameters, Variant, require_whole_number
from discrimloss.state.processes import Gathered, Processes
from discrimloss.state.sample_ids import SampleIds
from discrimloss.state.shards import Shards
from discrimloss.state.table import MAX_SAMPLES, SampleTable, checked_index
from discrimloss.tracking import LossTracker


class SampleMemory(LossTracker):
    """The table of all samples, the epoch, and what else is saved of a run.

    Args:
        hyperparameters: a complete set.
        variant: ``"released"`` keeps a velocity for each sample.
        num_samples: see `DiscrimLoss`, here and below.
        ids: names of the samples, in place of their number.
        sharded: whether each row is kept by one process only.
        process_group: the processes that share the table.
    """

    epoch_count: Tensor

    def __init__(
        self,
        hyperparameters: Hyperparameters,
        variant: Variant,
        num_samples: int | None,
        *,
        ids: SampleIds | None,
        sharded: bool,
        process_group: Any,
    ) -> None:
        if not isinstance(sharded, bool):
            raise TypeError(f"sharded must be True or False, not {sharded!r}")
        if ids is not None and not isinstance(ids, SampleIds):
            raise TypeError(f"ids must be a SampleIds, not {type(ids).__name__}: SampleIds(ids)")
        if ids is None:
            require_whole_number("num_samples", num_samples, 1, MAX_SAMPLES)
        elif num_samples is not None:
            raise ValueError("give num_samples or ids, not both: ids count themselves")
        super().__init__(hyperparameters)
        self.variant = variant
        self._options_checksum = zlib.crc32(f"{variant} {hyperparameters}".encode())
        self.processes = Processes(process_group)
        self.ids = ids
        self.table = SampleTable(
            int(num_samples or 0) if ids is None else len(ids),
            with_velocity=variant == "released",
            shards=Shards(self.processes, sharded=sharded),
        )
        self.register_buffer("epoch_count", torch.tensor(1))
        self.register_load_state_dict_post_hook(_make_room_for_known_ids)  # type: ignore[no-untyped-call]

    @property
    def epoch(self) -> int:
        """The current epoch, counted from 1."""
        return int(self.epoch_count)

    @property
    def num_samples(self) -> int:
        """Rows of the table, in all processes together."""
        return self.table.num_samples

    def resize(self, num_samples: int) -> None:
        """Make room for appended data: new samples start fresh, the others keep their state."""
        if self.ids is not None:
            raise ValueError("with ids the table grows by itself: add the new ones to `ids`")
        require_whole_number("num_samples", num_samples, 1, MAX_SAMPLES)
        self.table.resize(int(num_samples))

    def rows_of(self, names: Any) -> Tensor:
        """Rows of some names, new ones for those that are new."""
        assert self.ids is not None
        rows = self.ids.rows(names, self.processes)
        self.grow_with_ids()
        return rows

    def grow_with_ids(self) -> None:
        """A row for every name, wherever it was added."""
        if self.ids is not None and len(self.ids) > self.num_samples:
            self.table.resize(len(self.ids), with_room=True)

    def whole_batch(self, losses: Tensor, index: Tensor) -> Gathered:
        """The batch of all processes, where the table is; its indices are checked."""
        # The table stays where it was put; a batch from elsewhere visits it and comes back.
        home, losses = self.k1.device, losses.detach()
        self.table.shards.require_same_processes()
        if self.processes.count == 1:
            batch = Gathered(losses, index, [len(losses)], slice(None))
        else:
            batch = self.processes.gather_batch(
                losses, index, self.epoch, self.num_samples, self._fingerprint()
            )
            checked_index(index.to(home), self.num_samples)  # its positions mean something here
        rows = checked_index(batch.index.to(home), self.num_samples)
        return Gathered(batch.losses.to(home, torch.float32), rows, batch.numbers, batch.own)

    def _fingerprint(self) -> int:
        """Of what must be equal in all processes, and is not if one of them was told otherwise."""
        names = 0 if self.ids is None else self.ids.checksum
        return zlib.crc32(b"%d %d" % (names, int(self.visits_seen)), self._options_checksum)

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Whether `accelerator.prepare` leaves the criterion as it is, and only keeps it in mind.

        Among several processes without a GPU it must: Accelerate would wrap it with DDP, which
        refuses modules that have no parameters.
        """
        return self.processes.count > 1 and not torch.cuda.is_available()

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, value: bool) -> None:
        """What Accelerate notes is no news."""

    def refresh_derived(self) -> None:
        """Bring everything that is not saved in line with what is."""
        self._past_first_epoch = bool(self.past_first_epoch)
        if not isinstance(self.hyperparameters.threshold, str):
            self.k1.fill_(self.hyperparameters.threshold)
        self.refresh_tracked_terms()

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        self.grow_with_ids()  # before the table is saved
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def make_fit(self, saved_samples: int, *, has_ids: bool) -> None:
        """Be ready to load a state of so many samples, or say why that cannot be."""
        if has_ids != (self.ids is not None):
            raise ValueError(
                "the saved state knows its samples by ids: give DiscrimLoss ids=SampleIds()"
                if has_ids
                else "the saved state knows its samples by position, not by ids: "
                f"give DiscrimLoss num_samples={saved_samples}"
            )
        if self.ids is not None:
            self.table.restart(saved_samples)  # the saved names come with the saved rows
        elif saved_samples != self.num_samples:
            grow = f", load, then resize({self.num_samples})"
            raise ValueError(
                f"the saved state holds {saved_samples} samples, this DiscrimLoss "
                f"{self.num_samples}: build it with num_samples={saved_samples}"
                + (grow if saved_samples < self.num_samples else "")
            )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        saved = state_dict.get(prefix + "table.history")
        if saved is not None and not self.table.is_partial:
            self.make_fit(len(saved), has_ids=prefix + "ids.text" in state_dict)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        self.refresh_derived()


def _make_room_for_known_ids(memory: SampleMemory, incompatible_keys: Any) -> None:
    """Names that are known here and were not when the state was saved: rows of their own."""
    if memory.ids is not None:
        memory.table.resize(len(memory.ids))
