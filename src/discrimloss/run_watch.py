"""Detects wrong uses of the criterion during training, and warns once about each kind."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discrimloss.loss_kind import LossKind
    from discrimloss.state.table import SampleTable

FEW_SAMPLES, FEW_SAMPLES_EARLY = 4, 16
"""If few samples were seen, an index is suspicious from this many rows per seen sample on: at the
end of the first epoch, and before it."""
MOST_SEEN = 0.25
"""Largest fraction of the samples that counts as few."""
MOST_OF_BATCH, AGAIN = 0.75, 2.0
"""Largest fraction and fewest rows if only the first samples were seen, as with batch positions."""
EARLY_ROWS = 50_000
"""Number of rows after which the index is checked before the end of the first epoch."""
SECOND_PASS = 1.1
"""Rows per sample above which a second pass has begun, if all samples were seen in the first."""
ALL_SEEN = 0.95
"""Fraction of the samples that counts as all. Random sampling visits fewer."""
CERTAINLY_SECOND = 2.0
"""Like `SECOND_PASS`, for random sampling without calls of `set_epoch`."""
FEWEST_SAMPLES = 100
"""Minimum number of samples for any warning."""


class RunWatch:
    """Counts rows and epochs on the host. It reads the table only a few times in a run.

    Args:
        epochs: planned length of the run.
        passes_are_epochs: whether a second pass over the samples must be a new epoch.
    """

    def __init__(self, epochs: int | None, *, passes_are_epochs: bool = True) -> None:
        self.epochs = epochs
        self.passes_are_epochs = passes_are_epochs
        self.loss_kind: LossKind | None = None
        """The kind of the losses, once it is known. None with targets."""
        self._rows = 0  # since the current epoch began
        self._new_epochs = 0  # calls of `set_epoch` that began another epoch
        self._sets_epoch = False
        self._looks: set[str] = set()
        self._warned: set[str] = set()

    def count(self, rows: int, table: SampleTable) -> None:
        """Count the rows of a batch of all processes."""
        self._rows += rows
        if self._new_epochs or table.num_samples < FEWEST_SAMPLES:
            return
        passes = self._rows / table.num_samples
        if self._rows >= EARLY_ROWS and self._is_first_look("early"):
            self._look_at_index(table, FEW_SAMPLES_EARLY)
        if passes >= 1.0 and self._is_first_look("index"):
            self._look_at_index(table, FEW_SAMPLES)
        if self._sets_epoch:
            return
        if passes > SECOND_PASS and self._is_first_look("passes"):
            self._look_at_passes(table, ALL_SEEN)
        if passes > CERTAINLY_SECOND and self._is_first_look("random passes"):
            self._look_at_passes(table, MOST_SEEN)

    def has_warned(self, *kinds: str) -> bool:
        """Return whether there was a warning of these kinds: ``"passes"``, ``"backwards"``."""
        return not self._warned.isdisjoint(kinds)

    def begin_epoch(self, epoch: int, current: int, table: SampleTable, *, has_begun: bool) -> None:
        """Check the epoch that begins and the one that ends."""
        self._sets_epoch = True  # the caller counts epochs
        if (
            epoch == current
            and not self._new_epochs
            and table.num_samples >= FEWEST_SAMPLES
            and self._rows > SECOND_PASS * table.num_samples
        ):
            self._look_at_passes(table, ALL_SEEN)
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
        """Warn if options differ from those of a loaded state."""
        differ = [name for name in own if name in saved and saved[name] != own[name]]
        if differ:
            self._warn(
                "options",
                f"the loaded state is of a DiscrimLoss with {_listed(saved, differ)}, and this one "
                f"has {_listed(own, differ)}: build it with the same options to continue the "
                "same run",
            )

    def _is_first_look(self, name: str) -> bool:
        """Return whether this check is new. Each runs once, because it waits for the device."""
        is_first = name not in self._looks
        self._looks.add(name)
        return is_first

    def _look_at_index(self, table: SampleTable, few: int) -> None:
        """Warn if too few of this process's samples were seen, which shows a wrong index."""
        seen = (table.visits > 0).nonzero()[:, 0]
        number = len(seen)
        if number == 0:
            return
        again = self._rows / table.shards.count / number
        is_few = number <= MOST_SEEN * len(table.visits) and again >= few
        is_start = int(seen[-1]) == number - 1
        is_batch = is_start and number <= MOST_OF_BATCH * len(table.visits) and again >= AGAIN
        if is_few or is_batch:
            self._warn(
                "index",
                f"{self._rows} rows were of {number * table.shards.count} samples only, of "
                f"{table.num_samples}: index must be the position of each sample in the dataset, "
                "not its target nor its position in the batch; discrimloss.IndexedDataset adds it",
            )

    def _look_at_passes(self, table: SampleTable, fewest: float) -> None:
        if self.epochs == 1 or not self.passes_are_epochs:
            return
        if int((table.visits > 0).sum()) >= fewest * len(table.visits):
            self._warn(
                "passes",
                "a second pass over the samples has begun in the same epoch: call "
                "set_epoch(epoch) with the next epoch at the start of each one, or give "
                "DiscrimLoss steps_per_epoch",
            )

    def _warn(self, kind: str, sentence: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(sentence, stacklevel=_levels_to_user())


def _levels_to_user() -> int:
    """Return the `stacklevel` of the first caller outside of this package and of torch."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in ("discrimloss", "torch"):
            break
        level, frame = level + 1, frame.f_back
    return level


def _listed(options: dict[str, Any], names: list[str]) -> str:
    return ", ".join(f"{name}={options[name]!r}" for name in names)
