"""Baby steps: the easiest samples first, then more and more of the difficult ones."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from discrimloss.training.methods.base import Setting, methods
from discrimloss.training.methods.plain import Plain


def into_buckets(difficulty: Tensor, most: int) -> Tensor:
    """The bucket of each sample, from 0, the easiest; shape (num_samples,).

    Samples of one difficulty share a bucket. There is one for each difficulty, or `most` of about
    the same size if there were more. NaN counts as the greatest difficulty.

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


def buckets_open(epoch: int, first: int, last: int, buckets: int) -> int:
    """How many buckets are learned from: 1 until epoch `first`, all of them from `last` on."""
    if epoch >= last:
        return buckets
    if epoch <= first:
        return 1
    return 1 + (epoch - first) * (buckets - 1) // (last - first)


@methods.register("baby_steps")
class BabySteps(Plain):
    """Baby steps: growing buckets by difficulty, the easiest first (Spitkovsky et al. 2010).

    Training starts on the easiest bucket; stage by stage the next one joins, the earlier ones stay.
    The difficulty is that of the dataset if it has one (the length of a sequence, as in Cirik et
    al. 2016 for Digit Sum). Otherwise (ours, "self-taught") it is the average loss of the sample
    after some epochs on all samples; the network continues from there.

    Where we depart from both papers: they train in each stage until nothing improves, for as many
    epochs as that takes. Here a run has a number of epochs and the stages are equal parts of some
    of them. And an epoch takes as many steps as in any other method: a small pool is passed through
    again and again until it has brought as many samples as the dataset has.

    Args:
        setting: what is known of the task.
        most_buckets: how many at most. One for each difficulty up to this number, as in both papers
            (19 lengths in Digit Sum); 20 where losses are the difficulty is ours.
        growing: fraction of the run after which all buckets are open. Half is ours: the last stage
            of the papers uses all data, and has to converge too.
        warmup: fraction of the run on all samples before their losses are taken as the difficulty;
            not used if the dataset has one. Ours: the first moment at which losses separate
            (`NoiseRate` begins then, too).
    """

    needs: ClassVar[str] = "difficulty of the samples, given or from their losses"

    bucket: Tensor
    is_sorted: Tensor

    def __init__(
        self,
        setting: Setting,
        *,
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
        super().__init__(setting)
        self.most_buckets = most_buckets
        self.is_self_taught = setting.difficulty is None
        self.warmup_epochs = math.ceil(warmup * setting.epochs) if self.is_self_taught else 0
        self.last_opening = 1 + max(math.ceil(growing * setting.epochs), self.warmup_epochs)
        """The epoch from which on all buckets are open."""
        bucket = torch.zeros(setting.num_samples, dtype=torch.int64)
        if setting.difficulty is not None:
            bucket = into_buckets(setting.difficulty.cpu(), most_buckets)
        self.register_buffer("bucket", bucket)
        self.register_buffer("is_sorted", torch.tensor(not self.is_self_taught))

    def begin_epoch(self, epoch: int) -> None:
        """Sort the samples by their losses, once, after the warm-up."""
        super().begin_epoch(epoch)
        if epoch > self.warmup_epochs and self.history is not None and not bool(self.is_sorted):
            self.bucket.copy_(into_buckets(self.history.average_losses.cpu(), self.most_buckets))
            self.is_sorted.fill_(True)

    def sample_order(self, epoch: int, generator: torch.Generator) -> Tensor:
        """The open buckets, shuffled, in as many passes as it takes to visit `num_samples` samples.

        The open buckets follow from the current epoch (`begin_epoch`) and not from `epoch`, which
        is the number of a pass: the two differ in a run with ``steps_per_epoch``. Every pass has
        the same length.
        """
        pool = (self.bucket.cpu() < self._open_buckets).nonzero().flatten()
        samples = self.setting.num_samples
        if len(pool) == samples:
            return super().sample_order(epoch, generator)
        passes = math.ceil(samples / len(pool))
        shuffled = torch.rand(passes, len(pool), generator=generator).argsort(dim=1)
        return pool[shuffled].flatten()[:samples]

    @property
    def _open_buckets(self) -> int:
        buckets = 1 + int(self.bucket.max())
        return buckets_open(self.epoch, self.warmup_epochs + 1, self.last_opening, buckets)

    def hyperparameters(self) -> dict[str, Any]:
        """The buckets and the epochs in which they open."""
        return {
            "difficulty": "losses" if self.is_self_taught else "given",
            "buckets": 1 + int(self.bucket.max()),
            "warmup_epochs": self.warmup_epochs,
            "all_open_from_epoch": self.last_opening,
        }

    def log_values(self) -> dict[str, float]:
        """The fraction of samples in the open buckets."""
        is_open = self.bucket < self._open_buckets
        return {"open_fraction": float(is_open.float().mean())}
