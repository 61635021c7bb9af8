"""Labels are judged from made predictions, whose noise is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from judged_labels import calibration_error, f1_score
from sklearn.datasets import make_blobs
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from discrimloss.judging.noise_likelihood import MOST_CLASSES_WITH_OWN_NOISE
from discrimloss.judging.noise_model import estimate_class_errors


@dataclass(frozen=True)
class Made:
    """Logits around a centre for each class, and labels of which some are wrong."""

    logits: Tensor
    true: Tensor
    given: Tensor

    @property
    def is_wrong(self) -> Tensor:
        return self.given != self.true

    @property
    def rate(self) -> float:
        return float(self.is_wrong.double().mean())


def made(noise: str, rate: float, classes: int = 10, samples: int = 2000, far: float = 4.0) -> Made:
    generator = torch.Generator().manual_seed(classes)
    true = torch.randint(classes, (samples,), generator=generator)
    logits = torch.randn(samples, classes, generator=generator)
    logits[torch.arange(samples), true] += far
    step = torch.randint(1, classes, (samples,), generator=generator)
    other = true + (1 if noise == "pair" else step)
    is_wrong = torch.rand(samples, generator=generator) < rate
    return Made(logits, true, torch.where(is_wrong, other % classes, true))


def nobody(number: int) -> Tensor:
    return torch.zeros(number, dtype=torch.bool)


def memorised(data: Made, share_held_out: float, leak: float) -> tuple[Tensor, Tensor]:
    """Logits that know the labels of samples that were learned from; and who was not."""
    draw = torch.rand(len(data.given), generator=torch.Generator().manual_seed(1))
    is_held_out = draw < share_held_out
    logits = data.logits.clone()
    learned = (~is_held_out).nonzero()[:, 0]
    logits[learned, data.given[learned]] += leak
    return logits, is_held_out


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize(
    ("noise", "rate"),
    [("symmetric", 0.0), ("symmetric", 0.2), ("symmetric", 0.4), ("pair", 0.2), ("pair", 0.4)],
)
@pytest.mark.parametrize("leak", [0.0, 2.0])
def test_noise_is_estimated_and_found(classes: int, noise: str, rate: float, leak: float) -> None:
    data = made(noise, rate, classes)
    logits, is_held_out = memorised(data, 0.5, leak)  # of fewer, chance has its say
    judged = estimate_class_errors(logits, data.given, is_held_out)
    assert judged.noise_rate == pytest.approx(data.rate, abs=0.03)
    assert calibration_error(judged.p_incorrect, data.is_wrong) < 0.05
    is_called = judged.p_incorrect > 0.5
    if rate == 0.0:
        assert is_called.double().mean() < 0.005
        return
    assert f1_score(is_called, data.is_wrong) > 0.9
    found = is_called & data.is_wrong
    assert (judged.suggested[found] == data.true[found]).double().mean() > 0.95


def test_without_held_out_samples_all_are_taken_for_it() -> None:
    data = made("symmetric", 0.3)
    judged = estimate_class_errors(data.logits, data.given, nobody(len(data.given)))
    everybody = estimate_class_errors(data.logits, data.given, ~nobody(len(data.given)))
    assert torch.equal(judged.score, everybody.score)
    assert judged.noise_rate == pytest.approx(data.rate, abs=0.03)


def test_what_was_memorised_would_go_unnoticed_without_held_out_samples() -> None:
    data = made("symmetric", 0.4)
    logits, is_held_out = memorised(data, 0.5, 4.0)
    told = estimate_class_errors(logits, data.given, is_held_out)
    untold = estimate_class_errors(logits, data.given, nobody(len(logits)))
    assert abs(told.noise_rate - data.rate) < 0.03 < abs(untold.noise_rate - data.rate)


def test_many_classes_share_their_noise() -> None:
    classes = MOST_CLASSES_WITH_OWN_NOISE + 50
    data = made("symmetric", 0.3, classes, samples=2000, far=5.0)
    logits, is_held_out = memorised(data, 0.5, 1.0)
    judged = estimate_class_errors(logits, data.given, is_held_out)
    assert judged.noise_rate == pytest.approx(data.rate, abs=0.03)
    assert calibration_error(judged.p_incorrect, data.is_wrong) < 0.05
    assert f1_score(judged.p_incorrect > 0.5, data.is_wrong) > 0.95


@pytest.mark.parametrize(
    ("classes", "samples", "model", "least_f1"),
    [
        (7, 1000, ExtraTreesClassifier(100, min_samples_leaf=3, random_state=0), 0.95),
        (40, 2000, make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)), 0.6),
    ],
)
def test_pair_noise_that_a_model_has_learned(
    classes: int, samples: int, model: Any, least_f1: float
) -> None:
    inputs, true = make_blobs(samples, 10, centers=classes, cluster_std=2.5, random_state=0)
    is_wrong = np.random.default_rng(0).random(samples) < 0.2
    given = np.where(is_wrong, (true + 1) % classes, true)
    predicted = cross_val_predict(model, inputs, given, cv=5, method="predict_proba")
    logits = torch.from_numpy(np.log(predicted + 1e-3)).float()
    judged = estimate_class_errors(logits, torch.from_numpy(given), ~nobody(samples))
    assert judged.noise_rate == pytest.approx(0.2, abs=0.06)
    assert f1_score(judged.p_incorrect > 0.5, torch.from_numpy(is_wrong)) > least_f1


def test_clean_labels_of_many_classes_that_are_confused() -> None:
    classes = MOST_CLASSES_WITH_OWN_NOISE + 10
    generator = torch.Generator().manual_seed(0)
    logits = 0.3 * torch.randn(2000, classes, generator=generator)
    first = torch.randint(classes, (2000,), generator=generator)
    logits[torch.arange(2000), first] += 5.0
    logits[torch.arange(2000), (first + 1) % classes] += 5.0 + torch.randn(
        2000, generator=generator
    )
    given = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    judged = estimate_class_errors(logits, given, ~nobody(2000))
    assert (judged.p_incorrect > 0.5).double().mean() < 0.02


def test_predictions_may_have_any_unit() -> None:
    data = made("symmetric", 0.3)
    rates = [
        estimate_class_errors(
            data.logits * unit + 7.0, data.given, nobody(len(data.given))
        ).noise_rate
        for unit in (0.1, 10.0)
    ]
    assert rates == pytest.approx([data.rate] * 2, abs=0.03)


def test_the_score_ranks_where_the_probability_rounds() -> None:
    logits = 1e6 * torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    judged = estimate_class_errors(logits, torch.arange(60) % 4, nobody(60))
    is_sure = judged.p_incorrect == 1.0
    assert is_sure.sum() > 30
    assert len(judged.score[is_sure].unique()) == is_sure.sum()
    assert torch.equal(judged.p_incorrect, judged.score.double().sigmoid().float())


@pytest.mark.parametrize("held_out", [[False, False], [True, False], [True, True]])
def test_two_samples(held_out: list[bool]) -> None:
    logits = torch.tensor([[2.0, -1.0], [0.0, 1.0]])
    judged = estimate_class_errors(logits, torch.tensor([0, 1]), torch.tensor(held_out))
    assert judged.suggested.tolist() == [0, 1]
    assert (judged.p_incorrect < 0.5).all()


def test_one_sample() -> None:
    judged = estimate_class_errors(torch.tensor([[0.0, 2.0, 1.0]]), torch.tensor([1]), nobody(1))
    assert judged.suggested.tolist() == [1]
    assert 0.0 <= judged.noise_rate < 0.5


def test_a_class_that_no_label_names() -> None:
    data = made("symmetric", 0.2, classes=4)
    logits = torch.cat([data.logits, data.logits.new_zeros(len(data.given), 1)], 1)
    judged = estimate_class_errors(logits, data.given, nobody(len(data.given)))
    assert judged.noise_rate == pytest.approx(data.rate, abs=0.03)
    assert (judged.suggested == 4).double().mean() < 0.01


@pytest.mark.parametrize("held_out", [0, 10])
def test_predictions_that_say_nothing_accuse_nobody(held_out: int) -> None:
    given = torch.arange(50) % 4
    judged = estimate_class_errors(torch.zeros(50, 4), given, torch.arange(50) < held_out)
    assert judged.score.isfinite().all()
    assert (judged.p_incorrect < 0.5).all()
    assert torch.equal(judged.suggested, given)


def test_huge_predictions_stay_finite() -> None:
    logits = 1e6 * torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    judged = estimate_class_errors(logits, logits.argmax(1), torch.arange(60) < 12)
    assert judged.score.isfinite().all()
    assert (judged.p_incorrect < 0.5).all()


def test_who_is_called_incorrect_gets_another_label() -> None:
    data = made("symmetric", 0.5, far=2.0)  # many labels are likelier than any other, and doubtful
    judged = estimate_class_errors(data.logits, data.given, nobody(len(data.given)))
    is_incorrect = judged.p_incorrect > 0.5
    assert is_incorrect.any()
    assert (judged.suggested != data.given)[is_incorrect].all()


def test_the_rate_is_in_the_upper_part_of_the_plausible_ones() -> None:
    """Classes that overlap look like noise: both explain the labels."""
    generator = torch.Generator().manual_seed(0)
    probability = 0.5 + 0.35 * (torch.rand(1500, generator=generator) * 2 - 1)
    given = (torch.rand(1500, generator=generator) < probability).long()
    logits = torch.stack([(1 - probability).log(), probability.log()], 1)
    judged = estimate_class_errors(logits, given, nobody(1500))
    assert judged.noise_interval is not None
    low, high = judged.noise_interval
    assert low < 0.03
    assert high > 0.12
    assert 0.02 < judged.noise_rate < high


def test_the_likeliest_other_class_is_never_the_given_one() -> None:
    logits = torch.randn(200, 4, generator=torch.Generator().manual_seed(1)) * 3
    given = logits.argmax(1)
    judged = estimate_class_errors(logits, given, nobody(200))
    assert judged.other is not None
    assert (judged.other != given).all()
    assert (judged.other == logits.topk(2).indices[:, 1]).float().mean() > 0.7
