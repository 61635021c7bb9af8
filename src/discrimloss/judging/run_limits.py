"""When the losses and predictions of a run say too little about its labels, and why.

Average losses remember the first epochs: in a short run, a sample that is still being learned looks
like one that cannot be learned. So a label counts as wrong only where its latest loss speaks
against it as well. And some runs cannot tell wrong labels at all, which is said in one sentence.
The limits below were chosen on runs of one to twelve epochs with four optimizers
(`benchmarks/verdict_trust.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from discrimloss.judging.calibration import Calibration
from discrimloss.judging.known_labels import PredictedErrors, SampleKinds
from discrimloss.judging.verdicts import CANNOT_TELL
from discrimloss.loss import DiscrimLoss

MOST_COMPARED = 1_000_000
"""Samples that the limits are computed from."""
FEWEST_VISITS = 2
"""Losses of fewer visits say when a sample was seen rather than whether it can be learned."""
LEARNED_BY_LOSSES, LEARNED_BY_PREDICTIONS = 0.5, 0.85
"""The median latest loss of a run that has learned its task, in units of the loss scale at most."""
LEAST_CONFIDENCE = 1.0 / 3.0
"""The mean confidence of predictions that have settled, as a fraction of how often they agree with
the labels. An untrained network is far less confident than it is right."""
MOST_DOUBT = 0.1
"""Samples that may be misjudged, as a fraction, where losses fall into two groups."""
FEW_WRONG, MOST_DOUBT_OF_FEW = 0.12, 0.2
"""Where losses find no more wrong labels than this, they may misjudge so many of those. Natural
confusions between classes look like a few wrong labels."""
LEAST_SUPPORT = 0.5
"""Labels whose latest loss exceeds the loss scale, as a fraction of those found wrong."""
WAS_HIGH, IS_LOW, MOST_LEARNED_LATE = 0.5, 0.25, 0.1
"""Samples whose average loss is high while the latest is low, in units of the loss scale, were
learned late. Where they are more than this, wrong labels may be among them."""
MOST_UNEXPLAINED = 1.0 / 6.0
"""Labels that contradict the likeliest class and are not found wrong, as a fraction. Where they are
more, the network is unsure, and wrong labels hide among hard samples."""
MORE_BY_LOSSES = 0.08
"""Where losses find so much more noise than predictions, wrong labels may be memorised."""

OTHER_LOSS, LEAST_ENTROPY = 0.05, 20.0
"""Losses are not plain cross-entropy where their sum is off by this fraction, in all or in a class
whose cross-entropies sum up to the second value at least."""

NOT_CROSS_ENTROPY = (
    "The losses are not the cross-entropy of logits= and target= (class weights, smoothing, mixed "
    "samples or another loss), so labels are judged by the predictions alone."
)
TOO_SHORT = (
    "The run is too short to tell which labels are wrong: most samples were seen once. Train for "
    "more epochs."
)
NOT_LEARNED = (
    "The network has not learned the task yet, so the run cannot tell which labels are wrong. "
    "Train for more epochs or with a larger learning rate."
)
NOT_APART = (
    "The losses do not fall into two groups, so they cannot tell wrong labels from hard samples. "
    "Give target= and logits= as well, or train for more epochs."
)
UNSURE = (
    "The network's predictions contradict many labels without being sure of it, so they cannot "
    "tell wrong labels from hard samples. Train for more epochs or with a model that fits better."
)
MEMORISED = (
    "The losses show more wrong labels than the predictions: the network has probably memorised "
    "some of them, and the run cannot tell how many. Train for fewer epochs."
)
LEARNED_LATE = (
    "Many labels were learned late: they are memorised or hard, and the run cannot tell which of "
    "them are wrong. Train for fewer epochs or with a smaller network."
)


class RunLosses(NamedTuple):
    """Losses of some samples of all processes, in units of the loss scale and of their group."""

    average: Tensor
    """Shape (samples,): ``Avg(l)``."""
    latest: Tensor
    """Shape (samples,): the loss of the latest visit."""
    visits: Tensor
    """Shape (samples,)."""
    unit: float
    """The loss scale."""

    def noise(self, calibration: Calibration) -> LossNoise:
        """What a calibration finds among these samples."""
        p_incorrect = calibration(against_label(self.average, self.latest) * self.unit)
        return LossNoise(
            rate=float(p_incorrect.mean()),
            doubt=float(torch.minimum(p_incorrect, 1.0 - p_incorrect).mean()),
        )


class LossNoise(NamedTuple):
    """Wrong labels by losses."""

    rate: float
    """The estimated fraction of wrong labels."""
    doubt: float
    """The fraction of samples that are expected to be misjudged."""


def against_label(average: Tensor, latest: Tensor) -> Tensor:
    """How far losses speak against a label, now and before: their geometric mean.

    Robust losses may be negative: then the smaller of the two.
    """
    is_positive = (average > 0) & (latest > 0)
    product = torch.where(is_positive, average * latest, 1.0)
    return torch.where(is_positive, product.sqrt(), torch.minimum(average, latest))


def run_losses(criterion: DiscrimLoss, latest: Tensor, kinds: SampleKinds | None) -> RunLosses:
    """Up to `MOST_COMPARED` samples of all processes. All of them must call this.

    Args:
        criterion: with the average losses.
        latest: shape (rows,): latest losses of the samples of this process.
        kinds: the groups of the samples, where targets are known.
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
    """Whether losses are known to differ from the cross-entropy of the logits that came with them.

    Sums of both are kept while samples are held out; without them nothing is known.
    """
    if criterion.labels is None:
        return False
    sums = criterion.labels.correction.unit_sums.cpu()
    sums = torch.cat([sums, sums.sum(0, keepdim=True)])
    losses, entropies = sums[sums[:, 1] >= LEAST_ENTROPY].unbind(1)
    return bool(((losses / entropies - 1.0).abs() > OTHER_LOSS).any())


def limit_by_losses(losses: RunLosses, found: LossNoise) -> str | None:
    """Why losses cannot tell which labels are wrong; None if they can."""
    if len(losses.latest) == 0:
        return None
    if float(losses.visits.median()) < FEWEST_VISITS:
        return TOO_SHORT
    support = float((losses.latest > 1.0).float().mean())
    if float(losses.latest.median()) > LEARNED_BY_LOSSES or support < LEAST_SUPPORT * found.rate:
        return NOT_LEARNED
    few = found.rate < FEW_WRONG and found.doubt > MOST_DOUBT_OF_FEW * found.rate
    if found.doubt > MOST_DOUBT or few:
        return NOT_APART
    learned_late = (losses.average > WAS_HIGH) & (losses.latest < IS_LOW)
    return LEARNED_LATE if float(learned_late.float().mean()) > MOST_LEARNED_LATE else None


def limit_by_predictions(
    losses: RunLosses,
    by_losses: LossNoise,
    predicted: PredictedErrors,
    *,
    by_losses_too: bool = True,
) -> str | None:
    """Why predictions cannot tell which labels are wrong; None if they can.

    Args:
        losses: of the run.
        by_losses: what they find.
        predicted: what predictions find.
        by_losses_too: whether losses are those of the labels, and a second witness.
    """
    if predicted.errors.noise_interval is None:
        return CANNOT_TELL
    median = float(losses.latest.median()) if len(losses.latest) else 0.0
    is_unsettled = predicted.confidence < LEAST_CONFIDENCE * predicted.agreement
    if is_unsettled or (by_losses_too and median > LEARNED_BY_PREDICTIONS):
        return NOT_LEARNED
    rate = predicted.noise_rate
    if 1.0 - predicted.agreement - rate > MOST_UNEXPLAINED:
        return UNSURE
    are_clear = median <= LEARNED_BY_LOSSES and by_losses.doubt <= MOST_DOUBT
    if by_losses_too and are_clear and by_losses.rate > rate + MORE_BY_LOSSES:
        return MEMORISED
    return None
