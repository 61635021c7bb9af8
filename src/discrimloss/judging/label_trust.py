"""How far each label is trusted, judged from what the network answered for its sample.

The losses of a network that is trained for a few epochs overlap: hard samples lose as much as wrong
labels do. Whole answers say more. A label that a sure answer contradicts is probably wrong; where
the answer is unsure, the label stands. How sure answers are, and how often labels are wrong, is
fitted to both, as in an audit (`discrimloss.judging.noise_model`, `number_noise`).

Where a network learns all that can be learned, it is the other way round: the history of losses has
two groups with nothing between, and remembers what was hard to learn when the answers have
forgotten it. So the losses are believed where they expect hardly any mistake of their own and find
about the noise that the answers find, or found before, or else their groups are no groups. For
numbers an answer tells no more than a loss does.

That is judged once an epoch, and network and answers move on. So a label of a class that is trusted
counts in each step as much as the answers up to this moment support it, under the noise that was
found. For numbers it counts as much as it was trusted before the epoch.

Labels do not become right during a run. Where fewer are found wrong than were found before, the
network has learned the others by heart, and what that has added to its answers is taken away; where
that does not bring the noise back, the answers do not judge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from discrimloss.functional import at_least_float32, mean_of_same
from discrimloss.judging.noise_model import NoiseModel, fit_noise_model
from discrimloss.judging.regression_noise import judge_numbers
from discrimloss.state.gathering import gather_rows

MOMENTUM = 0.6
"""Of the answers' moving average: it forgets what the network thought five epochs ago."""
LEAST_TRUST = 0.1
"""Labels that are trusted less are not learned from: a small weight only delays memorising."""
LEAST_TRUST_BY_LOSSES = 0.5
"""The same where losses judge: they are sure of almost everybody."""
SMOOTHING = 0.2
"""Share of the target that goes to all classes, once labels of classes are left out."""
MOST_FITTED = 6000
"""Samples that a judgement is fitted to, drawn anew every time: it is made once an epoch."""
MOST_MISTAKES = 0.03
"""That the losses may expect of themselves, as a share of the samples, to be believed."""
MOST_MISTAKES_OF_FOUND = 0.1
"""The same as a share of the labels that they find wrong: where none is, the hard ones are."""
SAME_NOISE = 0.1
"""How far the share of wrong labels that losses find may be from the known one for that, and how
far below it the share that answers find, for them to judge."""


def smoothed(losses: Tensor, output: Tensor) -> Tensor:
    """Losses of classes that ask for a little of every class, shape (batch,).

    A network that learns from labels that are nearly all right becomes sure of all it says, and
    forgets; the few wrong labels in every batch of a noisy run are what keeps it from that. Where
    they are left out, this does it in their place.

    Args:
        losses: shape (batch,): what the labels as given cost.
        output: shape (batch, classes): logits.
    """
    of_every_class = -log_softmax(at_least_float32(output), 1).mean(1)
    return (1.0 - SMOOTHING) * losses + SMOOTHING * of_every_class


class _Judgement(NamedTuple):
    """What is thought of the samples that were seen."""

    p_incorrect: Tensor
    noise: float
    """The share of wrong labels that was found."""
    least_trust: float
    """Labels that are trusted less are not learned from."""


class LabelTrust(nn.Module):
    """Moving averages of the network's answers, and the trust in each label that follows.

    Args:
        target: shape (num_samples,): the labels as given.
        num_classes: None for a regression.
    """

    answers: Tensor
    visits: Tensor
    trust: Tensor
    noise: Tensor
    judged_in: Tensor
    least_trust: Tensor
    sharpness: Tensor
    bias: Tensor
    log_transition: Tensor
    leak: Tensor

    def __init__(self, target: Tensor, num_classes: int | None) -> None:
        super().__init__()
        self.target, self.num_classes = target, num_classes
        samples = len(target)
        self.register_buffer("answers", torch.zeros(samples, num_classes or 1))
        self.register_buffer("visits", torch.zeros(samples))
        self.register_buffer("trust", torch.ones(samples))
        self.register_buffer("noise", torch.zeros(()))  # the largest share found so far
        self.register_buffer("judged_in", torch.zeros((), dtype=torch.int64))
        self.register_buffer("least_trust", torch.tensor(LEAST_TRUST))
        # Of classes, the noise that was fitted last (`NoiseModel`).
        classes = num_classes or 0
        self.register_buffer("sharpness", torch.ones(()))
        self.register_buffer("bias", torch.zeros(classes))
        self.register_buffer("log_transition", torch.zeros(classes, classes))
        self.register_buffer("leak", torch.zeros(()))

    @property
    def has_judged(self) -> bool:
        """Whether `trust` is more than a beginning."""
        return bool(self.judged_in > 0)

    def take(self, output: Tensor, index: Tensor) -> None:
        """The answers to a batch; every process calls it with its own.

        A batch with an answer that is no number is not taken: its step will be skipped, and what is
        known of the samples must outlive it.
        """
        index = gather_rows(index)
        rows = output.detach().reshape(-1, self.answers.shape[1]).to(self.answers.dtype)
        rows = mean_of_same(gather_rows(rows), index)
        is_number = rows.isfinite().all()
        moved = MOMENTUM * self.answers[index] + (1.0 - MOMENTUM) * rows
        self.answers[index] = torch.where(is_number, moved, self.answers[index])
        self.visits[index] = (self.visits[index] + is_number).clamp(max=1000)

    def judge(self, epoch: int, by_losses: Callable[[], Tensor]) -> None:
        """Once an epoch, before its first batch; after a resume in its middle, no second time.

        Args:
            epoch: the one that begins.
            by_losses: gives what the losses make of it: the probability that each label is
                incorrect, shape (num_samples,); not asked for numbers.
        """
        if int(self.judged_in) == epoch:
            return
        self.judged_in.fill_(epoch)
        seen = (self.visits > 0).cpu()
        answers, given = self._averages(seen).cpu(), self.target.cpu()[seen]
        judgement: _Judgement | None
        if self.num_classes is None:
            judgement = self._judge_numbers(answers, given)
        else:
            other = by_losses().cpu().float()[seen]
            judgement = self._judge_classes(answers, given, epoch, other)
        if judgement is None:
            return
        self.noise.fill_(max(float(self.noise), judgement.noise))
        trust = torch.ones_like(self.trust)
        trust[seen] = 1.0 - judgement.p_incorrect.to(trust)
        self.trust.copy_(trust)
        self.least_trust.fill_(judgement.least_trust)

    def weights(self, index: Tensor) -> Tensor:
        """How far labels were trusted before the epoch, shape (batch,); 0: not learned from."""
        trust = self.trust[index]
        return torch.where(trust < self.least_trust, 0.0, trust)

    def weights_now(self, target: Tensor, index: Tensor) -> Tensor:
        """What the labels of a batch count, by the answers that were last taken, shape (batch,)."""
        trusted = self.weights(index)
        if self.num_classes is None:
            return trusted
        noise = NoiseModel(self.sharpness, self.bias, self.log_transition, self.leak)
        right = 1.0 - noise.p_incorrect(self._averages(index), target)
        return torch.where(trusted > 0.0, right, 0.0)

    def _averages(self, samples: Tensor) -> Tensor:
        """The averaged answers to some samples, with what their zero beginning lacks made up."""
        visits = self.visits[samples].clamp(min=1)
        return self.answers[samples] / (1.0 - MOMENTUM**visits)[:, None]

    def _judge_numbers(self, answers: Tensor, given: Tensor) -> _Judgement:
        everyone = torch.ones(len(given), dtype=torch.bool)
        judged = judge_numbers(answers[:, 0], given, everyone, float(self.noise))
        return _Judgement(judged.p_incorrect, float(judged.p_incorrect.mean()), LEAST_TRUST)

    def _judge_classes(
        self, answers: Tensor, given: Tensor, epoch: int, by_losses: Tensor
    ) -> _Judgement | None:
        """By losses or by answers; None where neither can."""
        order = torch.randperm(len(given), generator=torch.Generator().manual_seed(epoch))
        chosen = order[:MOST_FITTED]
        noise = fit_noise_model(answers[chosen].double(), given[chosen], float(self.noise))
        by_answers = noise.p_incorrect(answers.double(), given).float()
        found, found_by_losses = float(by_answers.mean()), float(by_losses.mean())
        known = max(float(self.noise), found)
        # Answers that hide so much of the noise know the labels by heart.
        are_answers_lost = known - found > SAME_NOISE
        if not are_answers_lost:
            self._keep(noise)
        if _are_in_two_groups(by_losses) and abs(found_by_losses - known) < SAME_NOISE:
            return _Judgement(by_losses, min(found, found_by_losses), LEAST_TRUST_BY_LOSSES)
        return None if are_answers_lost else _Judgement(by_answers, found, LEAST_TRUST)

    def _keep(self, noise: NoiseModel) -> None:
        self.sharpness.fill_(noise.sharpness)
        self.bias.copy_(noise.bias)
        self.log_transition.copy_(noise.log_transition)
        self.leak.fill_(noise.leak)


def _are_in_two_groups(p_incorrect: Tensor) -> bool:
    """Whether some are taken for incorrect, and hardly anybody for one and the other."""
    found = p_incorrect.mean()
    mistakes = torch.minimum(p_incorrect, 1.0 - p_incorrect).mean()
    return bool((mistakes < MOST_MISTAKES) & (mistakes < MOST_MISTAKES_OF_FOUND * found))
