"""DiscrimLoss in the Hugging Face Trainer. Only an import and a class name change.

`DiscrimTrainer` is the Trainer with DiscrimLoss. `DiscrimTrainerMixin` adds it to another Trainer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrimloss.errors import needs_extra
from discrimloss.hyperparameters import require_whole_number
from discrimloss.integrations.indexed_rows import (
    INDEX_KEY,
    IndexedCollator,
    IndexedRows,
    NamedRows,
    NamedStream,
    is_stream,
)
from discrimloss.integrations.label_use import LabelUse, SampleLabels
from discrimloss.integrations.model_losses import ModelLosses, has_logits, logits_of
from discrimloss.loss import DiscrimLoss
from discrimloss.state.sample_ids import SampleIds
from discrimloss.state.table import MAX_SAMPLES

with needs_extra("transformers"):
    import accelerate  # noqa: F401 (its Trainer needs this, but transformers alone does not)
    from transformers import Trainer
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, get_last_checkpoint

    from discrimloss.integrations.transformers_schedule import SampleSchedule
    from discrimloss.state.file import count_saved, load_state, save_state, saved_shapes

if TYPE_CHECKING:
    _Trainer = Trainer
else:  # the base classes of a mixin come from the class that uses it
    _Trainer = object

FRACTION_KEY = "discrimloss_fraction"
STATE_FILES = "discrimloss*.safetensors"  # one file, or one per process with a sharded table
SampleLosses = Callable[[Any, Any, Any], Tensor]


class DiscrimTrainerMixin(_Trainer):
    """Adds DiscrimLoss to a Trainer: ``class Mine(DiscrimTrainerMixin, MyTrainer)``.

    It takes all arguments of the Trainer. During and after `train()`, `criterion` is the
    `DiscrimLoss`; call `criterion.verdicts()`. Evaluation and prediction do not change.

    If each sample has one class or one regression target, the criterion also gets the targets and
    the model's predictions. Otherwise (classes of tokens, several labels at once, language models)
    it is the loss of the paper. A resumed run keeps the form of its checkpoint.

    Args:
        discrimloss: a mapping of options of `DiscrimLoss`, such as ``{"threshold": "ema"}``, or a
            `DiscrimLoss`. By default, a `DiscrimLoss` with its defaults for the number of samples
            and epochs of the run.
        steps_per_iteration: number of optimizer steps that count as one epoch of the criterion. By
            default, an epoch is one pass over the data.
        sample_losses: a function of (outputs, labels, model) that returns one loss for each sample,
            shape (batch,). Needed for models whose loss cannot be computed from logits and labels.
            With several label columns, `labels` is a dict.
        sample_id: the column of the training data with the id of each sample, a string or a whole
            number. The id then identifies a sample instead of its position. Needed for a stream.
        class_aware: False trains with the loss of the paper, which uses neither targets nor
            predictions.
        predictions: False gives the criterion only the targets.
        log_every: log the verdicts each time this many epochs have passed; 0 turns this off. By
            default they are logged after the last epoch, because computing them takes about a
            second.
    """

    # Our loss is the mean of a micro-batch. The Trainer divides it by the number of micro-batches.
    loss_is_scaled_for_ga = False

    def __init__(
        self,
        *args: Any,
        discrimloss: DiscrimLoss | Mapping[str, Any] | None = None,
        steps_per_iteration: int | None = None,
        sample_losses: SampleLosses | None = None,
        sample_id: str | None = None,
        class_aware: bool = True,
        predictions: bool = True,
        log_every: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if steps_per_iteration is not None:
            require_whole_number("steps_per_iteration", steps_per_iteration, 1, MAX_SAMPLES)
        self.steps_per_iteration = steps_per_iteration
        self.sample_losses = sample_losses
        self.log_every = log_every
        self.sample_id = sample_id
        self._criterion, self._options = _criterion_or_options(discrimloss, sample_id)
        self._label_use = LabelUse(class_aware, predictions)
        self._label_use.require_fit(discrimloss or {})
        self._planned: dict[str, Any] = {}
        self._num_samples, self._epoch = 0, 1
        self._resumed_checkpoint: Path | None = None
        self._require_losses_of_samples()
        if self.train_dataset is not None:
            self._rows(self.train_dataset)  # raises an error early if samples have no positions
        self.add_callback(SampleSchedule(self))

    def _require_losses_of_samples(self) -> None:
        if self.compute_loss_func is not None:
            raise ValueError(
                "compute_loss_func returns one loss for a batch: pass sample_losses instead, "
                "a function of (outputs, labels, model) that returns one loss for each sample"
            )
        below = super().compute_loss
        is_own = getattr(below, "__func__", below) is not Trainer.compute_loss
        if is_own and self.sample_losses is None:
            raise ValueError(
                f"{below.__qualname__} returns one loss for a batch, which training would ignore: "
                "pass sample_losses, a function of (outputs, labels, model) that returns one loss "
                "for each sample"
            )

    @property
    def criterion(self) -> DiscrimLoss:
        """The loss of the run, with the state of every sample. It is built at the first batch."""
        if self._criterion is None:
            raise ValueError("there is no criterion yet: it is built when train() begins")
        return self._criterion

    @property
    def has_criterion(self) -> bool:
        """Whether the criterion was given or has been built."""
        return self._criterion is not None

    def train(
        self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Train as the Trainer does. A checkpoint to resume from must contain the sample state."""
        checkpoint = resume_from_checkpoint
        if checkpoint is True:
            checkpoint = get_last_checkpoint(self.args.output_dir)  # type: ignore[no-untyped-call]
        self._resumed_checkpoint = Path(checkpoint) if checkpoint else None
        if self._resumed_checkpoint and not any(self._resumed_checkpoint.glob(STATE_FILES)):
            raise ValueError(
                f"no {STATE_FILES} in {checkpoint}: resume from a checkpoint that DiscrimTrainer "
                "wrote, or load the model's weights from this one and call train() without "
                "resume_from_checkpoint"
            )
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def begin_criterion(self, epochs: int) -> None:
        """Prepare the criterion for a run of this many epochs, or for the rest of a run.

        A new criterion is built at the first batch, which shows what the targets are.
        """
        counted: dict[str, Any] = {"ids": SampleIds()}
        num_samples = 0  # grows with the ids
        if self.sample_id is None:
            num_samples = IndexedRows(self.train_dataset).num_samples
            counted = {"num_samples": num_samples}
        saved = count_saved(self._resumed_checkpoint) if self._resumed_checkpoint else 0
        if 0 < saved < num_samples:  # data was appended since the checkpoint
            counted = {"num_samples": saved}
        elif saved > num_samples > 0:
            raise ValueError(
                f"the checkpoint has {saved} samples, but the training data has {num_samples}: if "
                "samples were filtered out, identify them by sample_id instead of position"
            )
        self._num_samples, self._epoch = num_samples, 1
        self._planned = {**counted, "epochs": epochs}
        if self._options is None:
            self._take_up(self.criterion)
            if self.criterion.num_samples < num_samples:
                raise ValueError(
                    f"the DiscrimLoss is for {self.criterion.num_samples} samples, but the "
                    f"training data has {num_samples}: build it with num_samples={num_samples}"
                )
            return
        self._criterion = None
        if self._resumed_checkpoint:
            shapes = saved_shapes(self._resumed_checkpoint)
            self._build(self._label_use.saved_options(shapes, self._options))

    def _build(self, options: dict[str, Any]) -> DiscrimLoss:
        criterion = DiscrimLoss(**{**self._planned, **options})
        # The first iteration may see every sample twice.
        criterion.watch.passes_are_epochs = self.steps_per_iteration is None
        self._take_up(criterion)
        if criterion.num_samples < self._num_samples:
            criterion.resize(self._num_samples)
        self._criterion = criterion
        return criterion

    def _take_up(self, criterion: DiscrimLoss) -> None:
        criterion.to(self.args.device).train()
        if self._resumed_checkpoint:
            load_state(criterion, self._resumed_checkpoint)

    def start_epoch(self, epoch: int) -> None:
        """Begin an epoch of the criterion. A criterion that is built later starts at this epoch."""
        self._epoch = epoch
        if self._criterion is not None:
            self._criterion.set_epoch(epoch)

    def get_train_dataloader(self) -> Any:
        """Return the Trainer's loader, with the index of each sample in every batch."""
        if self.train_dataset is None:
            return super().get_train_dataloader()  # raises the Trainer's error
        given, collator = self.train_dataset, self.data_collator
        ids, collate = None, collator
        # The Trainer must select columns of the samples themselves, before the index is attached.
        if hasattr(given, "remove_columns") and not is_stream(given):  # a datasets.Dataset
            if self.sample_id is not None:
                ids = _column(given, self.sample_id)
            dataset = self._remove_unused_columns(given, description="training")
        else:
            dataset = given
            collate = self._get_collator_with_removed_columns(collator, description="training")
        self.train_dataset = self._rows(dataset, ids)
        self.data_collator = IndexedCollator(collate)
        try:
            return super().get_train_dataloader()
        finally:  # evaluation on the training data uses the original dataset
            self.train_dataset, self.data_collator = given, collator

    def _rows(self, dataset: Any, ids: Any = None) -> IndexedRows | NamedStream:
        """Return the training data with the index or id of each sample."""
        if is_stream(dataset) and self.sample_id is None:
            raise ValueError(
                f"the samples of {type(dataset).__name__} have no positions: pass sample_id, the "
                "column with an id of each sample"
            )
        if self.sample_id is None or ids is not None:
            return IndexedRows(dataset, ids)
        if not is_stream(dataset):
            return NamedRows(dataset, self.sample_id)
        # By default, the first process reads the batches and sends the others only tensors.
        is_dispatched = getattr(self.args.accelerator_config, "dispatch_batches", None) is not False
        return NamedStream(
            dataset, self.sample_id, only_numbers=is_dispatched and self.args.world_size > 1
        )

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        if isinstance(train_dataset, IndexedRows):  # lengths are a column of the inner dataset
            train_dataset = train_dataset.dataset
        return super()._get_train_sampler(train_dataset)

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[Any], None]:
        """Return the micro-batches of a step, each with its fraction of the step's samples."""
        batches, _ = super().get_batch_samples(*args, **kwargs)
        if len(batches) > 1:
            numbers = torch.stack([self._labelled(batch).sum() for batch in batches])
            numbers = self.accelerator.reduce(numbers.to(self.args.device), "sum").double()
            fractions = numbers / numbers.mean().clamp(min=1e-9)
            for batch, fraction in zip(batches, fractions.tolist(), strict=True):
                batch[FRACTION_KEY] = fraction
        # The Trainer would count labelled tokens, but our loss averages over samples.
        return batches, None

    def compute_loss(
        self,
        model: Any,
        inputs: Any,
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Return the weighted loss in training, and the Trainer's loss in evaluation."""
        if not model.training and INDEX_KEY not in inputs:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        labelled = self._labelled(inputs)
        index, fraction = inputs.pop(INDEX_KEY), inputs.pop(FRACTION_KEY, 1.0)
        # The model gets the labels, as in the Trainer, although its own loss is not used here.
        outputs = model(**inputs)
        labels = self._labels(inputs)
        losses = self._losses(outputs, labels)
        if losses.shape != (len(index),):
            raise ValueError(
                f"the batch has {len(index)} samples, but the losses have the shape "
                f"{tuple(losses.shape)}: return one loss per sample, and check the data collator"
            )
        index = list(compress(index, labelled)) if isinstance(index, list) else index[labelled]
        known = self._sample_labels(outputs, labels)
        if self._criterion is None:
            assert self._options is not None
            self._build(self._label_use.options(known, self._options)).set_epoch(self._epoch)
        known = None if known is None else known.rows(labelled)
        more = self._label_use.arguments(self.criterion, known)
        loss = fraction * self.criterion(losses[labelled], index, **more)
        return (loss, outputs) if return_outputs else loss

    def _sample_labels(self, outputs: Any, labels: Any) -> SampleLabels | None:
        """Return the targets and predictions of a batch; None if a sample has none or several."""
        # With sample_losses, outputs can be of any kind: use them only if they contain logits.
        is_known = self.sample_losses is None or has_logits(outputs)
        if not isinstance(labels, Tensor) or not is_known:
            return None
        return self._model_losses().sample_labels(logits_of(outputs), labels)

    def _losses(self, outputs: Any, labels: Any) -> Tensor:
        if self.sample_losses is not None:
            return self.sample_losses(outputs, labels, self.model)
        if not isinstance(labels, Tensor):
            raise ValueError(
                f"the labels are {', '.join(labels) or 'missing'}: pass sample_losses, a function "
                "of (outputs, labels, model) that returns one loss for each sample"
            )
        return self._model_losses()(logits_of(outputs), labels)

    def _model_losses(self) -> ModelLosses:
        return ModelLosses.of(self.model, self.args.label_smoothing_factor)

    def _labels(self, batch: Any) -> Any:
        """Return the labels of a batch: a tensor for one column of labels, otherwise a dict."""
        names = ["labels"] if "labels" in batch else [n for n in self.label_names if n in batch]
        return batch[names[0]] if len(names) == 1 else {name: batch[name] for name in names}

    def _labelled(self, batch: Any) -> Tensor:
        """Return which samples of a batch have a label, shape (batch,), bool."""
        if INDEX_KEY not in batch:
            raise ValueError(
                "a training batch has no index of its samples: an overridden get_train_dataloader "
                "must use self.train_dataset and self.data_collator, and its class must come after "
                "DiscrimTrainerMixin in the list of base classes"
            )
        labels = self._labels(batch)
        if self.sample_losses is None and isinstance(labels, Tensor):
            return self._model_losses().labelled(labels)
        return torch.ones(len(batch[INDEX_KEY]), dtype=torch.bool)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # First, so that no checkpoint is completed or uploaded without the sample state.
        name = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        save_state(self.criterion, Path(self._get_output_dir(trial)) / name)
        super()._save_checkpoint(model, trial)


class DiscrimTrainer(DiscrimTrainerMixin, Trainer):
    """The Hugging Face Trainer with DiscrimLoss. See `DiscrimTrainerMixin` for the options.

    ``DiscrimTrainer(model=…, args=…, train_dataset=…)`` is enough.
    """


def _column(dataset: Any, name: str) -> Any:
    if name not in dataset.column_names:
        raise ValueError(
            f"the training data has no column {name!r}, which sample_id names: "
            f"it has {', '.join(dataset.column_names)}"
        )
    return dataset[name]


def _criterion_or_options(
    discrimloss: Any, sample_id: str | None
) -> tuple[DiscrimLoss | None, dict[str, Any] | None]:
    if discrimloss is None or isinstance(discrimloss, Mapping):
        options = dict(discrimloss or {})
        criterion, reduction = None, options.get("reduction", "mean")
        has_ids = options.get("ids") is not None or sample_id is not None
    elif isinstance(discrimloss, DiscrimLoss):
        options = None
        criterion, reduction = discrimloss, discrimloss.reduction
        has_ids = discrimloss.ids is not None
    else:
        raise TypeError(
            "discrimloss must be a DiscrimLoss or a mapping of its options, not "
            f"{type(discrimloss).__name__}"
        )
    if reduction != "mean":
        raise ValueError(f"in a Trainer, reduction must be 'mean', not {reduction!r}")
    if has_ids != (sample_id is not None):
        raise ValueError(
            "a DiscrimLoss with ids needs sample_id, the column of the training data with the ids"
            if has_ids
            else "with sample_id the DiscrimLoss needs ids: build it with ids=SampleIds()"
        )
    return criterion, options
