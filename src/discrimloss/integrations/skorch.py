"""DiscrimLoss in skorch: nets that weight the loss of each training sample."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from discrimloss.errors import needs_extra
from discrimloss.indexed_dataset import IndexedDataset
from discrimloss.integrations.label_use import LabelUse, SampleLabels
from discrimloss.integrations.net_outputs import is_labelled, sample_labels
from discrimloss.judging.verdicts import Rule, Verdicts
from discrimloss.loss import DiscrimLoss

with needs_extra("skorch"):
    from skorch import (
        NeuralNet,
        NeuralNetBinaryClassifier,
        NeuralNetClassifier,
        NeuralNetRegressor,
    )


class DiscrimNetMixin:
    """Adds DiscrimLoss to a skorch net: training weights the criterion's loss of each sample.

    Use it as ``class MyNet(DiscrimNetMixin, NeuralNet): …``, or use one of the ready-made nets
    below. The criterion remains the task loss. Validation reduces it as usual; training does not
    reduce it. A sample is identified by its row in the data that `fit` gets. Pass options of
    `DiscrimLoss` with a prefix, as in ``discrimloss__switch_gain=0.3``. `epochs` is `max_epochs`
    by default.

    If each sample has one class or one regression target, and the criterion is a loss of torch that
    determines what the output means, the `DiscrimLoss` also gets targets and predictions. With
    ``discrimloss__predictions=False`` it gets only the targets. With
    ``discrimloss__class_aware=False`` it gets neither, which is the loss of the paper.

    The `DiscrimLoss` is part of ``criterion_``, so it is in ``f_criterion`` of `save_params` and of
    skorch's checkpoints. It has no parameters for the optimizer.
    """

    prefixes_: ClassVar[list[str]] = [*NeuralNet.prefixes_, "discrimloss"]
    batch_index_: Tensor | None = None

    # Attributes of skorch's nets.
    criterion: Any
    criterion_: Any
    max_epochs: int
    history: Any
    initialized_: bool
    _params_to_validate: set[str]
    get_params_for: Callable[[str], dict[str, Any]]
    check_is_fitted: Callable[..., None]

    @property
    def discrimloss_(self) -> _GrowingDiscrimLoss:
        """The `DiscrimLoss` with the state of all samples."""
        return cast(_GrowingDiscrimLoss, self.criterion_.discrimloss)

    def verdicts(self, rule: Rule = "calibrated") -> Verdicts:
        """Classify every row of the training data as easy, hard, undecided or incorrect.

        Rows that `train_split` uses for validation are ``"unseen"``.
        """
        self.check_is_fitted(["criterion_"])
        return self.discrimloss_.verdicts(rule)

    def initialize_criterion(self) -> DiscrimNetMixin:
        """Build the task loss, and attach an empty sample state to it."""
        super().initialize_criterion()  # type: ignore[misc]
        if not isinstance(self.criterion_, nn.Module):
            raise TypeError(
                "criterion must be a torch module such as torch.nn.CrossEntropyLoss, "
                f"not {type(self.criterion_).__name__}"
            )
        if self.criterion_ is self.criterion:  # an instance, which other nets may share
            self.criterion_ = copy.deepcopy(self.criterion)
        self._begin_samples()
        return self

    def _begin_samples(self) -> None:
        """Create an empty sample state. The first fit sets the number of samples."""
        options = self.get_params_for("discrimloss")
        if "ids" in options:
            raise ValueError("a net identifies samples by their rows: leave out discrimloss__ids")
        switches = {
            name: options.pop(name) for name in ("class_aware", "predictions") if name in options
        }
        self.criterion_.discrimloss = _GrowingDiscrimLoss(
            LabelUse(**switches), **{"num_samples": 1, "epochs": self.max_epochs, **options}
        )

    def set_params(self, **kwargs: Any) -> DiscrimNetMixin:
        """Set parameters. Options of `DiscrimLoss` reset the sample state of an initialised net."""
        own = {name: kwargs.pop(name) for name in list(kwargs) if name.startswith("discrimloss__")}
        super().set_params(**kwargs)  # type: ignore[misc]
        for name, value in own.items():
            setattr(self, name, value)
            self._params_to_validate.add(name)
        if own and self.initialized_:
            self._begin_samples()
        return self

    def on_epoch_begin(
        self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any
    ) -> None:
        """Set the epoch from the net's history, which `partial_fit` continues."""
        super().on_epoch_begin(net, dataset_train, dataset_valid, **kwargs)  # type: ignore[misc]
        self._make_room(IndexedDataset(dataset_train).num_samples)
        self.discrimloss_.set_epoch(len(self.history))

    def _make_room(self, num_samples: int) -> None:
        known = self.discrimloss_.num_samples
        if num_samples > known:
            self.discrimloss_.resize(num_samples)
        elif num_samples < known and "num_samples" not in self.get_params_for("discrimloss"):
            raise ValueError(
                f"the net was trained on {known} samples, but this data has {num_samples}: "
                "continue with the same rows, or append rows; fit() without warm_start starts over"
            )

    def get_iterator(self, dataset: Any, training: bool = False) -> Any:
        """Return the loader. Training batches contain the index of each sample."""
        if not training:
            return super().get_iterator(dataset, training=False)  # type: ignore[misc]
        loader = super().get_iterator(IndexedDataset(dataset), training=True)  # type: ignore[misc]
        return _IndexedBatches(loader)

    def train_step_single(self, batch: Any, **fit_params: Any) -> Any:
        """Run a training step with the sample indices of its batch."""
        self.batch_index_ = batch.sample_index
        try:
            return super().train_step_single(batch, **fit_params)  # type: ignore[misc]
        finally:
            self.batch_index_ = None

    def get_loss(self, y_pred: Any, y_true: Any, X: Any = None, training: bool = False) -> Tensor:  # noqa: N803
        """Return the weighted loss in training, otherwise the task loss."""
        if not training:
            loss: Tensor = super().get_loss(y_pred, y_true, X=X, training=False)  # type: ignore[misc]
            return loss.mean()  # already a scalar, unless reduction="none"
        reduction = getattr(self.criterion_, "reduction", None)
        if reduction is not None:
            self.criterion_.reduction = "none"
        try:
            losses: Tensor = super().get_loss(y_pred, y_true, X=X, training=True)  # type: ignore[misc]
        finally:
            if reduction is not None:
                self.criterion_.reduction = reduction
        if losses.dim() > 1:  # several outputs for each sample
            losses = losses.flatten(1).mean(1)
        return self.discrimloss_.of_batch(
            losses, self.batch_index_, *self._sample_labels(y_pred, y_true)
        )

    def _sample_labels(self, y_pred: Any, y_true: Any) -> tuple[SampleLabels | None, Tensor | None]:
        """Return the targets and predictions of a batch, and which samples have a label."""
        if not isinstance(y_pred, Tensor) or not isinstance(y_true, Tensor):
            return None, None
        target = y_true.to(y_pred.device)
        known = sample_labels(
            self.criterion_,
            y_pred,
            target,
            gives_probabilities=isinstance(self, NeuralNetClassifier),
        )
        if known is None and self.discrimloss_.labels is not None:  # the user declared the labels
            known = SampleLabels(target, None, self.discrimloss_.label_options.get("num_classes"))
        return known, is_labelled(self.criterion_, target)


class DiscrimNetClassifier(DiscrimNetMixin, NeuralNetClassifier):  # type: ignore[misc]
    """`skorch.NeuralNetClassifier` for data with wrong labels. See `DiscrimNetMixin`."""


class DiscrimNetBinaryClassifier(DiscrimNetMixin, NeuralNetBinaryClassifier):  # type: ignore[misc]
    """`skorch.NeuralNetBinaryClassifier` for data with wrong labels. See `DiscrimNetMixin`."""


class DiscrimNetRegressor(DiscrimNetMixin, NeuralNetRegressor):  # type: ignore[misc]
    """`skorch.NeuralNetRegressor` for data with wrong targets. See `DiscrimNetMixin`."""


class _GrowingDiscrimLoss(DiscrimLoss):
    """A `DiscrimLoss` that takes its size and form from a loaded state, or its form from a batch.

    Args:
        label_use: whether the criterion gets targets and predictions.
        options: options of `DiscrimLoss`.
    """

    def __init__(self, label_use: LabelUse, **options: Any) -> None:
        label_use.require_fit(options)
        super().__init__(**options)
        self.label_use = label_use
        self.options = options
        self.is_open = True
        """Whether the form is still open. The first batch determines it."""

    def of_batch(
        self, losses: Tensor, index: Any, labels: SampleLabels | None, is_labelled: Tensor | None
    ) -> Tensor:
        """Return the weighted loss of a training batch."""
        if self.is_open:
            self._start_over(self.label_use.options(labels, self.options))
            self.is_open = False
        if self.labels is not None and labels is not None and is_labelled is not None:
            losses, index, labels = (
                losses[is_labelled],
                index[is_labelled],
                labels.rows(is_labelled),
            )
        weighted: Tensor = self(losses, index, **self.label_use.arguments(self, labels))
        return weighted

    def _start_over(self, options: dict[str, Any]) -> None:
        """Replace the state by that of a new `DiscrimLoss` with the same number of samples."""
        device, epoch, training = self.table.history.device, self.epoch, self.training
        super().__init__(**{**options, "num_samples": self.num_samples})
        self.to(device).train(training)
        self.set_epoch(epoch)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        own = {key: value for key, value in state_dict.items() if key.startswith(prefix)}
        shapes = {key.removeprefix(prefix): value.shape for key, value in own.items()}
        if "table.history" in shapes:
            self._start_over(self.label_use.saved_options(shapes, self.options))
            self.is_open = not bool(own[prefix + "table.visits"].any())
            if shapes["table.history"][0] > self.num_samples:
                self.resize(shapes["table.history"][0])
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class _IndexedBatches:
    """Yields the batches of a loader as pairs, as skorch expects, with an attached index."""

    def __init__(self, loader: Any) -> None:
        if not isinstance(loader, DataLoader):
            raise TypeError(
                f"iterator_train must be a DataLoader, not {type(loader).__name__}: "
                "training batches must contain the index of each sample"
            )
        loader.collate_fn = _CollateWithIndex(loader.collate_fn)
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[_IndexedBatch]:
        for samples, index in self.loader:
            batch = _IndexedBatch(samples)
            batch.sample_index = index
            yield batch


class _IndexedBatch(tuple[Any, ...]):
    """A pair ``(X, y)`` for skorch and its callbacks, with the index of each row."""

    sample_index: Tensor


class _CollateWithIndex:
    """Calls the user's collate function, and adds the indices."""

    def __init__(self, collate: Callable[[list[Any]], Any]) -> None:
        self.collate = collate

    def __call__(self, samples: list[Any]) -> tuple[Any, Tensor]:
        index = torch.tensor([sample[-1] for sample in samples])
        return self.collate([sample[:-1] for sample in samples]), index
