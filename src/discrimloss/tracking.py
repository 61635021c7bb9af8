"""What DiscrimLoss follows from batch to batch: the base threshold, and the scale of the losses."""

from __future__ import annotations

import torch
from torch import Tensor

from discrimloss import functional as F
from discrimloss.hyperparameters import Hyperparameters
from discrimloss.state.table import FixedDtypeModule

THRESHOLD_DECAY = 0.9  # rho' of the paper: the EMA behind threshold="ema"
LARGEST_RATIO = 30.0  # of a loss to the usual one, in the loss scale of the first epoch
SMALLEST_SCALE = 1e-15  # keeps step sizes finite where all losses are zero


class LossTracker(FixedDtypeModule):
    """``k1`` and the loss scale of the first epoch, with what follows from them."""

    k1: Tensor
    visits_seen: Tensor
    first_mean_abs: Tensor
    first_mean_square: Tensor
    past_first_epoch: Tensor
    rise: Tensor
    step_size: Tensor
    threshold_now: Tensor

    def __init__(self, hyperparameters: Hyperparameters) -> None:
        super().__init__()
        self.hyperparameters = hyperparameters
        constant = hyperparameters.threshold
        start = 0.0 if isinstance(constant, str) else float(constant)
        self.register_buffer("k1", torch.tensor(start, dtype=torch.float32))
        self.register_buffer("visits_seen", torch.tensor(0))
        self.register_buffer("first_mean_abs", torch.tensor(0.0, dtype=torch.float32))
        self.register_buffer("first_mean_square", torch.tensor(0.0, dtype=torch.float32))
        self.register_buffer("past_first_epoch", torch.tensor(False))
        # Not saved, because they follow from the rest. Tensors, so that a compiled step need not be
        # compiled again every epoch.
        for name in ("rise", "step_size", "threshold_now"):
            self.register_buffer(name, torch.tensor(0.0, dtype=torch.float32), persistent=False)
        self._past_first_epoch = False

    @property
    def loss_scale(self) -> Tensor:
        """Size of the losses of the first epoch: their mean, each counted by its own size.

        A plain mean would be small for a model that learns within its first epoch, and call its
        ordinary losses large from then on; this one stays near what an untrained model loses.
        """
        scale = self.first_mean_square / self.first_mean_abs.clamp(min=SMALLEST_SCALE)
        return scale.clamp(min=SMALLEST_SCALE)

    @property
    def k_dyn(self) -> float:
        """The threshold of the current epoch."""
        return float(self.threshold_now)

    @property
    def k2(self) -> float:
        """Where the threshold ends: ``k1 + 2 a |k1|``."""
        return float(F.dynamic_threshold(self.k1, 2.0 * self.hyperparameters.switch_gain))

    def track(self, visits: F.Visits) -> None:
        """Follow a batch, as far as ``k1`` or the loss scale still do."""
        # Eager steps skip what would change nothing. A compiled step must not: it would be compiled
        # again, whole model and all, when the answer changes after the first epoch.
        if torch.compiler.is_compiling() or not self._past_first_epoch or self._follows_batches:
            self._track(visits)

    @property
    def _follows_batches(self) -> bool:
        return self.hyperparameters.threshold in ("ema", "mean")

    def _track(self, visits: F.Visits) -> None:
        threshold = self.hyperparameters.threshold
        number = visits.number
        if not self._follows_batches:  # nothing to follow but the first epoch
            number = torch.where(self.past_first_epoch, 0, number)
        seen = self.visits_seen + number
        share = number / seen.clamp(min=1)
        if isinstance(threshold, str):
            batch_mean = visits.batch_mean(visits.means)
            if threshold == "mean":
                k1 = torch.lerp(self.k1, batch_mean, share)
            else:
                k1 = torch.lerp(self.k1, batch_mean, 1.0 - THRESHOLD_DECAY)
                k1 = torch.where(self.visits_seen == 0, batch_mean, k1)
            self.k1.copy_(torch.where(number == 0, self.k1, k1))
        self._track_loss_scale(visits, torch.where(self.past_first_epoch, 0.0, share))
        self.refresh_tracked_terms()
        self.visits_seen.copy_(seen)

    def _track_loss_scale(self, visits: F.Visits, share: Tensor) -> None:
        sizes = visits.means.abs()
        # One absurd target among thousands must not set the scale for all of them: a loss counts
        # for no more than a multiple of what is usual, which the first batch has yet to show.
        median = visits.mean_loss.abs().median()
        usual = torch.where(median > 0, median, visits.batch_mean(sizes))
        usual = torch.where(self.visits_seen == 0, usual, self.first_mean_abs)
        sizes = torch.minimum(sizes, LARGEST_RATIO * usual)
        for tracker, seen_now in (
            (self.first_mean_abs, visits.batch_mean(sizes)),
            (self.first_mean_square, visits.batch_mean(sizes.square())),
        ):
            tracker.copy_(torch.lerp(tracker, seen_now, share))

    def refresh_tracked_terms(self) -> None:
        """``k_dyn``; and ``tau``, absolute where given, else relative to the first epoch's loss."""
        self.threshold_now.copy_(F.dynamic_threshold(self.k1, self.rise))
        values = self.hyperparameters
        if values.weight_lr is not None:
            self.step_size.fill_(values.weight_lr)
        else:
            self.step_size.copy_(values.relative_weight_lr / self.loss_scale)
