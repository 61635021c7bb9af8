"""Evidence for wrong labels among held-out samples, on made-up predictions."""

import pytest
import torch
from torch import Tensor

from discrimloss.judging.held_out_noise import fit_held_out_noise
from discrimloss.label_correction import CORRECTING_EVIDENCE, POSTERIOR_EVIDENCE

CLASSES = 10


def predictions(samples: int, spread: float, seed: int, classes: int = CLASSES) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return spread * torch.randn(samples, classes, generator=generator)


def true_labels(logits: Tensor, seed: int) -> Tensor:
    """Drawn by the predictions: they are calibrated."""
    generator = torch.Generator().manual_seed(100 + seed)
    return torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]


def symmetric(true: Tensor, rate: float, seed: int, classes: int = CLASSES) -> Tensor:
    generator = torch.Generator().manual_seed(200 + seed)
    is_wrong = torch.rand(len(true), generator=generator) < rate
    other = (true + torch.randint(1, classes, true.shape, generator=generator)) % classes
    return torch.where(is_wrong, other, true)


def pairs(true: Tensor, rate: float, seed: int, classes: int = CLASSES) -> Tensor:
    generator = torch.Generator().manual_seed(200 + seed)
    is_wrong = torch.rand(len(true), generator=generator) < rate
    return torch.where(is_wrong, (true + 1) % classes, true)


@pytest.mark.parametrize("make_noise", [symmetric, pairs])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4])
@pytest.mark.parametrize("sharpness", [1.0, 0.5])
def test_the_noise_rate_is_found(make_noise: object, rate: float, sharpness: float) -> None:
    assert callable(make_noise)
    logits = predictions(4_500, 6.0, seed=0)
    true = true_labels(logits, seed=0)
    given = make_noise(true, rate, seed=0)
    held, trained = slice(500), slice(500, None)
    log_probabilities = (sharpness * logits[held]).log_softmax(1)
    found = fit_held_out_noise(
        log_probabilities, given[held], logits[trained].argmax(1), given[trained]
    )
    actual = float((given != true)[held].float().mean())
    assert found.noise_rate == pytest.approx(actual, abs=0.05)
    assert found.log_transition is not None
    torch.testing.assert_close(found.log_transition.exp().sum(1), torch.ones(CLASSES).double())
    if rate == 0.0:
        assert found.evidence < POSTERIOR_EVIDENCE
        assert found.sharpness == pytest.approx(1.0 / sharpness, rel=0.25)
    else:
        assert found.evidence > CORRECTING_EVIDENCE
        to_next = found.log_transition.exp()[
            torch.arange(CLASSES), (torch.arange(CLASSES) + 1) % 10
        ]
        assert (float(to_next.mean()) > 0.4 * rate) == (make_noise is pairs)


@pytest.mark.parametrize("seed", range(4))
def test_predictions_of_a_network_that_learned_from_mostly_wrong_labels(seed: int) -> None:
    """They know the true class, and give it little more than its frequency among the labels."""
    rate, generator = 0.8, torch.Generator().manual_seed(seed)
    true = torch.randint(0, CLASSES, (1_500,), generator=generator)
    spread = torch.rand(len(true), 1, generator=generator)  # some are learned, others not yet
    known = 2.0 * spread * torch.nn.functional.one_hot(true, CLASSES)
    log_probabilities = (known + 0.3 * torch.randn(known.shape, generator=generator)).log_softmax(1)
    given = symmetric(true, rate, seed)
    found = fit_held_out_noise(log_probabilities, given, true, given)
    assert found.noise_rate == pytest.approx(rate, abs=0.05)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("spread", [0.5, 1.5, 3.0])
@pytest.mark.parametrize("sharpness", [0.5, 1.0, 2.5])
def test_overlapping_classes_are_no_evidence(seed: int, spread: float, sharpness: float) -> None:
    logits = predictions(1_000, spread, seed)
    given = true_labels(logits, seed)
    found = fit_held_out_noise(
        (sharpness * logits[:150]).log_softmax(1), given[:150], logits[150:].argmax(1), given[150:]
    )
    assert found.evidence < CORRECTING_EVIDENCE


def test_two_classes() -> None:
    logits = predictions(600, 6.0, 0, classes=2)
    true = true_labels(logits, 0)
    given = symmetric(true, 0.2, 0, classes=2)
    found = fit_held_out_noise(logits.log_softmax(1), given, logits.argmax(1), given)
    assert found.noise_rate == pytest.approx(0.2, abs=0.05)
    assert found.evidence > CORRECTING_EVIDENCE


@pytest.mark.parametrize(("classes", "rate"), [(1_000, 0.0), (1_000, 0.3), (10_000, 0.3)])
def test_many_classes_take_no_matrix(classes: int, rate: float) -> None:
    logits = predictions(200, 12.0, 0, classes)
    true = true_labels(logits, 0)
    given = symmetric(true, rate, 0, classes)
    empty = torch.empty(0, dtype=torch.int64)
    found = fit_held_out_noise(logits.log_softmax(1), given, empty, empty)
    assert found.log_transition is None
    assert found.noise_rate == pytest.approx(rate, abs=0.1)
    assert (found.evidence > CORRECTING_EVIDENCE) == (rate > 0)
