"""What a run that says too little about its labels is told."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from discrimloss import DiscrimLoss
from discrimloss.judging.known_labels import errors_by_predictions
from discrimloss.judging.run_limits import (
    CLASS_NOT_LEARNED,
    FAR_OFF_ONLY,
    LEARNED_AS_THEY_ARE,
    LEARNED_LATE,
    MEMORISED,
    NO_SCALE,
    NOT_CROSS_ENTROPY,
    NOT_LEARNED,
    NOT_SEPARATED,
    TOO_SHORT,
    UNSURE,
    WEIGHTED,
    WHOLE_CLASS,
    LossNoise,
    RunLosses,
    against_label,
    limit_by_losses,
    limit_by_predictions,
)
from discrimloss.judging.verdicts import CANNOT_TELL

NUMBER = 1000


def run(average: Tensor, latest: Tensor, visits: float = 6.0) -> RunLosses:
    return RunLosses(average, latest, torch.full((len(latest),), visits), 1.0)


def two_groups(wrong: float = 0.2) -> Tensor:
    """Latest losses of a run that has learned all but some labels."""
    losses = torch.full((NUMBER,), 0.02)
    losses[: int(wrong * NUMBER)] = 2.0
    return losses


@pytest.mark.parametrize(
    ("losses", "found", "expected"),
    [
        (run(two_groups(), two_groups()), LossNoise(0.2, 0.02), None),
        (run(two_groups(), two_groups(), visits=1.0), LossNoise(0.2, 0.02), TOO_SHORT),
        (run(torch.full((9,), 0.9), torch.full((9,), 0.8)), LossNoise(0.0, 0.0), NOT_LEARNED),
        (run(two_groups(), two_groups(0.05)), LossNoise(0.2, 0.02), NOT_LEARNED),
        (run(two_groups(), two_groups()), LossNoise(0.2, 0.15), NOT_SEPARATED),
        (run(two_groups(), two_groups()), LossNoise(0.2, 0.06), NOT_SEPARATED),
        (run(two_groups(), two_groups()), LossNoise(0.09, 0.01), NOT_SEPARATED),
        (run(two_groups(), two_groups()), LossNoise(0.09, 0.008), None),
        (run(two_groups(0.03), two_groups(0.03)), LossNoise(0.03, 0.007), None),
        (run(two_groups(), two_groups()), LossNoise(0.03, 0.0), NOT_SEPARATED),
        (run(torch.full((9,), 0.4), torch.full((9,), 0.4)), LossNoise(0.0, 0.0), NOT_SEPARATED),
        (run(two_groups(), torch.full((NUMBER,), 0.02)), LossNoise(0.0, 0.0), LEARNED_LATE),
        (run(torch.empty(0), torch.empty(0)), LossNoise(0.0, 0.0), None),
    ],
)
def test_what_losses_cannot_tell(losses: RunLosses, found: LossNoise, expected: str | None) -> None:
    assert limit_by_losses(losses, found) == expected


def predicted(**changes: Any) -> Any:
    usual = {"agreement": 0.78, "confidence": 0.8, "noise_rate": 0.2, "interval": (0.1, 0.3)}
    usual["worst_class"] = 0.6
    values = usual | changes
    errors = SimpleNamespace(noise_interval=values.pop("interval"))
    return SimpleNamespace(errors=errors, **values)


@pytest.mark.parametrize(
    ("latest", "by_losses", "changes", "expected"),
    [
        (two_groups(), LossNoise(0.2, 0.02), {}, None),
        (two_groups(), LossNoise(0.2, 0.02), {"interval": None}, CANNOT_TELL),
        (two_groups(), LossNoise(0.0, 0.0), {"confidence": 0.15}, NOT_LEARNED),
        (torch.full((NUMBER,), 0.95), LossNoise(0.0, 0.0), {}, NOT_LEARNED),
        (two_groups(), LossNoise(0.0, 0.0), {"noise_rate": 0.03}, UNSURE),
        (two_groups(), LossNoise(0.2, 0.02), {"noise_rate": 0.08}, MEMORISED),
        (two_groups(), LossNoise(0.4, 0.2), {"noise_rate": 0.08, "agreement": 0.9}, None),
        (two_groups(), LossNoise(0.0, 0.0), {"noise_rate": 0.08, "agreement": 0.8}, UNSURE),
        (two_groups(), LossNoise(0.2, 0.02), {"agreement": 0.62}, None),
        (two_groups(), LossNoise(0.2, 0.02), {"agreement": 0.61}, UNSURE),
        (two_groups(), LossNoise(0.2, 0.02), {"interval": (0.02, 0.3)}, UNSURE),
        (two_groups(), LossNoise(0.0, 0.0), {"noise_rate": 0.01, "agreement": 0.9}, None),
        (two_groups(), LossNoise(0.2, 0.02), {"worst_class": 1.0}, CLASS_NOT_LEARNED),
    ],
)
def test_what_predictions_cannot_tell(
    latest: Tensor, by_losses: LossNoise, changes: dict[str, Any], expected: str | None
) -> None:
    assert limit_by_predictions(run(latest, latest), by_losses, predicted(**changes)) == expected


def test_a_class_whose_labels_are_all_found_wrong_is_not_believed() -> None:
    criterion = DiscrimLoss(400, epochs=10, num_classes=3)
    target = torch.zeros(400, dtype=torch.int64)
    target[200:380], target[380:] = 1, 2
    shown = torch.where(target == 2, 0, target)  # the network never predicts the rare class
    logits = 6.0 * torch.nn.functional.one_hot(shown, 3).float()
    for epoch in range(1, 11):
        criterion.set_epoch(epoch)
        outputs = logits.clone().requires_grad_()
        losses = torch.nn.functional.cross_entropy(outputs, target, reduction="none")
        criterion(losses, torch.arange(400), target=target, logits=outputs)
    found = errors_by_predictions(criterion)
    assert found is not None
    assert found.worst_class > WHOLE_CLASS
    verdicts = criterion.verdicts()
    assert CLASS_NOT_LEARNED in verdicts.notes
    assert verdicts.counts["incorrect"] == 0
    assert verdicts.noise_rate is None


def test_losses_speak_against_a_label_now_and_before() -> None:
    average = torch.tensor([4.0, 4.0, -1.0, torch.nan])
    latest = torch.tensor([1.0, 0.0, 2.0, torch.nan])
    found = against_label(average, latest)
    assert found[:3].tolist() == [2.0, 0.0, -1.0]
    assert found[3].isnan()


def criterion_after(*epochs: Tensor) -> DiscrimLoss:
    criterion = DiscrimLoss(NUMBER, epochs=len(epochs))
    for epoch, losses in enumerate(epochs, 1):
        criterion.set_epoch(epoch)
        criterion(losses, torch.arange(NUMBER))
    return criterion


def test_the_table_remembers_the_latest_loss() -> None:
    first, second = torch.rand(NUMBER), torch.rand(NUMBER)
    second[3] = torch.nan
    latest = criterion_after(first, second).latest_losses()
    assert torch.allclose(latest[:3], second[:3], rtol=1e-2)
    assert float(latest[3]) == pytest.approx(float(first[3]), rel=1e-2)


def test_a_state_without_the_latest_loss_can_be_loaded() -> None:
    criterion = criterion_after(torch.rand(NUMBER), torch.rand(NUMBER))
    state = criterion.state_dict()
    del state["table.latest_loss"]
    fresh = DiscrimLoss(NUMBER, epochs=2)
    fresh.load_state_dict(state)
    assert torch.equal(fresh.latest_losses(), fresh.average_losses)


def test_the_state_of_losses_alone_stays_within_16_bytes() -> None:
    for variant in ("paper", "released"):
        assert DiscrimLoss(4, epochs=5, variant=variant).table.bytes_per_sample <= 16


def test_a_run_of_one_epoch_calls_no_label_incorrect_and_says_why() -> None:
    verdicts = criterion_after(two_groups() + 0.5).verdicts()
    assert verdicts.noise_rate is None
    assert verdicts.notes == (TOO_SHORT,)
    assert TOO_SHORT in repr(verdicts)
    assert verdicts.counts["incorrect"] == verdicts.counts["hard"] == 0
    assert verdicts.counts["undecided"] > 0


def test_samples_that_are_learned_by_now_are_not_incorrect() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = 1.0 + 0.2 * torch.rand(NUMBER, generator=generator)
    start, learned = 2.3 * noise, 0.05 * noise
    late = torch.where(torch.arange(NUMBER) < 60, 2.3, learned)  # learned in the last epoch only
    verdicts = criterion_after(start, *[late] * 6, learned).verdicts()
    assert verdicts.counts["incorrect"] == 0


def test_a_run_that_finds_hardly_any_wrong_label_says_what_does_not_show() -> None:
    learned = two_groups(0.0) * (1.0 + torch.rand(NUMBER))
    verdicts = criterion_after(2.0 * torch.ones(NUMBER), *[learned] * 9).verdicts()
    assert verdicts.noise_rate is not None
    assert verdicts.noise_rate < 0.01
    assert verdicts.notes == (LEARNED_AS_THEY_ARE,)
    assert LEARNED_AS_THEY_ARE in repr(verdicts)


@pytest.mark.parametrize("classes", [None, 2])
def test_a_class_hides_wrong_labels_among_hard_samples(classes: int | None) -> None:
    generator = torch.Generator().manual_seed(0)
    criterion = DiscrimLoss(NUMBER, epochs=10, num_classes=classes)
    known = {} if classes is None else {"target": torch.arange(NUMBER) % 2}
    is_late = torch.arange(NUMBER) < 30
    for epoch in range(1, 11):
        criterion.set_epoch(epoch)
        noise = 1.0 + 0.5 * torch.rand(NUMBER, generator=generator)
        usual = 2.0 if epoch == 1 else 0.02
        losses = torch.where(is_late & (epoch < 9), 1.0, usual) * noise
        criterion(losses, torch.arange(NUMBER), **known)
    counts = criterion.verdicts().counts
    assert (counts["hard"] > 0) == (classes is None)
    assert counts["undecided"] > 0 or classes is None


@pytest.mark.parametrize("index_of", [lambda rows: rows % 10, lambda rows: rows % 50])
def test_a_wrong_index_leaves_nothing_to_tell(index_of: Any) -> None:
    criterion = DiscrimLoss(NUMBER, epochs=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # during the run: see tests/test_run_watch.py
        for epoch in (1, 2, 3):
            criterion.set_epoch(epoch)
            for rows in torch.arange(NUMBER).split(50):
                criterion(torch.rand(50) / epoch, index_of(rows))
    verdicts = criterion.verdicts()
    assert verdicts.noise_rate is None
    assert "of 1000 samples were seen, many times" in verdicts.notes[0]


def test_a_part_of_the_samples_can_be_judged() -> None:
    generator = torch.Generator().manual_seed(0)
    criterion = DiscrimLoss(10 * NUMBER, epochs=8)
    for epoch in range(1, 9):
        criterion.set_epoch(epoch)
        losses = two_groups() if epoch > 1 else torch.full((NUMBER,), 2.0)
        noise = 1.0 + 0.5 * torch.rand(NUMBER, generator=generator)
        criterion(losses * noise, torch.arange(NUMBER))
    assert criterion.verdicts().noise_rate == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("classes", [20, 60])
def test_plain_cross_entropy_of_many_classes_is_not_noted(classes: int) -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(classes, (1000,), generator=generator)
    criterion = DiscrimLoss(num_samples=1000, epochs=10, num_classes=classes)
    for epoch in (1, 2):
        criterion.set_epoch(epoch)
        logits = 3.0 * torch.randn(1000, classes, generator=generator)  # labels are rarely kept
        losses = torch.nn.functional.cross_entropy(logits, target, reduction="none")
        criterion(losses, torch.arange(1000), target=target, logits=logits)
    assert NOT_CROSS_ENTROPY not in criterion.verdicts().notes


def test_the_loss_scale_of_a_regression_does_not_depend_on_the_offset_of_targets() -> None:
    scales = []
    for offset in (0.0, 14.0):
        generator = torch.Generator().manual_seed(0)
        target = 5.0 * torch.randn(NUMBER, generator=generator) + offset
        criterion = DiscrimLoss(NUMBER, epochs=8, task="regression")
        for epoch in range(1, 4):  # the first epoch still learns the mean
            criterion.set_epoch(epoch)
            centre = offset if epoch > 1 else 0.0
            losses = (target - centre).square()
            criterion(losses, torch.arange(NUMBER), target=target)
        criterion.set_epoch(4)
        scales.append(float(criterion.loss_scale))
    assert scales[1] == pytest.approx(scales[0], rel=0.2)


@pytest.mark.parametrize("offset", [0.0, 40.0])
@pytest.mark.parametrize("with_target", [False, True])
@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss", "huber_loss"])
def test_small_losses_of_regression_targets_do_not_prove_them_right(
    loss: str, *, with_target: bool, offset: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    expected = 5.0 * torch.randn(NUMBER, generator=generator) + offset
    target = expected + torch.randn(NUMBER, generator=generator)
    target[:200] = target[torch.randint(NUMBER, (200,), generator=generator)]
    options: dict[str, Any] = {"task": "regression"} if with_target else {}
    criterion = DiscrimLoss(NUMBER, epochs=8, **options)
    for epoch in range(1, 9):
        criterion.set_epoch(epoch)
        outputs = (expected if epoch > 1 else torch.zeros(NUMBER)).clone().requires_grad_()
        losses = getattr(torch.nn.functional, loss)(outputs, target, reduction="none")
        known = {"target": target} if with_target else {}
        criterion(losses, torch.arange(NUMBER), **known)
    verdicts = criterion.verdicts()
    if verdicts.noise_rate is None:
        assert verdicts.counts["incorrect"] == 0
    else:  # a lower limit, which is said
        assert 0.1 < verdicts.noise_rate < 0.2
        assert verdicts.notes == (FAR_OFF_ONLY,)
    if offset and not with_target:
        assert verdicts.notes == (NO_SCALE,)


def test_losses_with_class_weights_tell_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    true = torch.randint(3, (NUMBER,), generator=generator)
    target = torch.where(torch.rand(NUMBER, generator=generator) < 0.2, (true + 1) % 3, true)
    shown = 4.0 * torch.nn.functional.one_hot(true, 3).float()
    for weight in (None, torch.tensor([1.0, 1.0, 20.0])):
        criterion = DiscrimLoss(NUMBER, epochs=8)
        for epoch in range(1, 9):
            criterion.set_epoch(epoch)
            outputs = (shown if epoch > 1 else torch.zeros(NUMBER, 3)).clone().requires_grad_()
            losses = torch.nn.functional.cross_entropy(
                outputs, target, weight=weight, reduction="none"
            )
            criterion(losses, torch.arange(NUMBER))
        verdicts = criterion.verdicts()
        if weight is None:
            assert verdicts.noise_rate == pytest.approx(0.2, abs=0.03)
        else:
            assert verdicts.noise_rate is None
            assert verdicts.notes == (WEIGHTED,)


def test_targets_far_off_are_found_by_losses_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    expected = 5.0 * torch.randn(NUMBER, generator=generator)
    target = expected + 0.2 * torch.randn(NUMBER, generator=generator)
    target[:200] += 30.0
    criterion = DiscrimLoss(NUMBER, epochs=8)
    for epoch in range(1, 9):
        criterion.set_epoch(epoch)
        outputs = (expected if epoch > 1 else torch.zeros(NUMBER)).clone().requires_grad_()
        losses = torch.nn.functional.l1_loss(outputs, target, reduction="none")
        criterion(losses, torch.arange(NUMBER))
    verdicts = criterion.verdicts()
    assert verdicts.noise_rate == pytest.approx(0.2, abs=0.02)
    assert verdicts.notes == (FAR_OFF_ONLY,)


@pytest.mark.parametrize("kind", ["plain", "weighted", "smoothed"])
def test_losses_that_are_not_the_cross_entropy_of_the_logits_are_noted(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(3, (400,), generator=generator)
    criterion = DiscrimLoss(num_samples=400, epochs=10, num_classes=3)
    options: dict[str, Any] = {}
    if kind == "weighted":
        options["weight"] = torch.tensor([0.5, 1.0, 1.5])
    if kind == "smoothed":
        options["label_smoothing"] = 0.2
    for epoch in (1, 2):
        criterion.set_epoch(epoch)
        logits = 2.0 * torch.nn.functional.one_hot(target, 3) + torch.randn(
            400, 3, generator=generator
        )
        losses = torch.nn.functional.cross_entropy(logits, target, reduction="none", **options)
        criterion(losses, torch.arange(400), target=target, logits=logits)
    assert (NOT_CROSS_ENTROPY in criterion.verdicts().notes) == (kind != "plain")
