"""The targets and predictions that an integration passes to the criterion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from discrimloss.loading import options_of_state
from discrimloss.loss import DiscrimLoss
from discrimloss.state.predictions import MOST_CLASSES


class SampleLabels(NamedTuple):
    """The targets of a batch and the outputs of the network."""

    target: Tensor
    """Shape (batch,): classes, or regression targets."""
    output: Tensor | None
    """Logits, shape (batch, classes), or predictions, shape (batch,)."""
    num_classes: int | None
    """Number of classes; None for regression, 0 if unknown."""

    def rows(self, chosen: Tensor) -> SampleLabels:
        """Return some of the samples, selected by a mask of shape (batch,)."""
        output = None if self.output is None else self.output[chosen]
        return SampleLabels(self.target[chosen], output, self.num_classes)

    @property
    def options(self) -> dict[str, Any]:
        """Return the constructor arguments of a `DiscrimLoss` for these labels."""
        if self.num_classes is None:
            return {"task": "regression"}
        return {"num_classes": self.num_classes}


def class_labels(target: Tensor, logits: Tensor) -> SampleLabels | None:
    """Return the classes of a batch, or None unless each sample has exactly one class.

    Args:
        target: shape (batch,) or (batch, 1), integer.
        logits: shape (batch, classes).
    """
    is_integer = not (target.is_floating_point() or target.is_complex())
    if not is_integer or target.dtype == torch.bool or logits.dim() != 2:
        return None
    batch, num_classes = logits.shape
    if target.shape not in ((batch,), (batch, 1)) or not 2 <= num_classes <= MOST_CLASSES:
        return None
    return SampleLabels(target.reshape(-1), logits, num_classes)


def regression_labels(target: Tensor, predictions: Tensor) -> SampleLabels | None:
    """Return the regression targets of a batch, or None unless each sample has exactly one.

    Args:
        target: shape (batch,) or (batch, 1).
        predictions: shape (batch,) or (batch, 1).
    """
    fitting = ((len(target),), (len(target), 1))
    if target.shape not in fitting or predictions.shape not in fitting:
        return None
    return SampleLabels(target.reshape(-1), predictions.reshape(-1), None)


@dataclass(frozen=True)
class LabelUse:
    """Options that set whether the criterion gets targets and predictions."""

    class_aware: bool = True
    """Whether the criterion gets targets. Without targets it is the loss of the paper."""
    predictions: bool = True
    """Whether the criterion gets the network's output as well."""

    def require_fit(self, given: DiscrimLoss | Mapping[str, Any]) -> None:
        """Raise an error if a criterion, or its options, contradict `class_aware`."""
        options = given.label_options if isinstance(given, DiscrimLoss) else given
        if _are_for_targets(options) and not self.class_aware:
            raise ValueError(
                "class_aware=False is for a DiscrimLoss without targets, but num_classes or task "
                "was given: leave one of them out"
            )

    def options(self, labels: SampleLabels | None, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a new `DiscrimLoss` for batches like the given one.

        Args:
            labels: labels of the first batch; None unless each sample has exactly one target.
            given: the user's options, which take precedence.
        """
        is_released = given.get("variant") == "released"  # it takes no targets
        if labels is None or is_released or _are_for_targets(given) or not self.class_aware:
            return dict(given)
        if labels.num_classes == 0:
            raise ValueError("the number of classes is unknown: pass logits or num_classes")
        return {**given, **labels.options}

    def saved_options(
        self, shapes: Mapping[str, Sequence[int]], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the options of a `DiscrimLoss` that continues from a saved state.

        Args:
            shapes: the shape of each entry of the saved `state_dict`.
            given: the user's options, which take precedence.
        """
        saved = options_of_state(shapes)
        if saved and not self.class_aware:
            raise ValueError(
                "the saved run used targets, but class_aware=False trains without targets: leave "
                "class_aware out, or start a new run"
            )
        if "table.predicted_visits" in shapes and not self.predictions:
            raise ValueError(
                "the saved run used predictions, but predictions=False trains without them: leave "
                "predictions out, or start a new run"
            )
        return {**saved, **given}

    def arguments(self, criterion: DiscrimLoss, labels: SampleLabels | None) -> dict[str, Tensor]:
        """Return the targets and outputs to pass to the criterion, besides losses and index.

        They depend on how the criterion was built. A run that began without predictions continues
        without them.
        """
        known = criterion.labels
        if known is None:
            return {}
        if labels is None or (labels.num_classes is None) != ("task" in criterion.label_options):
            (name, value), *_ = criterion.label_options.items()
            raise ValueError(
                f"the DiscrimLoss has {name}={value!r}, but a batch does not have exactly one such "
                f"target per sample: leave {name} out"
            )
        began_without = known.has_begun and not criterion.table.has_column("predicted_visits")
        if labels.output is None or not self.predictions or began_without:
            return {"target": labels.target}
        return {"target": labels.target, known.prediction_name: labels.output}


def _are_for_targets(options: Mapping[str, Any]) -> bool:
    return options.get("num_classes") is not None or options.get("task") == "regression"
