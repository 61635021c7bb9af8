"""How far each label is trusted, judged from what the network answered for its sample.

The losses of a network that is trained for a few epochs overlap: hard samples lose as much as wrong
labels do. Whole answers say more. A label that a sure answer contradicts is probably wrong; where
the answer is unsure, the label stands. How sure answers are, and how often labels are wrong, is
fitted to both, as in an audit (`discrimloss.audit.noise_model`, `number_noise`).

Where a network learns all that can be learned, it is the other way round: the history of losses has
two groups with nothing between, and remembers what was hard to learn when the answers have
forgotten it. So the losses are believed where they expect hardly any mistake of their own and find
about the noise that the answers find, or else their groups are no groups. For numbers an answer
tells no more than a loss does.

Labels do not become right during a run. Where fewer are found wrong than were found before, the
network has learned the others by heart, and what that has added to its answers is taken away.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from discrimloss.audit.noise_model import fit_noise_model
from discrimloss.audit.number_noise import judge_numbers
from discrimloss.methods.elr import mean_of_same
from discrimloss.methods.processes import gather_rows

MOMENTUM = 0.6
"""Of the answers' moving average: it forgets what the network thought five epochs ago."""
LEAST_TRUST = 0.1
"""Labels that are trusted less are not learned from: a small weight only delays memorising."""
MOST_FITTED = 6000
"""Samples that a judgement is fitted to, drawn anew every time: it is made once an epoch."""
MOST_MISTAKES = 0.03
"""That the losses may expect of themselves, as a share of the samples, to be believed."""
SAME_NOISE = 0.1
"""How far the shares of wrong labels that losses and answers find may differ for that."""


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

    def __init__(self, target: Tensor, num_classes: int | None) -> None:
        super().__init__()
        self.target, self.num_classes = target, num_classes
        samples = len(target)
        self.register_buffer("answers", torch.zeros(samples, num_classes or 1))
        self.register_buffer("visits", torch.zeros(samples))
        self.register_buffer("trust", torch.ones(samples))
        self.register_buffer("noise", torch.zeros(()))  # the largest share found so far
        self.register_buffer("judged_in", torch.zeros((), dtype=torch.int64))

    @property
    def has_judged(self) -> bool:
        """Whether `trust` is more than a beginning."""
        return bool(self.judged_in > 0)

    def take(self, output: Tensor, index: Tensor) -> None:
        """The answers to a batch; every process calls it with its own."""
        index = gather_rows(index)
        rows = output.detach().reshape(-1, self.answers.shape[1]).to(self.answers.dtype)
        rows = mean_of_same(gather_rows(rows), index)
        self.answers[index] = MOMENTUM * self.answers[index] + (1.0 - MOMENTUM) * rows
        self.visits[index] = (self.visits[index] + 1).clamp(max=1000)

    def judge(self, epoch: int, by_losses: Callable[[], Tensor]) -> None:
        """Once an epoch, before its first batch; after a resume in its middle, no second time.

        Args:
            epoch: the one that begins.
            by_losses: gives what the losses make of it: the probability that each label is
                incorrect, shape (num_samples,); not asked for numbers.
        """
        if int(self.judged_in) == epoch:
            return
        seen = self.visits > 0
        averages = self.answers / (1.0 - MOMENTUM ** self.visits.clamp(min=1))[:, None]
        target = self.target.to(averages.device)
        p_incorrect = self._p_incorrect(averages[seen], target[seen], epoch)
        found = p_incorrect.mean()
        if self.num_classes is not None:
            other = by_losses().to(p_incorrect)[seen]
            if _are_in_two_groups(other) and (other.mean() - found).abs() < SAME_NOISE:
                found, p_incorrect = torch.minimum(found, other.mean()), other
        self.noise.copy_(torch.maximum(self.noise, found))
        trust = torch.ones_like(self.trust)
        trust[seen] = 1.0 - p_incorrect
        self.trust.copy_(trust)
        self.judged_in.fill_(epoch)

    def weights(self, index: Tensor) -> Tensor:
        """What the samples of a batch count, shape (batch,)."""
        trust = self.trust[index]
        return torch.where(trust < LEAST_TRUST, 0.0, trust)

    def _p_incorrect(self, answers: Tensor, target: Tensor, epoch: int) -> Tensor:
        answers, target, noise = answers.cpu(), target.cpu(), float(self.noise)
        if self.num_classes is None:
            everyone = torch.ones(len(target), dtype=torch.bool)
            found = judge_numbers(answers[:, 0], target, everyone, noise).p_incorrect
        else:
            order = torch.randperm(len(target), generator=torch.Generator().manual_seed(epoch))
            chosen = order[:MOST_FITTED]
            model = fit_noise_model(answers[chosen].double(), target[chosen], noise)
            found = model.p_incorrect(answers.double(), target).float()
        return found.to(self.trust)


def _are_in_two_groups(p_incorrect: Tensor) -> bool:
    """Whether some are taken for incorrect, and hardly anybody for one and the other."""
    mistakes = torch.minimum(p_incorrect, 1.0 - p_incorrect).mean()
    return bool((p_incorrect > 0.5).any() & (mistakes < MOST_MISTAKES))
