"""When labels are corrected and by what, against values worked out by hand and made-up runs."""

from itertools import groupby
from typing import Any

import pytest
import torch
from labelled_batches import (
    CLASSES,
    EPOCHS,
    FORMS,
    PHASES,
    SAMPLES,
    STORIES,
    LabelledBatches,
    make_criterion,
    phase_of,
)
from torch import Tensor
from torch.nn import functional

from discrimloss import DiscrimLoss, label_correction
from discrimloss.held_out import Samples, held_out_fraction, is_drawn
from discrimloss.judging.held_out_noise import HeldOutNoise
from discrimloss.label_correction import (
    CORRECTING,
    EARLY_RELEASE,
    MIXING,
    PLAIN,
    PREDICTED_WEIGHT,
    SHARPENING,
    WATCHED_FRACTION,
    WATCHING,
    LabelCorrection,
)
from discrimloss.soft_targets import Targets, class_bias
from discrimloss.state.predictions import TopPredictions, top_predictions
from discrimloss.state.table import HELD_OUT, SampleTable
from discrimloss.target_ranges import TargetRanges

pytestmark = pytest.mark.usefixtures("fits_once")

every_form = pytest.mark.parametrize("form", FORMS)


# Which samples are held out.


@pytest.mark.parametrize(
    ("num_samples", "epochs", "expected"),
    [
        (1_000, 7.9, 0.0),
        (1_000, 8, 0.1),
        (299, 20, 0.0),
        (300, 20, 0.1),
        (1_500, 20, 0.1),
        (15_000, 20, 0.1),
        (30_000, 20, 0.05),
        (75_000, 20, 0.02),
        (10**8, 20, 0.02),
        (0, 20, 0.1),
        (0, 5, 0.0),
    ],
)
def test_the_fraction_that_is_held_out(num_samples: int, epochs: float, expected: float) -> None:
    assert held_out_fraction(num_samples, epochs) == pytest.approx(expected)


@pytest.mark.parametrize("start", [0, 10**8, 2**31 - 200_001])
@pytest.mark.parametrize("step", [1, 2, 10, 1024])
@pytest.mark.parametrize("draw", [0, 1])
def test_a_draw_is_even_and_the_same_every_time(start: int, step: int, draw: int) -> None:
    index = start + step * torch.arange(200_000 // max(step // 100, 1))
    index = index[index < 2**31]
    for fraction in (0.02, 0.1, 0.5):
        drawn = is_drawn(index, fraction, draw)
        expected = fraction * len(index)
        deviation = (expected * (1.0 - fraction)) ** 0.5
        assert abs(int(drawn.sum()) - expected) < 4.5 * deviation
        shuffled = torch.randperm(len(index), generator=torch.Generator().manual_seed(0))
        assert torch.equal(is_drawn(index[shuffled], fraction, draw), drawn[shuffled])


def test_different_draws_are_independent() -> None:
    index = torch.arange(100_000)
    both = is_drawn(index, 0.1) & is_drawn(index, 0.2, draw=1)
    assert abs(int(both.sum()) - 2_000) < 200


def test_nothing_and_everything_can_be_drawn() -> None:
    index = torch.arange(1_000)
    assert not is_drawn(index, 0.0).any()
    assert is_drawn(index, 1.0).all()


# The adjustment of the classes.


@pytest.mark.parametrize("exponent", [1.0, 2.5])
def test_adjusted_predictions_have_the_wanted_frequencies(exponent: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 2.0 * torch.randn(2_000, 5, generator=generator) + torch.tensor([2.0, 0, 0, 0, -1])
    top = top_predictions(logits)
    frequency = torch.tensor([0.1, 0.2, 0.3, 0.2, 0.2])
    bias = class_bias(top, frequency, exponent)
    adjusted = (exponent * top.dense(5).clamp(min=1e-6).log() + bias).softmax(1)
    torch.testing.assert_close(adjusted.mean(0), frequency, rtol=0.01, atol=0.001)


def test_a_class_that_is_never_predicted_has_no_bias() -> None:
    top = TopPredictions(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0.9, 0.1], [0.8, 0.2]]))
    bias = class_bias(top, torch.tensor([0.3, 0.3, 0.4]), 1.0)
    assert float(bias[2]) == 0.0
    assert bias.isfinite().all()


# Targets.


def test_the_loss_of_targets_by_hand() -> None:
    logits = torch.tensor([[2.0, 0.0, -1.0], [0.0, 0.0, 3.0]])
    targets = Targets(torch.tensor([[2, 0], [1, 2]]), torch.tensor([[0.75, 0.25], [0.0, 1.0]]))
    losses, unit = torch.tensor([10.0, 20.0]), torch.tensor([2.0, 5.0, 7.0])
    found = targets.loss(losses, logits, torch.tensor([0, 1]), unit)
    surprise = -logits.log_softmax(1)
    first = 0.25 * 10.0 + 0.75 * 7.0 * float(surprise[0, 2])
    second = 0.0 * 20.0 + 7.0 * float(surprise[1, 2])
    assert found.tolist() == pytest.approx([first, second])


def make_correction(classes: int = 3, rate: float = 0.3) -> LabelCorrection:
    correction = LabelCorrection(classes, 1_000, epochs=20)
    transition = torch.full((classes, classes), rate / (classes - 1)).fill_diagonal_(1.0 - rate)
    if correction.log_transition.numel():
        correction.log_transition.copy_(transition.log())
    correction.noise_rate.fill_(rate)
    return correction


@pytest.mark.parametrize("classes", [3, 120])
def test_corrected_targets_have_the_gradient_of_forward_correction(
    classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_correction, "SMOOTHING", 0.0)
    correction = make_correction(classes)
    generator = torch.Generator().manual_seed(0)
    logits = (2.0 * torch.randn(6, classes, generator=generator)).requires_grad_()
    target = torch.randint(classes, (6,), generator=generator)
    losses = functional.cross_entropy(logits, target, reduction="none")
    targets = correction.corrected_targets(logits, target)
    torch.testing.assert_close(targets.weights.sum(1), torch.ones(6))
    loss = targets.loss(losses, logits, target, correction.units()).sum()
    (found,) = torch.autograd.grad(loss, logits)

    rate = 0.3
    transition = torch.full((classes, classes), rate / (classes - 1)).fill_diagonal_(1.0 - rate)
    given = logits.softmax(1) @ transition
    forward = -given.gather(1, target.unsqueeze(1)).log().sum()
    (expected,) = torch.autograd.grad(forward, logits)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("rate", "smoothing"), [(0.0, 0.2), (1 / 3, 0.1), (2 / 3, 0.0), (0.8, 0.0)]
)
def test_corrected_targets_are_smoothed_as_far_as_labels_teach_something(
    rate: float, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    correction, target = make_correction(rate=rate), torch.tensor([1, 2])
    logits = torch.tensor([[2.0, 0.0, -1.0], [0.0, 0.0, 3.0]])
    smoothed = correction.corrected_targets(logits, target).weights
    monkeypatch.setattr(label_correction, "SMOOTHING", 0.0)
    sharp = correction.corrected_targets(logits, target).weights
    torch.testing.assert_close(smoothed, (1.0 - smoothing) * sharp + smoothing / 3)


@pytest.mark.parametrize("unit", [1e-5, 1.0, 1e5])
def test_other_classes_have_the_unit_of_the_loss(unit: float) -> None:
    correction = make_correction()
    entropies, target = torch.tensor([1.0, 2.0]), torch.tensor([0, 1])
    correction.record_units(unit * entropies, (-entropies).exp(), target)
    torch.testing.assert_close(correction.units(), torch.full((3,), unit))


def test_rows_that_are_left_out_and_classes_that_cannot_be_are_not_learned() -> None:
    logits = torch.tensor([[1.0, 0.0, 2.0], [1.0, -torch.inf, 2.0]], requires_grad=True)
    target, keep = torch.tensor([0, 0]), torch.tensor([0.0, 1.0])
    losses = keep * functional.cross_entropy(logits, target, reduction="none")
    classes = torch.arange(3).expand(2, -1)
    targets = Targets(classes, torch.full((2, 3), 1 / 3))
    rows = targets.loss(losses, logits, target, torch.ones(3))
    (gradient,) = torch.autograd.grad(rows.sum(), logits)
    assert rows.isfinite().all()
    assert gradient[0].eq(0).all()
    assert gradient.isfinite().all()
    assert float(gradient[1, 0]) != 0


@pytest.mark.parametrize(("rate", "exponent"), [(0.05, 0.0), (0.2, 0.5), (0.3, 1.0), (0.6, 1.0)])
def test_learned_weights_count_as_far_as_labels_are_wrong(rate: float, exponent: float) -> None:
    assert float(make_correction(rate=rate).weight_exponent()) == pytest.approx(exponent, abs=1e-6)


def test_noisy_losses_are_those_of_forward_correction() -> None:
    correction = make_correction()
    logits = torch.tensor([[2.0, 0.0, -1.0], [0.0, 0.0, 3.0]])
    target = torch.tensor([1, 2])
    given = logits.softmax(1) @ correction.log_transition.exp()
    expected = -given.gather(1, target.unsqueeze(1)).log()[:, 0]
    found = correction.noisy_losses(top_predictions(logits), target)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("corrects_labels", [False, True])
def test_mixed_targets_by_hand(corrects_labels: bool) -> None:
    correction = make_correction()
    correction.corrects_labels = corrects_labels
    correction.mixing_bias.copy_(torch.tensor([0.5, 0.0, -0.5]))
    correction.label_bias.copy_(torch.tensor([0.0, 0.3, 0.0]))
    correction.sharpness.fill_(1.7)
    mass = torch.tensor([[0.5, 0.375, 0.125]])
    found = correction.mixed_targets(
        TopPredictions(torch.tensor([[2, 0, 1]]), mass), torch.tensor([1])
    )
    weights = torch.zeros(3).index_add_(0, found.classes[0], found.weights[0])

    by_class = torch.tensor([0.375, 0.125, 0.5])
    predicted = (SHARPENING * by_class.log() + correction.mixing_bias).softmax(0)
    label = torch.tensor([0.0, 1.0, 0.0])
    if corrects_labels:
        chances = (1.7 * by_class.log() + correction.label_bias).softmax(0)
        label = chances * torch.tensor([0.15, 0.7, 0.15])
        label = label / label.sum()
    torch.testing.assert_close(
        weights, PREDICTED_WEIGHT * predicted + (1 - PREDICTED_WEIGHT) * label
    )


def test_a_label_that_is_not_among_the_kept_classes_counts_too() -> None:
    correction = make_correction(120)
    logits = torch.zeros(1, 120)
    logits[0, :14] = 8.0
    found = correction.mixed_targets(top_predictions(logits), torch.tensor([100]))
    weight = found.weights[found.classes == 100]
    assert float(weight.sum()) == pytest.approx(1 - PREDICTED_WEIGHT, abs=0.01)
    assert float(found.weights.sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("label", [0, 2])
@pytest.mark.parametrize("corrects_labels", [False, True])
def test_a_sample_without_predictions_keeps_its_label(label: int, corrects_labels: bool) -> None:
    correction = make_correction()
    correction.corrects_labels = corrects_labels
    correction.mixing_bias.copy_(torch.tensor([15.0, 0.0, -15.0]))
    nothing = TopPredictions(torch.zeros(1, 3).long(), torch.zeros(1, 3))
    found = correction.mixed_targets(nothing, torch.tensor([label]))
    assert float(found.weights[found.classes == label].sum()) == pytest.approx(1.0)
    assert float(found.weights.sum()) == pytest.approx(1.0)


def test_units_follow_class_weights() -> None:
    correction = make_correction()
    class_weights = torch.tensor([1.0, 5.0, 1.0])
    target = torch.tensor([0, 0, 1, 1])
    mass = torch.tensor([0.5, 0.25, 0.5, 0.1])
    losses = -class_weights[target] * mass.log()
    losses[0] = torch.nan
    mass[0] = torch.nan
    correction.record_units(losses, mass, target)
    usual = float(losses[1:].sum() / -mass[1:].log().sum())  # of a class without samples
    assert correction.units().tolist() == pytest.approx([1.0, 5.0, usual])


# Phases.


@pytest.mark.parametrize(("form", "story"), PHASES)
def test_the_phases_of_a_run(form: str, story: str) -> None:
    criterion = make_criterion(form)
    trace = LabelledBatches(form, STORIES[story]).train(criterion)
    assert tuple(phase for phase, _ in groupby(step[0] for step in trace)) == PHASES[form, story]


@every_form
def test_samples_are_held_out_briefly_where_nothing_is_memorised(form: str) -> None:
    criterion, batches = make_criterion(form), LabelledBatches(form, STORIES["clean"])
    steps = len(batches.order(1))
    phases = [step[0] for step in batches.train(criterion)]
    assert set(phases) == {WATCHING, PLAIN}
    watched = phases.index(PLAIN)
    assert watched % steps == 0
    assert EARLY_RELEASE * EPOCHS <= watched / steps <= WATCHED_FRACTION * EPOCHS
    assert set(phases[watched:]) == {PLAIN}


@pytest.mark.parametrize("has_gap", [False, True])
@pytest.mark.parametrize(("num_samples", "last"), [(1_000, 10), (10**6, 16)])
def test_when_the_held_out_samples_are_released(num_samples: int, last: int, has_gap: bool) -> None:
    correction = LabelCorrection(0, num_samples, epochs=20)
    table = SampleTable(4)
    is_held_out = torch.arange(200) < 100
    epochs = 0
    while correction.phase == WATCHING:
        epochs += 1
        losses = torch.where(is_held_out, 1.0 + has_gap * 0.1, 1.0) / epochs  # they keep falling
        correction.record(losses, is_held_out, torch.ones(200).bool())
        correction.end_epoch(epochs, table)
    assert correction.phase == PLAIN
    assert epochs in ((last, last + 1) if has_gap else (EARLY_RELEASE * 20,))


def test_predictions_are_not_frozen_while_their_average_improves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    correction, table = LabelCorrection(2, 1_000, epochs=20), SampleTable(4)
    monkeypatch.setattr(SampleTable, "has_optional_columns", lambda _: True)
    monkeypatch.setattr(LabelCorrection, "_fit_noise", lambda *_: None)
    monkeypatch.setattr(LabelCorrection, "_match_classes", lambda *_: None)
    is_held_out = torch.arange(200) < 100
    phases = []
    # The held-out loss of each epoch, and the averaged prediction of the right class.
    for epoch, (loss, mass) in enumerate([(1.0, 0.5), (1.2, 0.6), (1.3, 0.7), (1.4, 0.7)], 1):
        top = TopPredictions(torch.tensor([[0, 1]] * 9), torch.tensor([[mass, 1 - mass]] * 9))
        held_out = Samples(torch.zeros(9).long(), top)
        monkeypatch.setattr(label_correction, "samples_of", lambda *_, found=held_out, **__: found)
        losses = torch.where(is_held_out, loss, 0.1)
        correction.record(losses, is_held_out, torch.ones(200).bool())
        correction.end_epoch(epoch, table)
        phases.append(correction.phase)
    assert phases == [WATCHING, WATCHING, WATCHING, MIXING]


@pytest.mark.parametrize(("rate", "stays"), [(0.2, False), (0.8, True)])
def test_correction_ends_without_evidence_unless_most_labels_were_wrong(
    rate: float, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    correction, table = LabelCorrection(2, 1_000, epochs=20), SampleTable(4)
    top = TopPredictions(torch.tensor([[0, 1]] * 50), torch.tensor([[0.5, 0.5]] * 50))
    samples = Samples(torch.zeros(50).long(), top)
    monkeypatch.setattr(SampleTable, "has_optional_columns", lambda _: True)
    monkeypatch.setattr(label_correction, "samples_of", lambda *_, **__: samples)
    phases = []
    for epoch, found in ((2, (rate, 20.0)), (3, (0.05, 0.0))):
        noise = HeldOutNoise(1.0, None, *found)
        monkeypatch.setattr(label_correction, "fit_noise", lambda *_, noise=noise: noise)
        losses = torch.full((200,), 1.0 / epoch)
        correction.record(losses, torch.arange(200) < 100, torch.ones(200).bool())
        correction.end_epoch(epoch, table)
        phases.append(correction.phase)
    assert phases == [CORRECTING, CORRECTING if stays else WATCHING]
    assert float(correction.noise_rate) == pytest.approx(rate if stays else 0.05)


@pytest.mark.parametrize(
    ("rate", "held_out_loss", "fitted"),
    [(0.8, 1.0, [50, 90]), (0.8, 1.1, [50]), (0.3, 1.0, [50])],
)
def test_training_samples_are_evidence_too_where_most_labels_are_wrong(
    rate: float, held_out_loss: float, fitted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    correction, table = LabelCorrection(2, 1_000, epochs=20), SampleTable(4)
    monkeypatch.setattr(SampleTable, "has_optional_columns", lambda _: True)

    def samples_of(_: SampleTable, is_held_out: bool) -> Samples:
        number = 50 if is_held_out else 40
        top = TopPredictions(torch.tensor([[0, 1]] * number), torch.full((number, 2), 0.5))
        return Samples(torch.zeros(number).long(), top)

    monkeypatch.setattr(label_correction, "samples_of", samples_of)
    numbers = []

    def fit(log_probabilities: Tensor, *_: Any) -> HeldOutNoise:
        numbers.append(len(log_probabilities))
        return HeldOutNoise(1.0, None, rate, 5.0)

    monkeypatch.setattr(label_correction, "fit_noise", fit)
    is_held_out = torch.arange(200) < 100
    losses = torch.where(is_held_out, held_out_loss, 1.0)
    correction.record(losses, is_held_out, torch.ones(200).bool())
    correction.end_epoch(2, table)
    assert numbers == fitted


def is_trusted(criterion: DiscrimLoss) -> bool:
    return not isinstance(criterion.labels, TargetRanges) or float(criterion.labels.mean_trust) == 1


@every_form
def test_clean_labels_are_learned_as_they_are(form: str) -> None:
    criterion = make_criterion(form, reduction="none")
    batches = LabelledBatches(form, STORIES["clean"])
    seen_held_out = 0
    for epoch in range(1, EPOCHS + 1):
        criterion.set_epoch(epoch)
        for index in batches.order(epoch):
            outputs = batches.outputs(index, epoch)
            losses = batches.losses(outputs, index)
            rows = criterion(losses, index, **batches.arguments(outputs, index))
            assert criterion.labels is not None
            is_held_out = criterion.labels.roles(criterion.table, index) == HELD_OUT
            if not is_trusted(criterion):  # a network that is hardly trained looks like noise
                assert form == "regression with predictions"
            elif phase_of(criterion) == WATCHING:
                expected = torch.where(is_held_out, 0.0, losses / 0.9)
                torch.testing.assert_close(rows, expected)
                seen_held_out += int(is_held_out.sum())
            else:
                assert torch.equal(rows, losses)
    assert seen_held_out > 0.05 * SAMPLES


@pytest.mark.parametrize("form", ["classes", "logits", "regression"])
@pytest.mark.parametrize(
    ("samples", "epochs"), [(SAMPLES, 7), (299, EPOCHS)], ids=["few epochs", "few samples"]
)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_short_runs_are_plain_to_the_last_bit(
    form: str, samples: int, epochs: int, reduction: str
) -> None:
    batches = LabelledBatches(form, STORIES["memorised"], samples)
    options: dict[str, Any] = {"num_samples": samples, "epochs": epochs, "reduction": reduction}
    criterion = make_criterion(form, **options)
    for epoch in range(1, epochs + 1):
        criterion.set_epoch(epoch)
        for index in batches.order(epoch):
            outputs = batches.outputs(index, epoch)
            losses = batches.losses(outputs, index)
            value = criterion(losses, index, **batches.arguments(outputs, index))
            plain = losses if reduction == "none" else getattr(losses, reduction)()
            assert torch.equal(value, plain)
            found, expected = (
                torch.autograd.grad(each.sum(), outputs, retain_graph=True)[0]
                for each in (value, plain)
            )
            assert torch.equal(found, expected)


def test_the_weights_act_once_a_class_aware_run_memorises() -> None:
    criterion = make_criterion("classes", weight_range=(0.1, 10.0))
    batches = LabelledBatches("classes", STORIES["memorised"])
    trace = batches.train(criterion)
    assert trace[-1][0] == MIXING
    weights = criterion.sample_weights
    assert float(weights.max()) > 1.0 > float(weights.min())


def test_mixed_targets_pull_wrong_labels_to_the_true_class() -> None:
    criterion = make_criterion("logits", reduction="sum")
    batches = LabelledBatches("logits", STORIES["memorised"])
    batches.train(criterion)
    assert phase_of(criterion) == MIXING
    is_certain = batches.learnable.softmax(1).amax(1) > 0.95
    is_wrong = (batches.target != batches.true) & is_certain
    index = is_wrong.nonzero()[:, 0]
    logits = torch.zeros(len(index), CLASSES, requires_grad=True)
    losses = functional.cross_entropy(logits, batches.target[index], reduction="none")
    criterion(losses, index, target=batches.target[index], logits=logits).backward()
    assert logits.grad is not None
    pulled_to: Tensor = logits.grad.argmin(1)
    assert (pulled_to == batches.true[index]).float().mean() > 0.6


def test_a_run_of_unknown_length_watches_too() -> None:
    options: dict[str, Any] = {"switch_rate": 1.0, "suppressed_epochs": 0}
    criterion = DiscrimLoss(SAMPLES, switch_epoch=9.0, num_classes=CLASSES, **options)
    criterion.set_epoch(1)
    assert phase_of(criterion) == WATCHING
