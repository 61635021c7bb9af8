"""Scores and the judgement of verdicts, on cases worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from discrimloss.data.base import Split, TensorInputs
from discrimloss.data.noise import NoisyLabels
from discrimloss.judging.verdicts import EASY, HARD, INCORRECT, UNSEEN, Verdicts, log_odds
from discrimloss.training.evaluation import (
    evaluate,
    is_better,
    metric_name,
    score_metrics,
    score_sum,
    verdict_metrics,
)
from discrimloss.training.methods.base import Setting
from discrimloss.training.methods.plain import Plain
from discrimloss.training.task_losses import cross_entropy

CPU = torch.device("cpu")


def test_scores_of_classes() -> None:
    output = torch.tensor([[1.0, 2.0], [3.0, 0.0], [0.0, 0.1]])
    assert float(score_sum(output, torch.tensor([1, 1, 1]))) == 200.0


def test_scores_of_numbers() -> None:
    assert float(score_sum(torch.tensor([1.0, -2.0]), torch.tensor([0.5, 2.0]))) == 4.5


def test_what_is_better() -> None:
    assert (metric_name(True), metric_name(False)) == ("mae", "accuracy")
    assert is_better(1.0, than=2.0, is_regression=True)
    assert not is_better(1.0, than=2.0, is_regression=False)
    assert not is_better(1.0, than=1.0, is_regression=True)
    assert not is_better(1.0, than=1.0, is_regression=False)


class Answers(nn.Module):
    """Answers with its input, and remembers how it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.batch_sizes: list[int] = []
        self.was_training: set[bool] = set()

    def forward(self, inputs: Tensor) -> Tensor:
        self.batch_sizes.append(len(inputs))
        self.was_training.add(self.training)
        return inputs + self.weight


def answering(num_classes: int | None) -> Plain:
    setting = Setting(Answers, cross_entropy, 4, num_classes, 1, torch.zeros(4))
    return Plain(setting, history=False)


def test_the_mean_is_over_samples_not_over_batches() -> None:
    method = answering(None)
    numbers = torch.tensor([0.0, 0.0, 0.0, 8.0, 3.0])
    part = Split(TensorInputs(numbers), torch.zeros(5))
    mae = evaluate(method, part, lambda inputs, generator: inputs, 2, CPU)
    assert mae == pytest.approx(11.0 / 5)
    network = method.networks[0]
    assert network.batch_sizes == [2, 2, 1]
    assert network.was_training == {False}
    assert method.training  # as it was before
    method.eval()
    evaluate(method, part, lambda inputs, generator: inputs, 2, CPU)
    assert not method.training


def test_accuracy_is_in_percent_and_inputs_are_not_augmented() -> None:
    generators = []

    def prepare(inputs: Tensor, generator: torch.Generator | None) -> Tensor:
        generators.append(generator)
        return inputs

    part = Split(TensorInputs(torch.eye(4)), torch.tensor([0, 1, 2, 0]))
    assert evaluate(answering(4), part, prepare, 3, CPU) == 75.0
    assert generators == [None, None]


def verdicts_of(code: list[int], average_loss: list[float]) -> Verdicts:
    probability = np.array([0.9 if c == INCORRECT else 0.1 for c in code], dtype=np.float32)
    probability[np.array(code) == UNSEEN] = math.nan
    return Verdicts(
        code=np.array(code, dtype=np.int8),
        p_incorrect=probability,
        score=log_odds(probability),
        weight=np.ones(len(code), dtype=np.float32),
        average_loss=np.array(average_loss, dtype=np.float32),
        rule="calibrated",
    )


def labels_with(wrong: list[bool]) -> NoisyLabels:
    clean = torch.zeros(len(wrong), dtype=torch.int64)
    return NoisyLabels(torch.tensor(wrong).long(), clean, 2)


def test_verdicts_where_the_truth_is_known() -> None:
    verdicts = verdicts_of([EASY, HARD, INCORRECT, INCORRECT], [0.1, 2.0, 3.0, 1.0])
    found = verdict_metrics(verdicts, labels_with([False, True, True, False]))
    assert found["noise_true"] == 0.5
    assert found["noise_estimated"] == pytest.approx(0.5)
    assert found["verdicts"] == {"easy": 1, "hard": 1, "undecided": 0, "incorrect": 2, "unseen": 0}
    assert (found["precision"], found["recall"]) == (0.5, 0.5)
    assert (found["auroc"], found["average_precision"]) == (1.0, 1.0)


def test_the_order_of_the_losses_decides_the_auroc() -> None:
    verdicts = verdicts_of([EASY] * 4, [0.1, 0.2, 0.3, 0.4])
    found = verdict_metrics(verdicts, labels_with([True, False, False, True]))
    assert found["auroc"] == 0.5  # of the four pairs, two are in order
    assert found["average_precision"] == pytest.approx((1 / 1 + 2 / 4) / 2)
    assert found["precision"] is None  # nothing was called incorrect
    assert found["recall"] == 0.0


def test_no_label_is_wrong() -> None:
    found = verdict_metrics(verdicts_of([EASY, INCORRECT], [0.1, 3.0]), labels_with([False, False]))
    assert found["noise_true"] == 0.0
    assert (found["precision"], found["recall"]) == (0.0, None)
    assert "auroc" not in found
    assert "average_precision" not in found


def test_every_label_is_wrong() -> None:
    found = verdict_metrics(verdicts_of([EASY, INCORRECT], [0.1, 3.0]), labels_with([True, True]))
    assert found["noise_true"] == 1.0
    assert (found["precision"], found["recall"]) == (1.0, 0.5)
    assert "auroc" not in found


def test_samples_that_were_never_seen_do_not_count() -> None:
    verdicts = verdicts_of([EASY, INCORRECT, UNSEEN, UNSEEN], [0.1, 3.0, math.nan, math.nan])
    found = verdict_metrics(verdicts, labels_with([False, True, True, False]))
    assert (found["precision"], found["recall"], found["auroc"]) == (1.0, 1.0, 1.0)
    assert found["noise_true"] == 0.5  # of all labels
    assert found["verdicts"]["unseen"] == 2


def test_nobody_knows_the_truth() -> None:
    found = verdict_metrics(verdicts_of([EASY, INCORRECT], [0.1, 3.0]), None)
    assert found.keys() == {"noise_estimated", "verdicts"}


def test_a_methods_own_scores_are_judged_by_their_order() -> None:
    wrong = labels_with([True, False, False, True])
    found = score_metrics(torch.tensor([-0.1, -0.2, -0.3, -0.4]), wrong)
    assert found["score_auroc"] == 0.5  # of the four pairs, two are in order
    assert found["score_average_precision"] == pytest.approx((1 / 1 + 2 / 4) / 2)
    assert score_metrics(torch.tensor([2.0, 1.0, 0.0, 3.0]), wrong)["score_auroc"] == 1.0


def test_samples_without_a_score_do_not_count() -> None:
    nan = math.nan
    found = score_metrics(
        torch.tensor([nan, 1.0, 0.0, nan]), labels_with([True, True, False, False])
    )
    assert found["score_auroc"] == 1.0
    assert score_metrics(torch.tensor([nan, nan]), labels_with([True, False])) == {}


def test_scores_cannot_be_judged_without_right_and_wrong_labels() -> None:
    scores = torch.tensor([1.0, 2.0])
    assert score_metrics(scores, None) == {}
    assert score_metrics(scores, labels_with([False, False])) == {}
    assert score_metrics(scores, labels_with([True, True])) == {}
