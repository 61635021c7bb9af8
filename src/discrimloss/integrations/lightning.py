"""DiscrimLoss in Lightning: a callback with the sample state, and one line in `training_step`."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from discrimloss.errors import needs_extra
from discrimloss.integrations.label_use import LabelUse, SampleLabels
from discrimloss.integrations.metrics import metrics_due
from discrimloss.judging.verdicts import Rule, Verdicts
from discrimloss.loss import DiscrimLoss

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    with needs_extra("lightning"):
        # Lightning has two package names with different classes: use the one that is imported.
        if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
            from pytorch_lightning import Callback
        else:
            from lightning.pytorch import Callback


class DiscrimLossCallback(Callback):
    """Holds a `DiscrimLoss`: sets its epochs, saves and resumes its state, and logs metrics.

    ```python
    def training_step(self, batch, batch_idx):
        x, y, index = batch
        logits = self(x)
        losses = cross_entropy(logits, y, reduction="none")
        return weighted_loss(self, losses, index, target=y, logits=logits)

    trainer = Trainer(max_epochs=40, callbacks=[DiscrimLossCallback()])
    ```

    The criterion is not part of the model: it is neither in the optimizer nor in the model's
    ``state_dict``. The Lightning checkpoint stores its state with the callbacks.

    Args:
        criterion: a `DiscrimLoss`. By default, one is built at the first batch. It takes the number
            of samples from the `IndexedDataset` of the training data, the number of epochs from the
            trainer, and the number of classes from the logits.
        log_every: log the verdicts each time this many epochs have passed; 0 turns this off. By
            default they are logged after the last epoch, because computing them takes about a
            second.
        class_aware: False trains with the loss of the paper, even if `weighted_loss` gets targets.
        predictions: False gives the criterion only the targets.
        options: options of the `DiscrimLoss` that the callback builds, such as `num_samples`,
            `epochs` and `num_classes`.
    """

    def __init__(
        self,
        criterion: DiscrimLoss | None = None,
        *,
        log_every: int | None = None,
        class_aware: bool = True,
        predictions: bool = True,
        **options: Any,
    ) -> None:
        if criterion is not None and options:
            raise ValueError(
                f"pass a criterion or its options ({', '.join(options)}), not both: "
                "the options would have no effect"
            )
        if "ids" in options:
            raise ValueError(
                "to use ids, pass a criterion: DiscrimLossCallback(DiscrimLoss(ids=…, epochs=…))"
            )
        if criterion is not None and not isinstance(criterion, DiscrimLoss):
            raise TypeError(f"criterion must be a DiscrimLoss, not {type(criterion).__name__}")
        self._criterion = criterion
        self._builds_criterion = criterion is None
        self._options = options
        self._label_use = LabelUse(class_aware, predictions)
        self._label_use.require_fit(options if criterion is None else criterion)
        self._planned: dict[str, Any] = {}
        self.log_every = log_every

    @property
    def criterion(self) -> DiscrimLoss:
        """The `DiscrimLoss` with the state of all samples. It exists after the first batch."""
        if self._criterion is None:
            raise ValueError(
                "there is no criterion yet: it is built when training_step calls weighted_loss"
            )
        return self._criterion

    def verdicts(self, rule: Rule = "calibrated") -> Verdicts:
        """Classify each sample as easy, hard, undecided or incorrect: `DiscrimLoss.verdicts`."""
        return self.criterion.verdicts(rule)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Read the settings of a new criterion from the trainer, or prepare the existing one."""
        if self._builds_criterion:
            num_samples = self._options.get("num_samples") or _num_samples(trainer)
            # If the callback was used in another run, discard the state of that run.
            begins_anew = trainer.global_step == 0 and trainer.current_epoch == 0
            if self._criterion is None or begins_anew:
                epochs = self._options.get("epochs") or _planned_epochs(trainer)
                self._criterion = None
                self._planned = {"num_samples": num_samples, "epochs": epochs}
            elif self._criterion.num_samples < num_samples:
                self._criterion.resize(num_samples)  # data was appended since the checkpoint
        if self._criterion is not None:
            self._criterion.to(pl_module.device).train()

    def weighted_loss(
        self, pl_module: LightningModule, losses: Tensor, index: Any, labels: SampleLabels | None
    ) -> Tensor:
        """Return the loss of a training batch. The first batch sets the form of the criterion."""
        if self._criterion is None:
            options = {**self._label_use.options(labels, self._options), **self._planned}
            self._criterion = DiscrimLoss(**options).to(pl_module.device)
            self._criterion.set_epoch(pl_module.trainer.current_epoch + 1)
        more = self._label_use.arguments(self._criterion, labels)
        loss: Tensor = self._criterion(losses, index, **more)
        return loss

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Set the epoch of the criterion, except in a run resumed within an epoch."""
        if self._criterion is not None:
            self._criterion.set_epoch(trainer.current_epoch + 1)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log ``k_dyn``, the noise rate and the fraction of each verdict, as `log_every` sets."""
        if self._criterion is None:
            return
        epoch = trainer.current_epoch + 1
        is_last = epoch == trainer.max_epochs or trainer.global_step == trainer.max_steps
        is_last = is_last or trainer.should_stop
        values = metrics_due(self._criterion, epoch, self.log_every, is_last=is_last)
        # All processes hold the same state and log the same values.
        pl_module.log_dict(values, sync_dist=True)

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, for the Lightning checkpoint."""
        if self._criterion is None:
            return {}
        state = dict(self._criterion.state_dict())
        return {"epochs": self._criterion.epochs, "criterion": state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` returned. `verdicts` then works without training.

        A resumed run keeps its planned number of epochs, unless `epochs` is given. It continues
        with targets and predictions if it began with them.
        """
        if not state_dict:  # saved before the first batch
            return
        state = state_dict["criterion"]
        if self._builds_criterion:
            shapes = {name: value.shape for name, value in state.items()}
            options = self._label_use.saved_options(shapes, self._options)
            options["num_samples"] = len(state["table.history"])
            options["epochs"] = self._options.get("epochs") or state_dict["epochs"]
            self._criterion = DiscrimLoss(**options)
        self.criterion.load_state_dict(state)


def weighted_loss(
    pl_module: LightningModule,
    losses: Tensor,
    index: Any,
    target: Tensor | None = None,
    logits: Tensor | None = None,
    predictions: Tensor | None = None,
) -> Tensor:
    """Return the loss for `training_step`. Outside of training it is the mean task loss.

    Args:
        pl_module: the Lightning module, ``self``. Its trainer must have a `DiscrimLossCallback`.
        losses: unreduced task loss of each sample, shape (batch,).
        index: index of each sample, shape (batch,). With `ids`, the ids.
        target: class or regression target of each sample, shape (batch,). Without it, the loss is
            that of the paper.
        logits: the network's output for classes, shape (batch, classes).
        predictions: the network's output for regression targets, shape (batch,).
    """
    trainer = pl_module.trainer
    if not trainer.training:  # validation, sanity check or test
        return losses.mean()
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, DiscrimLossCallback):
            labels = _sample_labels(target, logits, predictions)
            return callback.weighted_loss(pl_module, losses, index, labels)
    raise ValueError(
        "the trainer has no DiscrimLossCallback, which keeps the state of the samples: "
        "Trainer(callbacks=[DiscrimLossCallback()])"
    )


def _sample_labels(
    target: Tensor | None, logits: Tensor | None, predictions: Tensor | None
) -> SampleLabels | None:
    """Return the targets and predictions of a batch. The criterion checks their shapes."""
    if target is None:
        if logits is not None or predictions is not None:
            raise ValueError("logits and predictions need the target of each sample: pass target=…")
        return None
    if logits is not None and predictions is not None:
        raise ValueError("pass logits for classification or predictions for regression, not both")
    if predictions is not None or (logits is None and target.is_floating_point()):
        return SampleLabels(target, predictions, None)
    return SampleLabels(target, logits, 0 if logits is None else logits.shape[-1])


def _num_samples(trainer: Trainer) -> int:
    loaders = trainer.train_dataloader
    if isinstance(loaders, Mapping):
        loaders = list(loaders.values())
    loaders = loaders if isinstance(loaders, (list, tuple)) else [loaders]
    sizes = {size for size in map(_size_of_data, loaders) if size is not None}
    if len(sizes) == 1:
        return sizes.pop()
    raise ValueError(
        "the training data does not contain its number of samples: wrap the dataset in "
        "discrimloss.IndexedDataset, or pass DiscrimLossCallback(num_samples=…)"
    )


def _size_of_data(loader: Any) -> int | None:
    """Return `num_samples` of the `IndexedDataset`, even inside a `Subset`."""
    dataset = getattr(loader, "dataset", None)
    while dataset is not None and not hasattr(dataset, "num_samples"):
        dataset = getattr(dataset, "dataset", None)
    return None if dataset is None else int(dataset.num_samples)


def _planned_epochs(trainer: Trainer) -> int:
    """Return `max_epochs`, or the number of epochs that `max_steps` amounts to."""
    limits = [trainer.max_epochs or -1]
    if trainer.max_steps > 0 and math.isfinite(trainer.num_training_batches):
        steps = math.ceil(trainer.num_training_batches / trainer.accumulate_grad_batches)
        limits.append(math.ceil(trainer.max_steps / steps))
    known = [limit for limit in limits if limit > 0]
    if not known:
        raise ValueError(
            "the trainer has no limit on its number of epochs: set max_epochs, "
            "or DiscrimLossCallback(epochs=…)"
        )
    return min(known)
