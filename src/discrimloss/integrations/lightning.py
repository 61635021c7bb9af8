"""DiscrimLoss in Lightning: a callback that keeps the sample state, one line in `training_step`."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from discrimloss.errors import needs_extra
from discrimloss.integrations.metrics import sample_metrics
from discrimloss.judging.verdicts import Rule, Verdicts
from discrimloss.loss import DiscrimLoss

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    with needs_extra("lightning"):
        # The library comes under two names, whose classes differ: take the one in use.
        if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
            from pytorch_lightning import Callback
        else:
            from lightning.pytorch import Callback


class DiscrimLossCallback(Callback):
    """Keeps a `DiscrimLoss` beside the model: follows the epochs, saves, resumes and logs.

    ```python
    def training_step(self, batch, batch_idx):
        x, y, index = batch
        losses = cross_entropy(self(x), y, reduction="none")
        return weighted_loss(self, losses, index)

    trainer = Trainer(max_epochs=40, callbacks=[DiscrimLossCallback()])
    ```

    The criterion is no part of the model: it reaches neither the optimizer nor the model's
    ``state_dict``. Its state is in the Lightning checkpoint, among the callbacks.

    Args:
        criterion: a `DiscrimLoss` of your own. Left out, one is built when training starts: as many
            samples as the `IndexedDataset` of the training data, as many epochs as the trainer will
            run.
        log_every: log what is known of the samples after every so many epochs; 0 turns it off. It
            takes a calibration, about a second.
        options: of `DiscrimLoss`, `num_samples` and `epochs` among them, where the callback builds
            it.
    """

    def __init__(
        self, criterion: DiscrimLoss | None = None, *, log_every: int = 1, **options: Any
    ) -> None:
        if criterion is not None and options:
            raise ValueError(
                f"give a criterion or its options ({', '.join(options)}), not both: "
                "the options would have no effect"
            )
        if "ids" in options:
            raise ValueError(
                "with ids give a criterion of your own: "
                "DiscrimLossCallback(DiscrimLoss(ids=…, epochs=…))"
            )
        if criterion is not None and not isinstance(criterion, DiscrimLoss):
            raise TypeError(f"criterion must be a DiscrimLoss, not {type(criterion).__name__}")
        self._criterion = criterion
        self._builds_criterion = criterion is None
        self._options = options
        self.log_every = log_every

    @property
    def criterion(self) -> DiscrimLoss:
        """The `DiscrimLoss` with the state of all samples; there once training has started."""
        if self._criterion is None:
            raise ValueError("there is no criterion yet: it is built when trainer.fit() starts")
        return self._criterion

    def verdicts(self, rule: Rule = "calibrated") -> Verdicts:
        """Call every sample easy, hard or incorrect, as `DiscrimLoss.verdicts` does."""
        return self.criterion.verdicts(rule)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Build a criterion that fits the training data, on the model's device."""
        if self._builds_criterion:
            num_samples = self._options.get("num_samples") or _num_samples(trainer)
            # A callback that served another run before must not know its samples.
            begins_anew = trainer.global_step == 0 and trainer.current_epoch == 0
            if self._criterion is None or begins_anew:
                self._build(num_samples, self._options.get("epochs") or _planned_epochs(trainer))
            elif self.criterion.num_samples < num_samples:
                self.criterion.resize(num_samples)  # data was appended since the checkpoint
        self.criterion.to(pl_module.device).train()

    def _build(self, num_samples: int, epochs: int | None) -> None:
        options = {**self._options, "num_samples": num_samples, "epochs": epochs}
        self._criterion = DiscrimLoss(**options)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Set the epoch of the criterion; a run resumed within an epoch has set it already."""
        self.criterion.set_epoch(trainer.current_epoch + 1)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log ``k_dyn``, the estimated noise rate and the fraction of each verdict."""
        if self.log_every and (trainer.current_epoch + 1) % self.log_every == 0:
            # All processes hold the same state and log the same values.
            pl_module.log_dict(sample_metrics(self.criterion), sync_dist=True)

    def state_dict(self) -> dict[str, Any]:
        """All of the state, for the Lightning checkpoint."""
        if self._criterion is None:
            return {}
        state = dict(self._criterion.state_dict())
        return {"epochs": self._criterion.epochs, "criterion": state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; `verdicts` works without training again.

        A resumed run keeps the number of epochs that it was planned for, unless `epochs` is given.
        """
        state = state_dict["criterion"]
        if self._builds_criterion:
            epochs = self._options.get("epochs") or state_dict["epochs"]
            self._build(len(state["table.history"]), epochs)
        self.criterion.load_state_dict(state)


def weighted_loss(pl_module: LightningModule, losses: Tensor, index: Any) -> Tensor:
    """The loss to return from `training_step`; outside of training the mean of the task losses.

    Args:
        pl_module: ``self``; its trainer must have a `DiscrimLossCallback`.
        losses: shape (batch,), the task loss of each sample, not reduced.
        index: shape (batch,), integer, which sample each row is; names, if the criterion has `ids`.
    """
    trainer = pl_module.trainer
    if not trainer.training:  # validation, a sanity check of it, a test
        return losses.mean()
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, DiscrimLossCallback):
            loss: Tensor = callback.criterion(losses, index)
            return loss
    raise ValueError(
        "the trainer has no DiscrimLossCallback, which keeps the state of the samples: "
        "Trainer(callbacks=[DiscrimLossCallback()])"
    )


def _num_samples(trainer: Trainer) -> int:
    loaders = trainer.train_dataloader
    if isinstance(loaders, Mapping):
        loaders = list(loaders.values())
    loaders = loaders if isinstance(loaders, (list, tuple)) else [loaders]
    sizes = {size for size in map(_size_of_data, loaders) if size is not None}
    if len(sizes) == 1:
        return sizes.pop()
    raise ValueError(
        "the training data does not say how many samples there are: wrap the dataset with "
        "discrimloss.IndexedDataset, or give DiscrimLossCallback(num_samples=…)"
    )


def _size_of_data(loader: Any) -> int | None:
    """`num_samples` of the `IndexedDataset`, whatever was taken from it."""
    dataset = getattr(loader, "dataset", None)
    while dataset is not None and not hasattr(dataset, "num_samples"):
        dataset = getattr(dataset, "dataset", None)
    return None if dataset is None else int(dataset.num_samples)


def _planned_epochs(trainer: Trainer) -> int:
    """`max_epochs`, or the epochs that `max_steps` make."""
    limits = [trainer.max_epochs or -1]
    if trainer.max_steps > 0 and math.isfinite(trainer.num_training_batches):
        steps = math.ceil(trainer.num_training_batches / trainer.accumulate_grad_batches)
        limits.append(math.ceil(trainer.max_steps / steps))
    known = [limit for limit in limits if limit > 0]
    if not known:
        raise ValueError(
            "the trainer does not say how many epochs it runs: give max_epochs, "
            "or DiscrimLossCallback(epochs=…)"
        )
    return min(known)
