"""When and how labels are corrected during training. This extends the paper.

A loss that distrusts labels helps if the network memorises wrong ones. Otherwise it hurts, because
rare classes and hard samples have large losses too. So a small fraction of the samples is held out
of the gradient at first, and their loss is compared with that of the other samples:

- While the loss of the held-out samples falls, the network learns the labels as they are.
- If the held-out labels show that some labels are wrong (`judging.held_out_noise`), labels are
  corrected: the target is divided between the label and the classes that the current predictions
  suggest, and is smoothed.
- When the held-out loss stops falling and the loss of the training samples is far below it, the
  network memorises. From then on, most of the target is the average of earlier predictions. The
  averages are not used until their own held-out loss has stopped falling as well.
- If none of this happens while samples are held out, the loss is then the plain task loss.

Averaged predictions favour frequent classes. Before they serve as targets they are adjusted, so
that each class has the same weight as among the labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrimloss.functional import at_least_float32
from discrimloss.held_out import (
    FEWEST_HELD_OUT,
    LARGEST_FRACTION,
    SMALLEST_FRACTION,
    Samples,
    class_counts,
    held_out_fraction,
    samples_of,
)
from discrimloss.judge import fit_noise
from discrimloss.soft_targets import Targets, at_positions, class_bias
from discrimloss.state.fixed_dtype import FixedDtypeModule
from discrimloss.state.predictions import TopPredictions
from discrimloss.state.table import SampleTable

if TYPE_CHECKING:
    from discrimloss.judging.held_out_noise import HeldOutNoise

# Phases of a run. Samples are held out in the first two.
WATCHING, CORRECTING, CORRECTING_ALL, MIXING, PLAIN = range(5)

MOST_CLASSES_WITH_MATRIX = 100
"""With more classes, wrong labels are assumed to be uniform: each pair has too few samples."""
WATCHED_FRACTION = 0.5
"""Holding out ends after this fraction of the epochs, if `LARGEST_FRACTION` is held out."""
MOST_WATCHED_FRACTION = 0.8
"""The same if `SMALLEST_FRACTION` is held out. It is larger, because few samples cost little."""
PATIENCE = 0.05
"""The held-out loss has stopped falling if it has not fallen for this fraction of the run."""
SMALLEST_STEP = 0.02
"""Averaged predictions still improve if their held-out loss falls by this fraction per epoch."""
SMALLEST_GAP = 0.15
"""A network memorises if the loss of training samples is lower by at least this fraction."""
GAP_DEVIATIONS = 2.0
"""The gap must also be this many times its standard error."""
NO_GAP, EARLY_RELEASE = 0.05, 0.25
"""If the gap is below the first value after the second fraction of the epochs, the network does not
memorise. It then learns from all samples, unless there is evidence for wrong labels."""
LITTLE_EVIDENCE = 1.0
"""There is no evidence for wrong labels below this value."""

CORRECTING_EVIDENCE = 10.0
"""Above this evidence for wrong labels, labels are corrected while the network still learns."""
MOSTLY_WRONG = 0.5
"""A noise rate above this is kept, even if the next estimate finds no evidence. Corrected labels
make a network overconfident, and then lower confidence explains the labels as well as noise."""
NOTHING_MEMORISED, ENOUGH_FITTED = 0.01, 6_000
"""If most labels are wrong, each carries little information. While the gap is below the first
value, the estimate then also uses training samples, at most as many as the second value."""
POSTERIOR_EVIDENCE = 2.5
"""Above this evidence, mixed targets contain corrected labels."""
PREDICTED_WEIGHT = 0.8
"""Weight of the averaged prediction in a mixed target. The label has the rest."""
SHARPENING = 2.5
"""Exponent of averaged predictions in mixed targets."""
SMOOTHING = 0.2
"""Fraction of a corrected target that is spread over all classes, against overconfidence. It
shrinks as the noise grows: if most labels are wrong, they teach so little that the network would
learn only the smoothing."""
LITTLE_NOISE, MUCH_NOISE = 0.1, 0.3
"""Up to the first fraction of wrong labels, corrected labels have equal weights. From the second
on, they have the learned weights. If few labels are wrong, most large losses belong to
hard samples."""
LEAST_MASS = 1e-6
"""Probabilities below this are stored too coarsely to compute a cross-entropy from."""
MOST_FITTED_ENTRIES = 2_000_000
"""Largest number of held-out samples times classes in a noise estimate."""


class LabelCorrection(FixedDtypeModule):
    """The phase of a run and the estimated label noise. All of it is in `state_dict`.

    Args:
        num_classes: number of classes; 0 for regression.
        num_samples: size of the training set when the run starts.
        epochs: length of the run.
    """

    phase_count: Tensor
    """Scalar, int64: one of the phases."""
    held_out: Tensor
    """Scalar: the fraction of samples that is held out."""
    sums: Tensor
    """Shape (2, 3), float64: number, sum and sum of squares of the losses of this epoch, for
    training and for held-out samples."""
    lowest: Tensor
    """Scalar, float64: the lowest mean loss of the held-out samples so far."""
    epochs_since_lowest: Tensor
    """Scalar, int64."""
    lowest_of_average: Tensor
    """Scalar, float64: the lowest held-out loss of the averaged predictions so far."""
    evidence: Tensor
    """Scalar: evidence for wrong labels. See `judging.held_out_noise`."""
    noise_rate: Tensor
    """Scalar: estimated fraction of wrong labels."""
    sharpness: Tensor
    """Scalar: exponent of predictions in corrected labels."""
    log_transition: Tensor
    """Shape (classes, classes): log probability of each given label for each true class. Empty if
    wrong labels are assumed to be uniform."""
    mixing_bias: Tensor
    """Shape (classes,): bias that adjusts the averaged predictions to the class frequencies."""
    label_bias: Tensor
    """Shape (classes,): the same bias for corrected labels."""
    unit_sums: Tensor
    """Shape (classes, 2), float64: sum of task losses and of cross-entropies of each class."""

    def __init__(self, num_classes: int, num_samples: int, epochs: float) -> None:
        super().__init__()
        self.num_classes, self.epochs = num_classes, epochs
        matrix = num_classes if num_classes <= MOST_CLASSES_WITH_MATRIX else 0
        self.register_buffer("phase_count", torch.tensor(PLAIN))
        self.register_buffer("held_out", torch.tensor(0.0))
        self.register_buffer("sums", torch.zeros(2, 3, dtype=torch.float64))
        self.register_buffer("lowest", torch.tensor(torch.inf, dtype=torch.float64))
        self.register_buffer("epochs_since_lowest", torch.tensor(0))
        self.register_buffer("lowest_of_average", torch.tensor(torch.inf, dtype=torch.float64))
        for name, value in (("evidence", 0.0), ("noise_rate", 0.0), ("sharpness", 1.0)):
            self.register_buffer(name, torch.tensor(value))
        self.register_buffer("log_transition", torch.zeros(matrix, matrix))
        for name in ("mixing_bias", "label_bias"):
            self.register_buffer(name, torch.zeros(num_classes))
        self.register_buffer("unit_sums", torch.zeros(num_classes, 2, dtype=torch.float64))
        self.phase, self.fraction, self.corrects_labels = PLAIN, 0.0, False
        self.begin(num_samples)

    def begin(self, num_samples: int) -> None:
        """Choose the fraction of samples to hold out, before the first batch of a run."""
        fraction = held_out_fraction(num_samples, self.epochs)
        self.held_out.fill_(fraction)
        self.phase_count.fill_(WATCHING if fraction else PLAIN)
        self._refresh()

    def _refresh(self) -> None:
        """Read the values that steps use as plain numbers, so that no step waits for the device."""
        self.phase, self.fraction = int(self.phase_count), float(self.held_out)
        self.corrects_labels = float(self.evidence) > POSTERIOR_EVIDENCE

    @property
    def holds_out(self) -> bool:
        """Whether samples are held out of the gradient in this phase."""
        return self.phase in (WATCHING, CORRECTING)

    def scale(self) -> float:
        """Return the factor of training losses that makes up for the held-out samples."""
        return 1.0 / (1.0 - self.fraction) if self.holds_out else 1.0

    def weight_exponent(self) -> Tensor:
        """Return the exponent of the learned weights of corrected labels, a scalar.

        It is a tensor, so that a step is not compiled again when the noise rate changes.
        """
        return ((self.noise_rate - LITTLE_NOISE) / (MUCH_NOISE - LITTLE_NOISE)).clamp(0.0, 1.0)

    def record(self, losses: Tensor, is_held_out: Tensor, counts: Tensor) -> None:
        """Add the losses of a batch to the sums of the epoch.

        Args:
            losses: shape (rows,).
            is_held_out: shape (rows,), bool.
            counts: shape (rows,), bool: which rows to include.
        """
        values = torch.where(counts, losses, 0.0).double()
        rows = torch.stack([counts.double(), values, values.square()], dim=1)
        self.sums.index_add_(0, is_held_out.long(), rows)

    def record_units(self, losses: Tensor, mass_of_label: Tensor, target: Tensor) -> None:
        """Add the task losses and the cross-entropies of a batch to the sums of their classes.

        Args:
            losses: shape (rows,).
            mass_of_label: shape (rows,): predicted probabilities of the labels. Rows with less than
                `LEAST_MASS` are left out.
            target: shape (rows,), int64.
        """
        rows = torch.stack([losses, -mass_of_label.log()], 1).double()
        counts = rows.isfinite().all(1) & (mass_of_label >= LEAST_MASS)
        self.unit_sums.index_add_(0, target, torch.where(counts.unsqueeze(1), rows, 0.0))

    def units(self) -> Tensor:
        """Return the ratio of task loss to cross-entropy of each class, shape (classes,).

        A class without data has the ratio of all classes together.
        """
        losses, entropies = self.unit_sums.unbind(1)
        total_loss, total_entropy = self.unit_sums.sum(0).unbind()
        is_known = (total_loss > 0) & (total_entropy > 0)
        usual = torch.where(is_known, total_loss / total_entropy.clamp(min=1e-12), 1.0)
        of_class = losses / (entropies.clamp(min=1e-6) * usual)
        known = (losses > 0) & (entropies > 1e-6)
        return (usual * torch.where(known, of_class, 1.0).clamp(0.01, 100.0)).float()

    # ---------------------------------------------------------------- an epoch

    def end_epoch(self, epoch: int, table: SampleTable) -> None:
        """Choose the phase of the next epoch. All processes must call this.

        Args:
            epoch: the one that ends.
            table: the samples.
        """
        if not self.holds_out:
            return
        memorises, gap = self._memorises(), self._gap()
        self.sums.zero_()
        has_predictions = self.num_classes > 0 and table.has_optional_columns()
        if has_predictions:
            held = samples_of(table, is_held_out=True)
            if self.phase == WATCHING:
                memorises &= not self._average_improves(held)
            if memorises or epoch >= 2:
                self._fit_noise(held, samples_of(table, is_held_out=False), gap)
        if memorises:
            if has_predictions:
                self._match_classes(table)
            self._set_phase(MIXING)
            return
        if self.phase == WATCHING and float(self.evidence) > CORRECTING_EVIDENCE:
            self._set_phase(CORRECTING)
            self.lowest.fill_(torch.inf)
        elif self.phase == CORRECTING and float(self.evidence) < LITTLE_EVIDENCE:
            self._set_phase(WATCHING)  # the network has improved: return to watching
            self.lowest.fill_(torch.inf)
        if epoch >= self._watched_fraction(gap) * self.epochs:  # end holding out
            self._set_phase(PLAIN if self.phase == WATCHING else CORRECTING_ALL)

    def _watched_fraction(self, gap: float) -> float:
        """Return the fraction of the epochs after which holding out ends."""
        is_clean = float(self.evidence) < LITTLE_EVIDENCE
        if self.phase == WATCHING and is_clean and gap < NO_GAP:
            return EARLY_RELEASE
        spare = (LARGEST_FRACTION - self.fraction) / (LARGEST_FRACTION - SMALLEST_FRACTION)
        return WATCHED_FRACTION + spare * (MOST_WATCHED_FRACTION - WATCHED_FRACTION)

    def _gap(self) -> float:
        """Return how far the training loss is below the held-out loss, as a fraction."""
        number, total, _ = self.sums.unbind(1)
        trained, held_out = (total / number.clamp(min=1)).tolist()
        return float((held_out - trained) / max(abs(held_out), 1e-12))

    def _memorises(self) -> bool:
        """Return whether the held-out loss no longer falls, and is far above the training loss."""
        number, total, squares = self.sums.unbind(1)
        if float(number.min()) < FEWEST_HELD_OUT:
            return False
        mean = total / number
        variance = (squares / number - mean.square()).clamp(min=0.0) / number
        held_out = float(mean[1])
        if held_out < float(self.lowest):
            self.lowest.fill_(held_out)
            self.epochs_since_lowest.zero_()
            return False
        self.epochs_since_lowest += 1
        return (
            int(self.epochs_since_lowest) >= max(1, round(PATIENCE * self.epochs))
            and held_out - float(mean[0]) > GAP_DEVIATIONS * float(variance.sum().sqrt())
            and self._gap() > SMALLEST_GAP
        )

    def _average_improves(self, held: Samples) -> bool:
        """Return whether the held-out loss of the averaged predictions still falls."""
        mass = held.top.of_class(held.target.unsqueeze(1), self.num_classes)
        loss = float(-mass.clamp(min=1e-6).log().double().mean())
        lowest = float(self.lowest_of_average)
        self.lowest_of_average.fill_(min(loss, lowest))
        return loss < (1.0 - SMALLEST_STEP) * lowest

    def _fit_noise(self, held: Samples, trained: Samples, gap: float) -> None:
        """Estimate the label noise from samples that are not memorised."""
        if len(held.target) < FEWEST_HELD_OUT:
            return
        found = self._noise_among(held, trained)
        if found.noise_rate > MOSTLY_WRONG and gap < NOTHING_MEMORISED:
            found = self._noise_among(held.followed_by(trained.at_most(ENOUGH_FITTED)), trained)
        was_mostly_wrong = self.phase == CORRECTING and float(self.noise_rate) > MOSTLY_WRONG
        if was_mostly_wrong and found.evidence < LITTLE_EVIDENCE:
            return
        self.evidence.fill_(found.evidence)
        self.noise_rate.fill_(found.noise_rate)
        self.sharpness.fill_(found.sharpness)
        if found.log_transition is not None:
            self.log_transition.copy_(found.log_transition)
        self._refresh()

    def _noise_among(self, samples: Samples, trained: Samples) -> HeldOutNoise:
        """Estimate the noise among some samples, with the confusions of the training samples."""
        likeliest = trained.top.classes.gather(1, trained.top.mass.argmax(1, keepdim=True))[:, 0]
        samples = samples.at_most(max(MOST_FITTED_ENTRIES // self.num_classes, FEWEST_HELD_OUT))
        log_probabilities = samples.top.dense(self.num_classes).clamp(min=1e-6).log()
        return fit_noise(log_probabilities, samples.target, likeliest, trained.target)

    def _match_classes(self, table: SampleTable) -> None:
        """Adjust averaged predictions to the class frequencies of the labels."""
        frequency = class_counts(table, self.num_classes).float() + 0.5
        frequency = frequency / frequency.sum()
        top = samples_of(table, is_held_out=None).top
        self.mixing_bias.copy_(class_bias(top, frequency, SHARPENING))
        self.label_bias.copy_(class_bias(top, frequency, float(self.sharpness)))

    def _set_phase(self, phase: int) -> None:
        self.phase_count.fill_(phase)
        self._refresh()

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._refresh()

    # ---------------------------------------------------------------- targets

    def noisy_losses(self, top: TopPredictions, target: Tensor) -> Tensor:
        """Return minus the log probability of the labels under the estimated noise."""
        given = self._log_given(top.classes, target).exp()
        of_kept = (given * top.mass).sum(1)
        # The label may not be one of the kept classes. Other missing classes have little effect.
        label = target.unsqueeze(1)
        is_kept = (top.classes == label).any(1)
        of_label = top.others(self.num_classes) * self._log_given(label, target).exp()[:, 0]
        return -(of_kept + torch.where(is_kept, 0.0, of_label)).clamp(min=1e-7).log()

    def corrected_targets(self, logits: Tensor, target: Tensor) -> Targets:
        """Return targets from the current predictions and the estimated noise."""
        classes = torch.arange(logits.shape[1], device=logits.device).expand(len(target), -1)
        predicted = at_least_float32(logits.detach()).log_softmax(1)
        weights = (predicted + self._log_given(classes, target)).softmax(1)
        evenly_wrong = 1.0 - 1.0 / self.num_classes  # then labels carry no information
        smoothing = SMOOTHING * (1.0 - self.noise_rate / evenly_wrong).clamp(min=0.0).to(weights)
        return Targets(classes, (1.0 - smoothing) * weights + smoothing / self.num_classes)

    def mixed_targets(self, top: TopPredictions, target: Tensor) -> Targets:
        """Return targets from the averaged predictions and the labels.

        A sample without predictions keeps its label.
        """
        label = target.unsqueeze(1)
        classes = torch.cat([top.classes, label], 1)
        repeated = (top.classes == label).any(1, keepdim=True)
        of_kept, of_label = top.mass, top.of_class(label, self.num_classes)
        of_kept, of_label = (mass.clamp(min=1e-6).log() for mass in (of_kept, of_label))
        log_mass = torch.cat([of_kept, of_label.masked_fill(repeated, -torch.inf)], 1)
        predicted = (SHARPENING * log_mass + at_positions(self.mixing_bias, classes)).softmax(1)
        is_label = ((classes == label) & (log_mass > -torch.inf)).to(predicted.dtype)
        labels = is_label
        if self.corrects_labels:
            scores = self.sharpness.to(log_mass.device) * log_mass + at_positions(
                self.label_bias, classes
            )
            labels = (scores.log_softmax(1) + self._log_given(classes, target)).softmax(1)
        weights = PREDICTED_WEIGHT * predicted + (1.0 - PREDICTED_WEIGHT) * labels
        is_predicted = top.mass.sum(1, keepdim=True) > 0
        only_label = is_label / is_label.sum(1, keepdim=True)  # initial columns are all class 0
        return Targets(classes, torch.where(is_predicted, weights, only_label))

    def _log_given(self, classes: Tensor, target: Tensor) -> Tensor:
        """Return the log probability of the label given each true class, shape (rows, classes)."""
        label = target.unsqueeze(1)
        if self.log_transition.numel():
            return at_positions(self.log_transition, classes * self.num_classes + label)
        rate = self.noise_rate.to(classes.device)
        even = rate / (self.num_classes - 1)
        return torch.where(classes == label, 1.0 - rate, even).clamp(min=1e-7).log()
