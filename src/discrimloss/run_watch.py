"""Notices a wrong use of the criterion while it happens, and warns of each kind once."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discrimloss.state.table import SampleTable

FEW_SAMPLES, FEW_SAMPLES_EARLY = 4, 16
"""Rows per seen sample that make an index suspicious, at the end of the first epoch and before it,
if most samples have no row."""
MOST_SEEN = 0.25
"""The largest fraction of seen samples for which an index is suspicious."""
EARLY_ROWS = 50_000
"""Rows after which an index is looked at before the first epoch ends."""
SECOND_PASS = 1.1
"""Rows over samples above which a second pass has begun, if the first has seen all samples."""
ALL_SEEN = 0.95
"""The fraction of the samples that counts as all; fewer are seen if they are drawn at random."""
FEWEST_SAMPLES = 100
"""Smallest number of samples from which anything is concluded."""


class RunWatch:
    """Counts rows and epochs on the host. It looks at the table a few times in a run, not in steps.

    Args:
        epochs: planned length of the run.
        passes_are_epochs: whether a second pass over the samples must be a new epoch.
    """

    def __init__(self, epochs: int | None, *, passes_are_epochs: bool = True) -> None:
        self.epochs = epochs
        self.passes_are_epochs = passes_are_epochs
        self._rows = 0  # since the current epoch began
        self._new_epochs = 0  # calls of `set_epoch` that began another epoch
        self._looked_at_index = self._looked_at_passes = False
        self._warned: set[str] = set()

    def count(self, rows: int, table: SampleTable) -> None:
        """Count the rows of a batch of all processes."""
        self._rows += rows
        if self._new_epochs or table.num_samples < FEWEST_SAMPLES:
            return
        if self._rows >= EARLY_ROWS and not self._looked_at_index:
            self._looked_at_index = True
            self._look_at_index(table, FEW_SAMPLES_EARLY)
        if self._rows > SECOND_PASS * table.num_samples and not self._looked_at_passes:
            self._looked_at_passes = True
            self._look_at_passes(table)

    def begin_epoch(self, epoch: int, current: int, table: SampleTable, *, has_begun: bool) -> None:
        """Look at the epoch that begins and at the one that ends."""
        self._looked_at_passes = True  # a caller of `set_epoch` counts epochs itself
        if self.epochs is not None and epoch > self.epochs:
            self._warn(
                "more epochs",
                f"epoch {epoch} begins, but this DiscrimLoss was built for epochs={self.epochs}, "
                "which sets its thresholds: give epochs the number of epochs of the run",
            )
        if has_begun and epoch < current:
            self._warn(
                "backwards",
                f"epoch {epoch} begins after epoch {current}: a resumed run must continue the "
                "count, and a new run needs a new DiscrimLoss",
            )
        if epoch != current and self._rows:
            if not self._new_epochs and table.num_samples >= FEWEST_SAMPLES:
                self._look_at_index(table, FEW_SAMPLES)
            self._new_epochs += 1
        if epoch != current:
            self._rows = 0

    def compare_options(self, saved: dict[str, Any], own: dict[str, Any]) -> None:
        """Warn of options that differ from those of a loaded state."""
        differ = [name for name in own if name in saved and saved[name] != own[name]]
        if differ:
            self._warn(
                "options",
                f"the loaded state is of a DiscrimLoss with {_listed(saved, differ)}, and this one "
                f"has {_listed(own, differ)}: build it with the same options to continue the "
                "same run",
            )

    def _look_at_index(self, table: SampleTable, few: int) -> None:
        if table.shards.several:
            return
        seen = int((table.visits > 0).sum())
        if 0 < seen <= MOST_SEEN * table.num_samples and self._rows >= few * seen:
            self._warn(
                "index",
                f"{self._rows} rows were of {seen} samples only, of {table.num_samples}: index "
                "must be the position of each sample in the dataset, not its target nor its "
                "position in the batch; discrimloss.IndexedDataset adds it",
            )

    def _look_at_passes(self, table: SampleTable) -> None:
        if self.epochs == 1 or not self.passes_are_epochs or table.shards.several:
            return
        seen = int((table.visits > 0).sum())
        if seen >= ALL_SEEN * table.num_samples:
            self._warn(
                "passes",
                "a second pass over the samples has begun in the same epoch: call "
                "set_epoch(epoch) at the start of every epoch, or give DiscrimLoss "
                "steps_per_epoch",
            )

    def _warn(self, kind: str, sentence: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(sentence, stacklevel=_levels_to_user())


def _levels_to_user() -> int:
    """The `stacklevel` of the first caller outside of this package and of torch."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in ("discrimloss", "torch"):
            break
        level, frame = level + 1, frame.f_back
    return level


def _listed(options: dict[str, Any], names: list[str]) -> str:
    return ", ".join(f"{name}={options[name]!r}" for name in names)
