"""The comparison is fair, repeatable, and blind to clean labels."""

import dataclasses
from typing import Any

import pytest
import torch

from discrimloss.demo import experiment
from discrimloss.demo.digits import NoisyDigits, noisy_digits
from discrimloss.demo.experiment import (
    FIGURE_NAMES,
    make_network,
    mean_and_std,
    run_experiment,
    run_seed,
)


def test_both_methods_get_the_same_start_labels_and_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[dict[str, Any]] = []

    def record(
        network: Any, images: Any, target: Any, orders: Any, criterion: Any, on_epoch: Any
    ) -> None:
        weights = {name: value.clone() for name, value in network.state_dict().items()}
        calls.append({"weights": weights, "data": (images, target, *orders), "to": criterion})
        if criterion is not None:
            criterion(torch.ones(2), torch.tensor([0, 1]))

    monkeypatch.setattr(experiment, "train", record)
    run_seed(0, noise=0.4, epochs=3)
    first, second = calls
    assert first["to"] is None
    assert second["to"].num_samples == 1348
    assert second["to"].epochs == 3
    assert len(first["data"]) == 2 + 3
    for one, other in zip(first["data"], second["data"], strict=True):
        assert torch.equal(one, other)
    for name, weight in first["weights"].items():
        assert torch.equal(weight, second["weights"][name])


def test_training_is_blind_to_clean_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = run_seed(0, noise=0.4, epochs=2)

    def without_truth(noise: float, generator: torch.Generator) -> NoisyDigits:
        digits = noisy_digits(noise, generator)
        return dataclasses.replace(
            digits,
            clean_target=torch.zeros_like(digits.clean_target),
            test_target=torch.zeros_like(digits.test_target),
        )

    monkeypatch.setattr(experiment, "noisy_digits", without_truth)
    blind = run_seed(0, noise=0.4, epochs=2)
    assert (blind.verdicts.average_loss == honest.verdicts.average_loss).all()
    assert (blind.verdicts.weight == honest.verdicts.weight).all()
    assert (blind.verdicts.code == honest.verdicts.code).all()
    assert (blind.suggested == honest.suggested).all()
    assert blind.figures.discrimloss_accuracy != honest.figures.discrimloss_accuracy


def test_global_state_is_left_alone() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        before = torch.get_rng_state()
        run_experiment(0.4, 2, [0])
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_a_seed_does_not_depend_on_the_seeds_before_it() -> None:
    together = run_experiment(0.4, 2, [3, 4])
    assert together.figures == (run_seed(3, 0.4, 2).figures, run_seed(4, 0.4, 2).figures)
    assert together.first.seed == 3


def test_progress_counts_every_epoch_of_both_trainings() -> None:
    calls: list[None] = []
    run_experiment(0.4, 3, [0, 1], on_epoch=lambda: calls.append(None))
    assert len(calls) == 2 * 3 * 2


def test_without_wrong_labels_recall_is_undefined() -> None:
    figures = run_seed(0, noise=0.0, epochs=3).figures
    assert figures.wrong_labels == 0
    assert figures.recall is None
    assert figures.true_noise_rate == 0.0


def test_the_network_starts_in_the_range_that_pytorch_uses() -> None:
    network = make_network(torch.Generator().manual_seed(0))
    for position, inputs in ((0, 64), (2, 256)):
        weight = network.get_parameter(f"{position}.weight")
        assert weight.shape[1] == inputs
        assert 0.99 * inputs**-0.5 < weight.abs().max() <= inputs**-0.5


def test_mean_and_spread_leave_out_what_is_undefined() -> None:
    assert mean_and_std([1.0, None, 4.0, 7.0]) == (4.0, 3.0)
    assert mean_and_std([1.0]) == (1.0, None)
    assert mean_and_std([None]) == (None, None)


def test_discrimloss_finds_most_wrong_labels_and_learns_more() -> None:
    # As long as the demo: in half the time, cross-entropy has not yet learned the wrong labels.
    results = run_experiment(0.4, 40, [0, 1])
    mean = {name: mean_and_std(results.per_seed(name))[0] or 0.0 for name in FIGURE_NAMES}
    assert mean["recall"] > 0.9
    assert mean["precision"] > 0.9
    assert abs(mean["estimated_noise_rate"] - mean["true_noise_rate"]) < 0.04
    assert mean["discrimloss_accuracy"] > mean["cross_entropy_accuracy"]
