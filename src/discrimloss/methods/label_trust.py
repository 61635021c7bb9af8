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

That is judged once an epoch, and network and answers move on. So a label of a class that is trusted
counts in each step as much as the answer of the moment supports it: as in the likelihood of the
label as given, under the noise that was found (`pull_of_labels`). For numbers it counts as much as
it is trusted.

Labels do not become right during a run. Where fewer are found wrong than were found before, the
network has learned the others by heart, and what that has added to its answers is taken away.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, one_hot

from discrimloss.audit.noise_model import fit_noise_model
from discrimloss.audit.number_noise import judge_numbers
from discrimloss.functional import at_least_float32
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


def pull_of_labels(output: Tensor, target: Tensor, log_transition: Tensor) -> Tensor:
    """How much each label counts for an answer: ``(r - p) / (1 - p)``, shape (batch,).

    ``p`` is the probability that the network gives to the label, ``r`` the one that is left when
    the label is known and may be wrong. Cross-entropy with this weight has the gradient of the
    label's likelihood under the noise, ``-log sum_k p_k T[k, label]``, exactly so where the label
    is as likely from each of the other classes. No label counts less than nothing.

    >>> noise = torch.tensor([[0.8, 0.2], [0.2, 0.8]]).log()
    >>> pull_of_labels(torch.tensor([[0.0, 0.0], [4.0, 0.0]]), torch.tensor([0, 1]), noise)
    tensor([0.6000, 0.0512])

    Args:
        output: shape (batch, classes): logits.
        target: shape (batch,): the labels as given.
        log_transition: shape (classes, classes): log probability of a given label, for each true
            one.
    """
    answers = log_softmax(at_least_float32(output.detach()), 1)
    is_own = one_hot(target, output.shape[1]).bool()
    joint = answers + log_transition.to(answers)[:, target].T
    likelihood = joint.logsumexp(1)
    if_right = joint[is_own]
    of_others = _without(is_own, joint) - _without(is_own, answers)
    if_like_others = answers[is_own] + of_others
    return ((if_right - likelihood).exp() - (if_like_others - likelihood).exp()).clamp(min=0.0)


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
    log_transition: Tensor

    def __init__(self, target: Tensor, num_classes: int | None) -> None:
        super().__init__()
        self.target, self.num_classes = target, num_classes
        samples = len(target)
        self.register_buffer("answers", torch.zeros(samples, num_classes or 1))
        self.register_buffer("visits", torch.zeros(samples))
        self.register_buffer("trust", torch.ones(samples))
        self.register_buffer("noise", torch.zeros(()))  # the largest share found so far
        self.register_buffer("judged_in", torch.zeros((), dtype=torch.int64))
        classes = num_classes or 0
        self.register_buffer("log_transition", torch.zeros(classes, classes))

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
        """How far the labels of a batch are trusted, shape (batch,); 0 is not learned from."""
        trust = self.trust[index]
        return torch.where(trust < LEAST_TRUST, 0.0, trust)

    def weights_now(self, output: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """What the samples of a batch count for the answers that they get, shape (batch,)."""
        trusted = self.weights(index)
        if self.num_classes is None:
            return trusted
        pull = pull_of_labels(output, target, self.log_transition)
        return torch.where(trusted > 0.0, pull, 0.0)

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
            self.log_transition.copy_(model.log_transition)
        return found.to(self.trust)


def _without(is_own: Tensor, logs: Tensor) -> Tensor:
    """Log of the sum over the other classes, shape (batch,)."""
    return logs.masked_fill(is_own, -torch.inf).logsumexp(1)


def _are_in_two_groups(p_incorrect: Tensor) -> bool:
    """Whether some are taken for incorrect, and hardly anybody for one and the other."""
    mistakes = torch.minimum(p_incorrect, 1.0 - p_incorrect).mean()
    return bool((p_incorrect > 0.5).any() & (mistakes < MOST_MISTAKES))
