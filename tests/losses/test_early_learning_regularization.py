"""Early-learning regularization against a naive loop over the paper's equations."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from discrimloss.losses import EarlyLearningRegularization

CLASSES, SAMPLES = 3, 4
TARGET = torch.tensor([0, 2, 1, 1])


def elr(**options: Any) -> EarlyLearningRegularization:
    return EarlyLearningRegularization(SAMPLES, CLASSES, **options)


def batch(logits: Tensor, index: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    rows = torch.tensor(index)
    return logits, TARGET[rows], rows


def naive_probabilities(logits: list[float]) -> list[float]:
    powers = [math.exp(z) for z in logits]
    return [min(max(power / sum(powers), 1e-4), 1 - 1e-4) for power in powers]


@pytest.mark.parametrize(("strength", "beta"), [(3.0, 0.7), (7.0, 0.9), (0.0, 0.0)])
def test_several_steps(strength: float, beta: float) -> None:
    criterion = elr(regularization=strength, target_momentum=beta)
    targets = [[0.0] * CLASSES for _ in range(SAMPLES)]
    generator = torch.Generator().manual_seed(3)
    for index in ([0, 1, 2], [3, 1], [0, 1, 2, 3], [2]):
        logits = 3.0 * torch.randn(len(index), CLASSES, generator=generator)
        loss = criterion(*batch(logits, index))
        total = 0.0
        for row, sample in enumerate(index):
            p = naive_probabilities(logits[row].tolist())
            t = targets[sample]
            for c in range(CLASSES):
                t[c] = beta * t[c] + (1 - beta) * p[c] / sum(p)
            agreement = sum(p[c] * t[c] for c in range(CLASSES))
            likelihood = math.exp(logits[row, TARGET[sample]]) / float(logits[row].exp().sum())
            total += -math.log(likelihood) + strength * math.log(1 - agreement)
        assert float(loss.detach()) == pytest.approx(total / len(index), rel=1e-4, abs=1e-5)
        torch.testing.assert_close(criterion.targets, torch.tensor(targets))


def test_the_gradient_is_the_one_of_the_paper() -> None:
    # Lemma of the paper: p - y + lambda g, g_c = p_c / (1 - <p, t>) * sum_k (t_k - t_c) p_k
    criterion = elr()
    criterion.targets[0] = torch.tensor([0.1, 0.6, 0.2])
    logits = torch.tensor([[1.0, 0.5, -1.0]], requires_grad=True)
    criterion(*batch(logits, [0])).backward()
    p = torch.softmax(logits.detach()[0], 0)
    t = 0.7 * torch.tensor([0.1, 0.6, 0.2]) + 0.3 * p
    pull = torch.stack([((t - t[c]) * p).sum() for c in range(CLASSES)])
    expected = p - torch.tensor([1.0, 0.0, 0.0]) + 3.0 * p / (1 - (p * t).sum()) * pull
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad[0], expected)


def test_it_holds_against_a_wrong_label() -> None:
    # The network has long answered 1, the label says 0: cross-entropy alone would raise logit 0.
    pulls = []
    for strength in (0.0, 3.0):
        criterion = elr(regularization=strength)
        criterion.targets[0] = torch.tensor([0.03, 0.94, 0.03])
        logits = torch.tensor([[0.0, 2.0, 0.0]], requires_grad=True)
        criterion(*batch(logits, [0])).backward()
        assert logits.grad is not None
        pulls.append(-logits.grad[0])
    assert pulls[0][0] > 0 > pulls[0][1]
    assert pulls[1][0] < pulls[0][0] / 5
    assert pulls[1][1] > 0


def test_certainty_stays_finite() -> None:
    criterion = elr()
    logits = torch.tensor([[200.0, 0.0, 0.0]], requires_grad=True)
    for _ in range(60):  # until the target is as certain
        loss = criterion(*batch(logits, [0]))
    loss.backward()
    # <p, t> is (1 - 1e-4) t_y + 1e-4 (1 - t_y), with t_y = (1 - 1e-4) / (1 + 1e-4)
    own = (1 - 1e-4) / (1 + 1e-4)
    expected = 3.0 * math.log(1 - (1 - 1e-4) * own - 1e-4 * (1 - own))
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-3)
    assert logits.grad is not None
    assert logits.grad.tolist() == [[0.0, 0.0, 0.0]]


def test_scores_are_high_where_answers_and_labels_differ() -> None:
    criterion = elr()
    sure_of_zero = torch.tensor([[3.0, 0.0, 0.0]])
    criterion(*batch(sure_of_zero.repeat(2, 1), [0, 1]))  # labels 0 and 2
    criterion(*batch(sure_of_zero, [0]))
    scores = criterion.sample_scores()
    # softmax(3, 0, 0) = e^3, 1, 1 over e^3 + 2, however many visits
    assert scores[0].item() == pytest.approx(2 / (math.exp(3) + 2), rel=1e-4)
    assert scores[1].item() == pytest.approx(1 - 1 / (math.exp(3) + 2), rel=1e-4)
    assert scores[2:].isnan().all()
    own, other = 1 - scores[0].item(), 1 - scores[1].item()
    assert criterion.log_values() == {"target_agreement": pytest.approx((own + other) / SAMPLES)}


def test_a_sample_that_is_twice_in_a_batch() -> None:
    logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0]])
    results = []
    for order in ([0, 1, 2], [1, 2, 0]):
        criterion = elr()
        criterion(*batch(logits[order], [[0, 0, 1][row] for row in order]))
        results.append(criterion.targets.clone())
    torch.testing.assert_close(results[0], results[1])
    mean = torch.softmax(logits[:2], 1).mean(0)
    torch.testing.assert_close(results[0][0], 0.3 * mean)
    torch.testing.assert_close(results[0][1], 0.3 * torch.softmax(logits[2], 0))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"regularization": -1.0}, "regularization"),
        ({"regularization": math.inf}, "regularization"),
        ({"target_momentum": 1.0}, "target_momentum"),
        ({"target_momentum": -0.1}, "target_momentum"),
    ],
)
def test_refused(options: dict[str, float], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        elr(**options)


def test_hyperparameters() -> None:
    assert elr().hyperparameters() == {"regularization": 3.0, "target_momentum": 0.7}
