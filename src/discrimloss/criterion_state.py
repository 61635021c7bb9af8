"""The state of a `DiscrimLoss`: how it is built, read, extended and saved.

`batch_visit` changes it with each batch, and `epoch_end` at the end of each epoch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Literal

import torch
from torch import Tensor, nn

from discrimloss import functional as F
from discrimloss.class_labels import ClassLabels
from discrimloss.hyperparameters import Hyperparameters, Variant, require_whole_number
from discrimloss.known_labels import SMALLEST_GROUP, KnownLabels
from discrimloss.loading import (
    RUN_KEY,
    note_visits,
    rename_keys_of_0_1,
    require_same_options,
    take_up_run,
)
from discrimloss.released import ReleasedForm
from discrimloss.run_watch import RunWatch
from discrimloss.state.exchange import Shards
from discrimloss.state.predictions import MOST_CLASSES
from discrimloss.state.processes import Processes
from discrimloss.state.sample_ids import SampleIds
from discrimloss.state.table import LATEST_LOSS, MAX_SAMPLES, SampleTable
from discrimloss.target_ranges import TargetRanges
from discrimloss.tracker import LossTracker

Task = Literal["classification", "regression"]

FORMS: dict[Variant, type[F.PaperForm | ReleasedForm]] = {
    "paper": F.PaperForm,
    "released": ReleasedForm,
}


class CriterionState(nn.Module):
    """The state of a criterion: the sample table, the thresholds and scales, and the targets.

    Args:
        num_samples, epochs, variant, num_classes, task, steps_per_epoch: See `DiscrimLoss`.
        hyperparameters: All hyperparameters, with defaults filled in.
        ids, sharded, process_group: See `DiscrimLoss`.
    """

    def __init__(
        self,
        num_samples: int | None,
        epochs: int | None,
        hyperparameters: Hyperparameters,
        variant: Variant,
        *,
        num_classes: int | None,
        task: Task,
        steps_per_epoch: int | None,
        ids: SampleIds | None,
        sharded: bool,
        process_group: Any,
    ) -> None:
        super().__init__()
        self.hyperparameters = hyperparameters
        self.epochs = epochs
        self.steps_per_epoch = steps_per_epoch
        self.steps = 0
        """Training batches so far in this epoch. Counted only if `steps_per_epoch` is given."""
        self.watch = RunWatch(epochs, passes_are_epochs=steps_per_epoch is None)
        self.variant = variant
        self.processes = Processes(process_group)
        self.form = FORMS[variant](hyperparameters)
        size = _checked_size(num_samples, ids, sharded)
        self.labels = self._known_labels(num_classes, task, size)
        self.tracker = LossTracker(
            self.form,
            groups=1 if self.labels is None else self.labels.groups,
            smallest_group=0 if self.labels is None else SMALLEST_GROUP,
        )
        self.table = SampleTable(
            size,
            ids=ids,
            with_velocity=self.form.has_velocity,
            more_columns=None if self.labels is None else self.labels.columns,
            optional_columns=None if self.labels is None else self.labels.prediction_columns,
            shards=Shards(self.processes, sharded=sharded),
        )
        lowest, highest = hyperparameters.weight_range
        self.log_weight_range = (math.log(lowest), math.log(highest))
        self.register_load_state_dict_pre_hook(rename_keys_of_0_1)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(require_same_options)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(take_up_run)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_post_hook(note_visits)  # type: ignore[no-untyped-call]

    def _known_labels(
        self, num_classes: int | None, task: Task, num_samples: int
    ) -> KnownLabels[Any] | None:
        """Return the module that handles targets, or None in the form without targets."""
        if task not in ("classification", "regression"):
            raise ValueError(f"task must be 'classification' or 'regression', not {task!r}")
        if num_classes is None and task == "classification":
            return None
        if self.variant == "released":
            raise ValueError("variant='released' does not use targets: leave num_classes, task out")
        if task == "regression":
            if num_classes is not None:
                raise ValueError("task='regression' has no classes: leave num_classes out")
            return TargetRanges(num_samples, self.planned_epochs)
        require_whole_number("num_classes", num_classes, 2, MOST_CLASSES)
        return ClassLabels(int(num_classes or 0), num_samples, self.planned_epochs)

    # ------------------------------------------------------------------ reading

    @property
    def planned_epochs(self) -> float:
        """The number of epochs of the run. Without `epochs`, it is `switch_epoch` / 0.75."""
        return self.epochs or self.hyperparameters.switch_epoch / 0.75

    @property
    def epoch(self) -> int:
        """The current epoch, counted from 1."""
        return int(self.tracker.epoch_count)

    @property
    def k1(self) -> Tensor:
        """The base threshold, a scalar tensor. With groups, the mean over the samples."""
        return self._over_groups(self.tracker.k1)

    @property
    def k2(self) -> float:
        """The threshold at the end of stage 2, ``k1 + 2 a |k1|``."""
        return float(F.dynamic_threshold(self.k1, 2.0 * self.hyperparameters.switch_gain))

    @property
    def k_dyn(self) -> float:
        """The threshold of the current epoch. With groups, the mean over the samples."""
        return float(self._over_groups(self.tracker.threshold_now))

    @property
    def loss_scale(self) -> Tensor:
        """The typical size of the losses in the first epoch, a scalar tensor."""
        return self._over_groups(self.tracker.loss_scale)

    def _over_groups(self, values: Tensor) -> Tensor:
        """Return the mean over the groups, weighted by the number of visits to each group."""
        if len(values) == 1:
            return values[0]
        visits = self.tracker.visits_seen.to(values.dtype)
        return (values * visits).sum() / visits.sum().clamp(min=1)

    @property
    def label_options(self) -> dict[str, Any]:
        """`num_classes` or `task`, as given. Empty in the form without targets."""
        if self.labels is None:
            return {}
        if isinstance(self.labels, TargetRanges):
            return {"task": "regression"}
        return {"num_classes": self.labels.groups}

    @property
    def ids(self) -> SampleIds | None:
        """The ids of the samples, or None if samples have indices."""
        return self.table.ids

    @property
    def num_samples(self) -> int:
        """Number of samples, in all processes together."""
        return self.table.num_samples

    @property
    def sample_weights(self) -> Tensor:
        """The weight ``delta`` of each sample, shape (num_samples,). 1 is neutral."""
        self.grow_with_ids()
        return self.table.whole(self.table.log_weight).exp()

    @property
    def average_losses(self) -> Tensor:
        """``Avg(l)`` of each sample, shape (num_samples,). NaN for samples never visited."""
        self.grow_with_ids()
        return self.table.whole(self.average_chunk(slice(None)))

    def labels_distrust(self) -> Tensor:
        """How strongly averaged predictions contradict each target, from 0 to 1.

        The shape is (num_samples,). Needs predictions. The values of samples that were never
        visited have no meaning.
        """
        if self.labels is None or not self.table.has_column("predicted_visits"):
            raise ValueError("there are no predictions: pass logits or predictions in every batch")
        return self.table.whole(self.labels.distrust(self.table))

    def average_chunks(self) -> Iterator[Tensor]:
        """Yield ``Avg(l)`` of the samples of this process, one chunk of the table at a time."""
        return (self.average_chunk(rows) for rows in self.table.chunks())

    def latest_losses(self) -> Tensor:
        """Return the latest loss of each sample of this process, shape (rows,), float32.

        The released form and states of older versions do not store latest losses. For them, the
        result is ``Avg(l)``.
        """
        average = self.average_chunk(slice(None))
        if not self.table.has_column(LATEST_LOSS):
            return average
        latest = self.table.latest_loss.float()
        return torch.where(latest.isfinite(), latest, average)

    def average_chunk(self, rows: slice) -> Tensor:
        """Return ``Avg(l)`` of some rows of the table. NaN for samples never visited."""
        visits = self.table.visits[rows]
        average = self.form.average(self.table.history[rows], visits, self.tracker.epoch_count)
        return torch.where(visits > 0, average, torch.nan)

    def group_chunk(self, rows: slice) -> Tensor | None:
        """Return the group of some rows of the table; None for a single group."""
        return None if self.labels is None else self.labels.groups_of_rows(self.table, rows)

    # ------------------------------------------------------------------ growing

    def resize(self, num_samples: int) -> None:
        """Add rows for new samples at the end. All other samples keep their state."""
        if self.ids is not None:
            raise ValueError("with ids the table grows by itself: add the new ids to `ids`")
        require_whole_number("num_samples", num_samples, 1, MAX_SAMPLES)
        self.table.resize(int(num_samples))

    def grow_with_ids(self) -> None:
        """Add a row for every id that has no row yet."""
        self.table.grow_with_ids()

    def make_fit(self, saved_samples: int, *, has_ids: bool) -> None:
        """Prepare the table for a saved state of this many samples, or raise an error."""
        self.table.make_fit(saved_samples, has_ids=has_ids)

    # ------------------------------------------------------------------- saving

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        state = {"options": self.run_options, "steps": self.steps}
        if self.watch.loss_kind not in (None, "other"):
            state["loss_kind"] = self.watch.loss_kind
        run = json.dumps(state).encode()
        device = self.table.history.device
        destination[prefix + RUN_KEY] = torch.tensor(list(run), dtype=torch.uint8, device=device)

    @property
    def run_options(self) -> dict[str, Any]:
        """Return the training options as plain values. They are saved with the state."""
        values = asdict(self.hyperparameters)
        values["weight_range"] = list(self.hyperparameters.weight_range)
        known = {"epochs": self.epochs, "steps_per_epoch": self.steps_per_epoch}
        return {**known, "variant": self.variant, **values}

    def extra_repr(self) -> str:
        """Return the hyperparameters that `repr` shows."""
        values = ", ".join(
            f"{name}={getattr(self.hyperparameters, name)!r}"
            for name in self.hyperparameters.__dataclass_fields__
        )
        known = {"num_samples": self.num_samples, **self.label_options, "variant": self.variant}
        shown = ", ".join(f"{name}={value!r}" for name, value in known.items())
        return f"{shown}, {values}"


def _checked_size(num_samples: int | None, ids: SampleIds | None, sharded: bool) -> int:
    """Return the initial number of samples."""
    if not isinstance(sharded, bool):
        raise TypeError(f"sharded must be True or False, not {sharded!r}")
    if ids is None:
        require_whole_number("num_samples", num_samples, 1, MAX_SAMPLES)
        return int(num_samples or 0)
    if not isinstance(ids, SampleIds):
        raise TypeError(f"ids must be a SampleIds, not {type(ids).__name__}: pass SampleIds(ids)")
    if num_samples is not None:
        raise ValueError("give num_samples or ids, not both: num_samples follows from ids")
    return len(ids)
