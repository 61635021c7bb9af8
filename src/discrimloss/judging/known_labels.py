"""Groups and label errors of a criterion's samples, from targets and averaged predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.class_labels import ClassLabels
from discrimloss.functional import median_by_group
from discrimloss.judging.label_errors import LabelErrors
from discrimloss.judging.noise_model import estimate_class_errors
from discrimloss.judging.regression_noise import estimate_target_errors
from discrimloss.known_labels import SMALLEST_GROUP
from discrimloss.label_correction import MIXING
from discrimloss.loss import DiscrimLoss
from discrimloss.state.predictions import TopPredictions
from discrimloss.state.table import HELD_OUT

MOST_COMPARED = 4_000_000
"""Maximum number of samples per process to compute the difficulty of groups from."""


@dataclass(frozen=True)
class SampleKinds:
    """The groups of the samples of this process, with the values that verdicts need."""

    given: npt.NDArray[Any]
    """Shape (num_samples,), of all processes: the targets."""
    k1: Tensor
    """Shape (rows,): the base threshold of each sample's group."""
    difficulty: Tensor
    """Shape (rows,): median loss of the group over that of all samples, at least 1. A rare class
    is harder to learn than others, but its labels are not wrong because of that."""
    is_small: Tensor
    """Shape (rows,), bool: whether the group is too small for a sample to be called incorrect."""
    notes: tuple[str, ...]


def sample_kinds(criterion: DiscrimLoss) -> SampleKinds | None:
    """Return the groups of the samples of a criterion, or None if it gets no targets."""
    if criterion.labels is None:
        return None
    table, groups = criterion.table, criterion.labels.groups
    group = criterion.labels.groups_of_rows(table, slice(None)).cpu()
    average = torch.cat([chunk.cpu() for chunk in criterion.average_chunks()])
    seen = average.isfinite()
    counts = table.shards.total(torch.bincount(group[seen], minlength=groups))
    is_small = counts < SMALLEST_GROUP
    own = torch.stack([group.float(), average], 1)[seen]
    own = own[:: max(1, -(-len(own) // MOST_COMPARED))]
    if table.shards.several:
        own = torch.cat(table.shards.processes.all_gather_objects(own))
    usual = own[:, 1].median() if len(own) else torch.tensor(1.0)
    medians = median_by_group(own[:, 1], own[:, 0].long(), groups) if len(own) else usual
    difficulty = (medians / usual.clamp(min=1e-12)).clamp(min=1.0).expand(groups)
    difficulty = torch.where(is_small, 1.0, difficulty)
    given = table.whole(table.target).cpu()
    return SampleKinds(
        given=_labels_of(given, criterion.labels),
        k1=criterion.tracker.k1.cpu()[group],
        difficulty=difficulty[group],
        is_small=is_small[group],
        notes=_notes(criterion.labels, (counts > 0) & is_small),
    )


def _labels_of(given: Tensor, labels: Any) -> npt.NDArray[Any]:
    if isinstance(labels, ClassLabels):
        return given.long().numpy()
    return np.asarray(given.double().numpy())


def _notes(labels: Any, is_too_small: Tensor) -> tuple[str, ...]:
    small = is_too_small.nonzero()[:, 0].tolist()
    if not isinstance(labels, ClassLabels) or not small:
        return ()
    names = ", ".join(map(str, small[:10])) + (", …" if len(small) > 10 else "")
    note = (
        f"fewer than {SMALLEST_GROUP} samples have the class {names}: too few to tell which of "
        "them are wrong, so none is called incorrect"
    )
    return (note,)


class _DenseRows:
    """Averaged predictions as dense logits, computed for the requested rows."""

    def __init__(self, top: TopPredictions, num_classes: int) -> None:
        self.top = top
        self.shape = (len(top.mass), num_classes)

    def __getitem__(self, rows: Tensor) -> Tensor:
        some = TopPredictions(self.top.classes[rows].long(), self.top.mass[rows].float())
        return some.dense(self.shape[1]).clamp(min=1e-6).log()


@dataclass(frozen=True)
class PredictedErrors:
    """Label errors of all samples, estimated from averaged predictions."""

    errors: LabelErrors
    agrees: Tensor
    """Shape (num_samples,), bool: whether the most likely class is the given one. All True for
    regression."""
    agreement: float = 1.0
    """Fraction of samples whose most likely class is the given one. 1 for regression."""
    confidence: float = 1.0
    """Mean probability of the most likely class. 1 for regression."""
    worst_class: float = 0.0
    """The largest fraction of a class's labels found wrong, without small classes. 0 for
    regression."""

    @property
    def noise_rate(self) -> float:
        """The estimated fraction of wrong labels among the samples seen."""
        score = self.errors.score[self.errors.score.isfinite()]
        return float(score.double().sigmoid().mean()) if len(score) else 0.0


def errors_by_predictions(criterion: DiscrimLoss) -> PredictedErrors | None:
    """Estimate label errors of all samples from averaged predictions. None without predictions.

    Samples count as held out if all averaged predictions are from before training on them.
    """
    table, labels = criterion.table, criterion.labels
    assert labels is not None
    if not table.has_column("predicted_visits"):
        return None
    seen = (table.whole(table.predicted_visits) > 0).cpu()
    if int(seen.sum()) < 2:
        return None
    is_frozen = labels.holds_out or labels.correction.phase == MIXING
    held_out = (table.whole(labels.roles(table)) == HELD_OUT).cpu() & torch.tensor(is_frozen)
    given = table.whole(table.target).cpu()[seen]
    agreement, confidence, worst = 1.0, 1.0, 0.0
    agrees = torch.ones(len(seen), dtype=torch.bool)
    if isinstance(labels, ClassLabels):
        columns = (table.predicted_class, table.predicted_mass)
        classes, mass = (table.whole(column).cpu()[seen] for column in columns)
        logits: Any = _DenseRows(TopPredictions(classes, mass), labels.groups)
        errors = estimate_class_errors(logits, given.long(), held_out[seen])
        top, place = mass.float().max(1)
        agrees[seen] = classes.gather(1, place.unsqueeze(1))[:, 0] == given
        agreement = float(agrees[seen].float().mean())
        confidence = float(top.mean())
        worst = _worst_class(errors.score > 0, given.long())
    else:
        predicted = table.whole(table.mean_prediction).cpu()[seen]
        errors = estimate_target_errors(predicted, given, held_out[seen])
    score = torch.full((len(seen),), torch.nan)
    score[seen] = errors.score
    suggested = table.whole(table.target).cpu().to(errors.suggested.dtype, copy=True)
    suggested[seen] = errors.suggested
    found = LabelErrors(score, suggested, errors.noise_interval)
    return PredictedErrors(found, agrees, agreement, confidence, worst)


def _worst_class(is_wrong: Tensor, given: Tensor) -> float:
    counts = torch.bincount(given)
    wrong = torch.bincount(given, is_wrong.double())
    fractions = (wrong / counts)[counts >= SMALLEST_GROUP]
    return float(fractions.max()) if len(fractions) else 0.0
