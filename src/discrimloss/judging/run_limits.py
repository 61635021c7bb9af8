"""Detects whether the losses and predictions of a run say too little about its labels.

Average losses include the first epochs. In a short run, a sample that is still being learned looks
like one that cannot be learned. So a label counts as wrong only if its latest loss is high as well.
Some runs cannot tell wrong labels at all, and a note says so. The limits below were chosen on runs
of one to twelve epochs with four optimizers (`benchmarks/verdict_trust.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from discrimloss.judging.calibration import Calibration
from discrimloss.judging.known_labels import PredictedErrors, SampleKinds
from discrimloss.judging.verdicts import CANNOT_TELL
from discrimloss.loss import DiscrimLoss
from discrimloss.loss_kind import LossKind
from discrimloss.run_watch import FEW_SAMPLES, FEWEST_SAMPLES, MOST_SEEN
from discrimloss.state.table import SampleTable
from discrimloss.target_ranges import TargetRanges

MOST_COMPARED = 1_000_000
"""Maximum number of samples per process to compute the values for the limits from."""
FEWEST_VISITS = 2
"""Minimum number of visits. With fewer, a loss depends on when a sample was seen."""
LEARNED_BY_LOSSES, LEARNED_BY_PREDICTIONS = 0.5, 0.85
"""Maximum median latest loss of a run that has learned its task, in units of the loss scale:
for verdicts by losses, and for verdicts by predictions."""
LEAST_CONFIDENCE = 1.0 / 3.0
"""Minimum ratio of the mean confidence of predictions to their agreement with the labels. The
confidence of an untrained network is far lower than its agreement."""
MOST_DOUBT = 0.25
"""Maximum expected number of misjudged samples, as a fraction of those found wrong. With more,
losses do not form two groups. Losses of overlapping classes are often between both groups."""
FEW_WRONG, MOST_DOUBT_OF_FEW = 0.12, 0.1
"""Below the first noise rate, the second value replaces `MOST_DOUBT`. Classes that are easily
confused look like a few wrong labels."""
HARDLY_ANY = 0.05
"""Below this noise rate, the data are almost clean. `MOST_DOUBT` applies again, and losses must not
exceed the next two limits."""
LEARNED_IF_CLEAN, HIGH_IF_CLEAN = 0.3, 0.1
"""Limits for almost clean data. The first is the maximum median latest loss, in units of the loss
scale. The second is the maximum fraction of samples with a latest loss above the loss scale that
are not found wrong."""
LEAST_SUPPORT = 0.4
"""Minimum number of labels with a latest loss above the loss scale, per label found wrong."""
WAS_HIGH, IS_LOW, MOST_LEARNED_LATE = 0.5, 0.25, 0.1
"""Samples with a high average loss but a low latest loss, in units of the loss scale, were learned
late. If there are more than this, some of them may be wrong labels."""
MOST_UNEXPLAINED, MOST_OF_FOUND = 1.0 / 6.0, 0.9
"""Labels that contradict the most likely class but are not found wrong, as a fraction of all labels
and of those found wrong. If there are more than both, the network is unsure and cannot distinguish
wrong labels from hard samples."""
MORE_BY_LOSSES, MOST_DOUBT_TO_COMPARE = 0.08, 0.1
"""If losses show this much more noise than predictions, wrong labels may be memorised. This is not
checked if losses may misjudge more than the second fraction of all samples."""
NO_NOISE = 0.025
"""Predictions that find more wrong labels than `HARDLY_ANY`, but cannot exclude this rate, do not
distinguish overlapping classes from wrong labels."""
WHOLE_CLASS = 0.95
"""If more than this fraction of a class's labels are found wrong, the network has not learned the
class."""

OTHER_LOSS, LEAST_ENTROPY = 0.05, 20.0
"""Losses are not plain cross-entropy if their sum differs from that of the cross-entropies by the
first fraction, in total or in a class. Cross-entropies that sum to less than the second value are
ignored."""

NOT_CROSS_ENTROPY = (
    "The losses are not the cross-entropy of logits= and target= (class weights, smoothing, mixed "
    "samples or another loss), so labels are judged by the predictions alone."
)
WRONG_INDEX = (
    "Only {seen} of {num_samples} samples were seen, many times in every epoch: the index is "
    "probably not the position of the sample, and the run cannot tell anything about the labels."
)
TOO_SHORT = (
    "The run is too short to tell which labels are wrong: most samples were seen once. Train for "
    "more epochs."
)
NOT_LEARNED = (
    "The network has not learned the task yet, so the run cannot tell which labels are wrong. "
    "Train for more epochs or with a larger learning rate."
)
NOT_SEPARATED = (
    "The losses do not fall into two groups, so they cannot tell wrong labels from hard samples. "
    "Pass target= and logits= as well, or train for more epochs."
)
NO_SCALE = (
    "The losses are distances of regression targets: alone, they do not show how large the loss of "
    "a wrong target is, so the run cannot tell how many are wrong. Pass target= and predictions= "
    'to a DiscrimLoss with task="regression".'
)
WEIGHTED = (
    "The losses contain class weights, which hide wrong labels of classes with a small weight, so "
    "the run cannot tell which labels are wrong. Pass losses without weights and weight what "
    'DiscrimLoss with reduction="none" returns, or pass target= and logits= as well.'
)
UNSURE = (
    "The network's predictions contradict many labels without being confident, so they cannot "
    "tell wrong labels from hard samples. Train for more epochs or with a model that fits better."
)
CLASS_NOT_LEARNED = (
    "Nearly all labels of a class would be called incorrect: the network has not learned this "
    "class, so the run cannot tell which labels are wrong. Train for more epochs, or weight the "
    "rare classes."
)
MEMORISED = (
    "The losses show more wrong labels than the predictions: the network has probably memorised "
    "some of them, and the run cannot tell how many. Train for fewer epochs."
)
LEARNED_LATE = (
    "Many labels were learned late: they are memorised or hard, and the run cannot tell which of "
    "them are wrong. Train for fewer epochs or with a smaller network."
)


FAR_OFF_ONLY = (
    "The losses are distances of regression targets: alone, they show only wrong targets that are "
    "far off, so more may be wrong than estimated."
)
"""A note for runs on regression targets with an estimate."""

LEARNED_AS_THEY_ARE = (
    "Almost no label contradicts what the network has learned. Wrong labels that follow a rule, "
    "such as those of keyword rules, are learned like correct ones and cannot be detected."
)
"""A note for runs with an estimate below `HARDLY_ANY`."""


class RunLosses(NamedTuple):
    """Losses of some samples of all processes, over the loss scale and their group's difficulty."""

    average: Tensor
    """Shape (samples,): ``Avg(l)``."""
    latest: Tensor
    """Shape (samples,): the loss of the latest visit."""
    visits: Tensor
    """Shape (samples,)."""
    unit: float
    """The loss scale."""

    def noise(self, calibration: Calibration) -> LossNoise:
        """Return the estimated noise of these samples, given a calibration."""
        p_incorrect = calibration(against_label(self.average, self.latest) * self.unit)
        return LossNoise(
            rate=float(p_incorrect.mean()),
            doubt=float(torch.minimum(p_incorrect, 1.0 - p_incorrect).mean()),
        )


class LossNoise(NamedTuple):
    """The noise estimated from losses."""

    rate: float
    """The estimated fraction of wrong labels."""
    doubt: float
    """The expected fraction of misjudged samples."""

    @property
    def is_clear(self) -> bool:
        """Whether losses form two groups, or almost no label is wrong."""
        is_few = HARDLY_ANY <= self.rate < FEW_WRONG
        return self.doubt <= (MOST_DOUBT_OF_FEW if is_few else MOST_DOUBT) * self.rate


def against_label(average: Tensor, latest: Tensor) -> Tensor:
    """Return the evidence of losses against a label: the geometric mean of latest and average loss.

    Robust losses may be negative. Unless both are positive, the result is the smaller of the two.
    """
    is_positive = (average > 0) & (latest > 0)
    product = torch.where(is_positive, average * latest, 1.0)
    return torch.where(is_positive, product.sqrt(), torch.minimum(average, latest))


def run_losses(criterion: DiscrimLoss, latest: Tensor, kinds: SampleKinds | None) -> RunLosses:
    """Return losses of up to `MOST_COMPARED` samples per process. All processes must call this.

    Args:
        criterion: the criterion with the average losses.
        latest: shape (rows,): latest losses of the samples of this process.
        kinds: the groups of the samples, if targets are known.
    """
    table = criterion.table
    average = torch.cat([chunk.cpu() for chunk in criterion.average_chunks()])
    unit = torch.tensor(float(criterion.loss_scale))
    difficulty = unit if kinds is None else unit * kinds.difficulty
    columns = (average / difficulty, latest / difficulty, table.visits.float().cpu())
    own = torch.stack(columns, 1)[average.isfinite()]
    own = own[:: max(1, -(-len(own) // MOST_COMPARED))]
    if table.shards.several:
        own = torch.cat(table.shards.processes.all_gather_objects(own))
    return RunLosses(own[:, 0], own[:, 1], own[:, 2], float(unit))


def are_other_losses(criterion: DiscrimLoss) -> bool:
    """Return whether losses are known to differ from the cross-entropy of their logits.

    Sums of both are recorded while samples are held out. Without them, the answer is False.
    """
    if criterion.labels is None:
        return False
    sums = criterion.labels.correction.unit_sums.cpu()
    sums = torch.cat([sums, sums.sum(0, keepdim=True)])
    losses, entropies = sums[sums[:, 1] >= LEAST_ENTROPY].unbind(1)
    return bool(((losses / entropies - 1.0).abs() > OTHER_LOSS).any())


def kind_of_all_losses(criterion: DiscrimLoss) -> LossKind:
    """Return the kind of the losses of a run. All processes must call this."""
    own = "distances" if isinstance(criterion.labels, TargetRanges) else criterion.watch.loss_kind
    kinds: tuple[LossKind, ...] = ("distances", "weighted")
    found = criterion.table.shards.total(torch.tensor([int(own == kind) for kind in kinds]))
    return next((kind for kind, count in zip(kinds, found, strict=True) if count > 0), "other")


def limit_by_index(table: SampleTable, epoch: int) -> str | None:
    """Return why the index is probably not that of the samples, or None.

    All processes must call this.

    Args:
        table: the sample table.
        epoch: the last epoch.
    """
    visits = table.visits[table.visits > 0]
    sums = torch.tensor([len(visits), int(visits.sum())])
    seen, total = table.shards.total(sums).tolist()
    is_few = table.num_samples >= FEWEST_SAMPLES and seen <= MOST_SEEN * table.num_samples
    if is_few and total > FEW_SAMPLES * seen * epoch:
        return WRONG_INDEX.format(seen=seen, num_samples=table.num_samples)
    return None


def limit_by_losses(losses: RunLosses, found: LossNoise, kind: LossKind = "other") -> str | None:
    """Return why losses cannot tell which labels are wrong, or None if they can.

    Args:
        losses: losses of the run.
        found: the noise estimated from the losses.
        kind: kind of the losses.
    """
    if len(losses.latest) == 0:
        return None
    if float(losses.visits.median()) < FEWEST_VISITS:
        return TOO_SHORT
    support = float((losses.latest > 1.0).float().mean())
    if float(losses.latest.median()) > LEARNED_BY_LOSSES or support < LEAST_SUPPORT * found.rate:
        return NOT_LEARNED
    if kind == "weighted":
        return WEIGHTED
    if found.rate < HARDLY_ANY and kind == "distances":
        return NO_SCALE
    if found.rate < HARDLY_ANY and _are_high(losses, support - found.rate):
        return NOT_SEPARATED
    if not found.is_clear:
        return NOT_SEPARATED
    learned_late = (losses.average > WAS_HIGH) & (losses.latest < IS_LOW)
    return LEARNED_LATE if float(learned_late.float().mean()) > MOST_LEARNED_LATE else None


def _are_high(losses: RunLosses, unexplained: float) -> bool:
    """Return whether losses are too high for almost clean labels."""
    return float(losses.latest.median()) > LEARNED_IF_CLEAN or unexplained > HIGH_IF_CLEAN


def limit_by_predictions(
    losses: RunLosses,
    by_losses: LossNoise,
    predicted: PredictedErrors,
    *,
    by_losses_too: bool = True,
) -> str | None:
    """Return why predictions cannot tell which labels are wrong, or None if they can.

    Args:
        losses: losses of the run.
        by_losses: the noise estimated from losses.
        predicted: the label errors estimated from predictions.
        by_losses_too: whether the losses can be compared with the predictions.
    """
    if predicted.errors.noise_interval is None:
        return CANNOT_TELL
    median = float(losses.latest.median()) if len(losses.latest) else 0.0
    is_unsettled = predicted.confidence < LEAST_CONFIDENCE * predicted.agreement
    if is_unsettled or (by_losses_too and median > LEARNED_BY_PREDICTIONS):
        return NOT_LEARNED
    are_clear = median <= LEARNED_BY_LOSSES and by_losses.doubt <= MOST_DOUBT_TO_COMPARE
    if by_losses_too and are_clear and by_losses.rate > predicted.noise_rate + MORE_BY_LOSSES:
        return MEMORISED
    if predicted.worst_class > WHOLE_CLASS:
        return CLASS_NOT_LEARNED
    return UNSURE if _is_unsure(predicted) else None


def _is_unsure(predicted: PredictedErrors) -> bool:
    """Return whether wrong labels do not explain the contradictions of labels and predictions."""
    rate, interval = predicted.noise_rate, predicted.errors.noise_interval
    unexplained = 1.0 - predicted.agreement - rate
    if rate <= HARDLY_ANY:
        return unexplained > MOST_UNEXPLAINED
    may_be_none = interval is not None and interval[0] < NO_NOISE
    most = MOST_OF_FOUND * rate
    return may_be_none or unexplained > (most if rate < FEW_WRONG else max(MOST_UNEXPLAINED, most))
