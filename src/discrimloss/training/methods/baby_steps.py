"""Baby steps: the easiest samples first, then more and more of the difficult ones."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from discrimloss.training.methods.base import Setting, methods
from discrimloss.training.methods.plain import Plain

RELEASED_BUCKETS = 5
"""Number of buckets of the form "released"."""


def into_buckets(difficulty: Tensor, most: int) -> Tensor:
    """Return the bucket of each sample, shape (num_samples,). Bucket 0 is the easiest.

    Samples of equal difficulty share a bucket. There is one bucket for each difficulty. If there
    are more than `most` difficulties, there are at most `most` buckets of about the same size. NaN
    counts as the greatest difficulty.

    >>> into_buckets(torch.tensor([7.0, 3.0, 3.0, 9.0]), most=5)
    tensor([1, 0, 0, 2])
    >>> into_buckets(torch.tensor([0.4, 0.1, 0.3, 0.2]), most=2)
    tensor([1, 0, 1, 0])
    """
    known = difficulty.to(torch.float64).nan_to_num(nan=math.inf)
    bucket: Tensor
    values, bucket, sizes = torch.unique(known, return_inverse=True, return_counts=True)
    if len(values) > most:
        easier = sizes.cumsum(0) - sizes  # samples before each value
        merged = torch.div(easier * most, len(difficulty), rounding_mode="floor")
        bucket = torch.unique(merged, return_inverse=True)[1][bucket]
    return bucket


def equal_buckets(difficulty: Tensor, number: int) -> Tensor:
    """Return the bucket of each sample, from 0. All buckets have about the same size.

    Samples of equal difficulty may be in two buckets. Those earlier in the data count as easier.

    >>> equal_buckets(torch.tensor([7.0, 3.0, 3.0, 9.0]), number=2)
    tensor([1, 0, 0, 1])
    """
    order = difficulty.to(torch.float64).nan_to_num(nan=math.inf).argsort(stable=True)
    bucket = torch.empty_like(order)
    bucket[order] = torch.arange(len(order)) * number // len(order)
    return bucket


def buckets_open(epoch: int, first: int, last: int, buckets: int) -> int:
    """Return the number of open buckets: 1 until epoch `first`, all of them from `last` on."""
    if epoch >= last:
        return buckets
    if epoch <= first:
        return 1
    return 1 + (epoch - first) * (buckets - 1) // (last - first)


def validation_value(row: Mapping[str, Any], form: str) -> float:
    """Return the validation loss, or for "released" the metric. Lower values are better.

    A stage ends when this value stops falling. An accuracy is returned as its negative.
    """
    if form == "cirik":
        return float(row["validation_loss"])
    return float(row["validation_mae"]) if "validation_mae" in row else -row["validation_accuracy"]


@methods.register("baby_steps")
class BabySteps(Plain):
    """Baby steps: growing buckets by difficulty, the easiest first (Spitkovsky et al. 2010).

    Training starts on the easiest bucket. Each stage adds the next bucket. The difficulty is that
    of the dataset, if it has one, such as the length of a sequence for Digit Sum (Cirik et al.
    2016). Otherwise it is the average loss of the sample after some epochs on all samples, which is
    our addition. The network continues from there.

    We depart from both papers, which train in each stage until nothing improves. Here, with
    ``form="scheduled"``, a run has a fixed number of epochs, and the stages are equal fractions of
    some of them. An epoch has as many steps as in any other method: the open buckets are repeated
    until as many samples have been visited as the dataset has. In the other two forms, a stage ends
    when the validation split does not improve, and an epoch is one pass through the open buckets. A
    run still has a fixed number of epochs. It may end before all buckets are open. After the last
    stage, it continues with all buckets.

    Args:
        setting: the task.
        form: "scheduled" is ours. "cirik" follows volkancirik/curriculum-sstb: there is a bucket
            for each difficulty; an epoch visits the buckets in order, each shuffled; a stage ends
            after `patience` epochs without a new lowest validation loss, and the next stage starts
            from the weights with the lowest loss. "released" follows tangminji/DiscrimLoss: there
            are five buckets of equal size, shuffled together; a stage ends in the same way, but by
            the validation metric, and the weights are kept.
        patience: number of epochs without improvement that end a stage. 10, the default in both
            repositories. Not used by "scheduled".
        most_buckets: maximum number of buckets. There is one for each difficulty up to this number,
            as in both papers (19 lengths in Digit Sum). 20 is our choice if losses are the
            difficulty. Not used by "released".
        growing: fraction of the run after which all buckets are open. 0.5 is our choice: in the
            papers, the last stage uses all data and has to converge too.
        warmup: fraction of the run on all samples, before their losses define the difficulty. Not
            used if the dataset has a difficulty. Our default is the time at which losses begin to
            separate, when `NoiseRate` makes its first estimate.
    """

    needs: ClassVar[str] = "difficulty of the samples, given or from their losses"

    bucket: Tensor
    is_sorted: Tensor
    stage: Tensor
    epochs_without_gain: Tensor
    best_validation: Tensor

    def __init__(
        self,
        setting: Setting,
        *,
        form: Literal["scheduled", "cirik", "released"] = "scheduled",
        patience: int = 10,
        most_buckets: int = 20,
        growing: float = 0.5,
        warmup: float = 0.15,
    ) -> None:
        if most_buckets < 1:
            raise ValueError(f"most_buckets must be 1 or more, not {most_buckets}")
        if not 0.0 < warmup <= growing <= 1.0:
            raise ValueError(
                "growing and warmup must be fractions of the run, above 0 and at most 1, warmup "
                f"not after growing, not {growing} and {warmup}"
            )
        if form not in ("scheduled", "cirik", "released"):
            raise ValueError(f"form must be scheduled, cirik or released, not {form!r}")
        if patience < 1:
            raise ValueError(f"patience must be 1 or more, not {patience}")
        if form != "scheduled" and not setting.has_validation:
            raise ValueError(
                f"form = {form!r} ends its stages by a validation split, but the dataset has none: "
                "set noisy_validation, e.g. to 0.1"
            )
        super().__init__(setting)
        self.form: Literal["scheduled", "cirik", "released"] = form
        self.patience = patience
        self.most_buckets = most_buckets
        self.is_self_taught = setting.difficulty is None
        self.warmup_epochs = math.ceil(warmup * setting.epochs) if self.is_self_taught else 0
        self.last_opening = 1 + max(math.ceil(growing * setting.epochs), self.warmup_epochs)
        """The first epoch with all buckets open."""
        bucket = torch.zeros(setting.num_samples, dtype=torch.int64)
        if setting.difficulty is not None:
            bucket = self._buckets_of(setting.difficulty.cpu())
        self.register_buffer("bucket", bucket)
        self.register_buffer("is_sorted", torch.tensor(not self.is_self_taught))
        if form == "scheduled":
            return
        self.register_buffer("stage", torch.tensor(1))
        self.register_buffer("epochs_without_gain", torch.tensor(0))
        self.register_buffer("best_validation", torch.tensor(math.inf, dtype=torch.float64))
        if form == "cirik":  # in `networks`, so that all processes use the same buffers
            self.networks.append(copy.deepcopy(self.networks[0]).requires_grad_(False))

    def _buckets_of(self, difficulty: Tensor) -> Tensor:
        if self.form == "released":
            return equal_buckets(difficulty, RELEASED_BUCKETS)
        return into_buckets(difficulty, self.most_buckets)

    def begin_epoch(self, epoch: int) -> None:
        """Sort the samples by their losses, once after the warm-up."""
        super().begin_epoch(epoch)
        if epoch > self.warmup_epochs and self.history is not None and not bool(self.is_sorted):
            self.bucket.copy_(self._buckets_of(self.history.average_losses.cpu()))
            self.is_sorted.fill_(True)

    def end_epoch(self, row: Mapping[str, Any]) -> None:
        """Open the next bucket if the validation split has not improved for `patience` epochs."""
        if self.form == "scheduled" or not bool(self.is_sorted):
            return
        value = validation_value(row, self.form)
        if value < float(self.best_validation):
            self.best_validation.fill_(value)
            self.epochs_without_gain.zero_()
            if self.form == "cirik":
                self.networks[1].load_state_dict(self.networks[0].state_dict())
            return
        self.epochs_without_gain += 1
        if int(self.epochs_without_gain) == self.patience:
            self.stage += 1
            self.epochs_without_gain.zero_()
            if self.form == "cirik":
                self.networks[0].load_state_dict(self.networks[1].state_dict())

    def sample_order(self, epoch: int, generator: torch.Generator) -> Tensor:
        """Return the samples of the open buckets in the order of visits.

        With ``form="scheduled"``, they are shuffled and repeated until `num_samples` samples are
        visited. In the other forms, each is visited once.

        The open buckets depend on the current epoch (`begin_epoch`), not on `epoch`, the number of
        a pass. The two differ in a run with ``steps_per_epoch``. Every pass has the same length.
        """
        pool = (self.bucket.cpu() < self._open_buckets).nonzero().flatten()
        samples = self.setting.num_samples
        if self.form != "scheduled":
            shuffled_pool = pool[torch.randperm(len(pool), generator=generator)]
            if self.form == "released":
                return shuffled_pool
            return shuffled_pool[self.bucket.cpu()[shuffled_pool].argsort(stable=True)]
        if len(pool) == samples:
            return super().sample_order(epoch, generator)
        passes = math.ceil(samples / len(pool))
        shuffled = torch.rand(passes, len(pool), generator=generator).argsort(dim=1)
        return pool[shuffled].flatten()[:samples]

    @property
    def _open_buckets(self) -> int:
        buckets = 1 + int(self.bucket.max())
        if self.form != "scheduled":
            return min(int(self.stage), buckets)
        return buckets_open(self.epoch, self.warmup_epochs + 1, self.last_opening, buckets)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the buckets and the epochs in which they open."""
        values: dict[str, Any] = {
            "difficulty": "losses" if self.is_self_taught else "given",
            "buckets": 1 + int(self.bucket.max()),
            "warmup_epochs": self.warmup_epochs,
        }
        if self.form == "scheduled":
            return {**values, "all_open_from_epoch": self.last_opening}
        return {**values, "form": self.form, "patience": self.patience}

    def log_values(self) -> dict[str, float]:
        """Return the fraction of samples in the open buckets."""
        is_open = self.bucket < self._open_buckets
        return {"open_fraction": float(is_open.float().mean())}
