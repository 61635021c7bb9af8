"""MentorNet: the curriculum, the mentor that imitates it, and how its weights are used."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from discrimloss.losses import MentorNet
from discrimloss.losses import mentor as mentor_module
from discrimloss.losses.base import cross_entropy
from discrimloss.losses.mentor import (
    WIDEST_DIFFERENCE,
    predefined_curriculum,
    ramp_at,
    synthetic_samples,
    trained_mentor,
)
from discrimloss.losses.mentornet import moved_percentile

EPOCHS = 10
RAMP, RAMP_FROM = 1.0, 0.9  # the defaults
TARGET = torch.tensor([0, 0, 0, 0, 0, 0, 0, 1, 1, 1])
# Logits z for labels y: the loss is log(1 + exp(-z)) for y = 0 and log(1 + exp(z)) for y = 1.
MARGINS = torch.tensor([3.0, 3.5, 4.0, 2.5, 3.0, 2.8, 3.2, 1.5, 4.0, 6.0])
# 0.0486, 0.0298, 0.0181, 0.0789, 0.0486, 0.0590, 0.0399, 1.7014, 4.0182, 6.0025
LOSSES = torch.where(TARGET == 0, (-MARGINS).exp(), MARGINS.exp()).log1p()
INPUTS = torch.stack([MARGINS, torch.zeros(10)], dim=1)


def mentornet(seed: int = 0, **options: Any) -> MentorNet:
    torch.manual_seed(seed)
    return MentorNet(num_samples=10, num_classes=2, epochs=EPOCHS, **options)


def losses_of(criterion: MentorNet, logits: Tensor = INPUTS) -> Tensor:
    loss: Tensor = criterion(logits, TARGET, torch.arange(10))
    return loss


def test_the_curriculum_by_hand() -> None:
    losses = torch.tensor([0.5, 1.0, 1.25, 2.0, 3.0, 9.0])
    threshold = torch.tensor(1.0)
    selected = predefined_curriculum(losses, threshold, torch.tensor(0.0))
    assert selected.tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    # 1 - (1.25 - 1) / 2, 1 - (2 - 1) / 2, 1 - (3 - 1) / 2
    sloped = predefined_curriculum(losses, threshold, torch.tensor(2.0))
    assert sloped.tolist() == [1.0, 1.0, 0.875, 0.5, 0.0, 0.0]


def test_the_weights_minimise_the_weighted_loss_and_the_regulariser() -> None:
    # Section 3: v * l + G(v), with G(v) = lambda2 / 2 * v^2 - (lambda1 + lambda2) * v.
    candidates = torch.linspace(0.0, 1.0, 1001)
    for loss, threshold, ramp in (
        (1.3, 1.0, 0.5),
        (0.7, 1.0, 0.5),
        (2.0, 0.5, 4.0),
        (3.0, 1.0, 0.0),
    ):
        objective = candidates * loss + ramp / 2 * candidates**2 - (threshold + ramp) * candidates
        weight = predefined_curriculum(*torch.tensor([[loss], [threshold], [ramp]]))
        assert float(weight) == pytest.approx(float(candidates[objective.argmin()]), abs=1e-3)


def test_the_curriculum_becomes_milder_at_the_end() -> None:
    percentage = torch.tensor([0, 50, 89, 90, 99])
    assert ramp_at(percentage, 2.0, 0.9).tolist() == [0.0, 0.0, 0.0, 2.0, 2.0]


class TestMentor:
    def test_it_imitates_the_curriculum(self) -> None:
        # Not the samples it was trained on: another seed.
        samples = synthetic_samples(8000, 2, torch.Generator().manual_seed(99))
        losses, threshold, _, percentage = samples
        expected = predefined_curriculum(losses, threshold, ramp_at(percentage, RAMP, RAMP_FROM))
        assert 0.3 < float(expected.mean()) < 0.7
        weights = trained_mentor(2, RAMP, RAMP_FROM)(*samples)
        error = (weights - expected).abs()
        assert 0.0 <= float(weights.min()) <= float(weights.max()) <= 1.0
        assert float(error.mean()) < 0.015
        is_late = percentage >= 90
        assert float(error[is_late].mean()) < 0.03
        # Where it jumps from 1 to 0 a network cannot: near is a twentieth, whatever the scale.
        is_near = (losses - threshold).abs() < 0.05
        assert float(error[~is_late & ~is_near].max()) < 0.1

    @pytest.mark.parametrize("threshold", [0.001, 0.1, 2.0, 25.0])
    @pytest.mark.parametrize("percentage", [20, 89, 95])
    def test_it_knows_losses_of_any_scale(self, threshold: float, percentage: int) -> None:
        losses = threshold + torch.tensor([-threshold, -0.1, 0.1, 1.5, WIDEST_DIFFERENCE, 1e4])
        losses = losses.clamp(min=0.0)
        ramp = ramp_at(torch.tensor(percentage), RAMP, RAMP_FROM)
        expected = predefined_curriculum(losses, torch.tensor(threshold), ramp)
        for label in (0, 1):
            weights = trained_mentor(2, RAMP, RAMP_FROM)(
                losses, torch.tensor(threshold), *torch.tensor([[label] * 6, [percentage] * 6])
            )
            is_told = (losses - threshold).abs() > 0.05
            torch.testing.assert_close(weights[is_told], expected[is_told], atol=0.1, rtol=0)

    def test_it_follows_from_its_own_seed_and_draws_from_nobody_else(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mentor_module, "TRAINING_STEPS", 5)
        train = mentor_module._train.__wrapped__  # without the cache
        states = []
        for seed in (0, 7):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            states.append(train(3, RAMP, RAMP_FROM).state_dict())
            assert torch.equal(torch.get_rng_state(), before)
        torch.testing.assert_close(states[0], states[1], rtol=0, atol=0)

    def test_everyone_gets_a_copy_that_does_not_learn(self) -> None:
        one, other = mentornet(), mentornet(seed=1)
        assert {name for name in one.state_dict() if name.startswith("mentor.lstm.")}
        assert not any(parameter.requires_grad for parameter in one.mentor.parameters())
        one.mentor.output.bias.zero_()
        assert float(other.mentor.output.bias) != 0.0
        assert float(mentornet().mentor.output.bias) != 0.0


def test_the_moving_percentile_by_a_loop() -> None:
    generator = torch.Generator().manual_seed(3)
    batches = [torch.rand(size, generator=generator) for size in (11, 11, 11, 1)]
    percentile, decay = 0.71, 0.8
    moving = torch.tensor(0.0)
    naive = None
    for step, losses in enumerate(batches):
        moving = moved_percentile(moving, torch.tensor(step == 0), losses, percentile, decay)
        ordered = sorted(losses.tolist())
        current = ordered[round(percentile * (len(ordered) - 1))]  # the 7th of 0 to 10
        naive = current if naive is None else decay * naive + (1 - decay) * current
        assert float(moving) == pytest.approx(naive, rel=1e-6)


def test_in_the_burn_in_samples_are_left_out_at_random_and_weigh_1_otherwise() -> None:
    net = mentornet(burn_in=0.4, burn_in_drop_rate=0.5, burn_in_drops=0.4, percentile=0.7)
    kept_in_epochs = []
    for epoch in (1, 2, 3, 4):
        net.set_epoch(epoch)
        kept = torch.rand(10, generator=net.draws.generator(epoch)) >= 0.5
        kept_in_epochs.append(kept)
        torch.testing.assert_close(losses_of(net), (LOSSES * kept).sum() / 10)
        scores = net.sample_scores()
        assert scores is not None
        assert scores.isnan().all()
    kept = torch.stack(kept_in_epochs)
    assert 0.2 < float(kept.float().mean()) < 0.8
    assert (kept != kept[0]).any()


def test_the_burn_in_and_its_dropout_have_lengths_of_their_own() -> None:
    # Of 100 epochs: all weigh 1 in the first 18, half are dropped in the first 17, 5 % later.
    net = MentorNet(1000, 3, 100, noise_rate=0.4)
    dropped = {}
    for epoch in (17, 18, 19):
        net.set_epoch(epoch)
        dropped[epoch] = 1.0 - float(net.is_kept.float().mean())
        assert net.is_burning_in == (epoch <= 18)
    assert 0.45 < dropped[17] < 0.55
    assert 0.03 < dropped[18] < 0.07
    assert 0.03 < dropped[19] < 0.07


def test_then_the_mentor_weighs() -> None:
    net = mentornet(burn_in=0.2, drop_rate=0.3, percentile=0.75, percentile_decay=0.5)
    # The 75 % of ten losses: 0.75 * 9 = 6.75, the 7th from 0 of the ordered: 1.7014. It is the same
    # in every step, so lambda1 stays. 0.1 more for the sample that lies on it: clear of the jump.
    assert float(LOSSES.sort().values[7]) == pytest.approx(1.7014, abs=1e-4)
    for epoch in range(1, EPOCHS + 1):
        net.set_epoch(epoch)
        net.moving_percentile += 0.2  # lambda1 = 0.5 * (1.7014 + 0.2) + 0.5 * 1.7014
        loss = losses_of(net)
        threshold = float(net.moving_percentile)
        if epoch <= 2:
            continue
        assert threshold > 1.7514
        # 4.0182 and 6.0025 are more than lambda2 = 1 above lambda1: out in all epochs
        weights = torch.tensor([1.0] * 8 + [0.0] * 2)
        kept = torch.rand(10, generator=net.draws.generator(epoch)) >= 0.3
        expected = (weights * kept * LOSSES).sum() / 10
        torch.testing.assert_close(loss, expected, atol=0.02, rtol=0)
    scores = net.sample_scores()
    torch.testing.assert_close(scores, torch.tensor([0.0] * 8 + [1.0] * 2), atol=0.02, rtol=0)


def test_at_the_end_the_weights_fall_linearly() -> None:
    # lambda1 is the loss at 0.55 * 9 = 4.95, the 5th from 0: 0.0590. One at 0.5590 weighs 1 - 0.5.
    net = mentornet(percentile=0.55, drop_rate=0.0)
    inputs = INPUTS.clone()
    inputs[7, 0] = torch.tensor(0.5590).expm1().log()
    weights = {}
    for epoch in (EPOCHS - 1, EPOCHS):
        net.set_epoch(epoch)
        losses_of(net, inputs)
        weights[epoch] = 1.0 - float(net.distrust.total[7])
        net.distrust.total.zero_()
    assert float(net.moving_percentile) == pytest.approx(0.0590, abs=1e-4)
    assert weights[EPOCHS - 1] == pytest.approx(0.0, abs=0.05)
    assert weights[EPOCHS] == pytest.approx(0.5, abs=0.1)


def test_the_weights_are_held_constant() -> None:
    net = mentornet(percentile=0.6, drop_rate=0.0)
    net.set_epoch(5)
    logits, reference = INPUTS.clone().requires_grad_(), INPUTS.clone().requires_grad_()
    losses_of(net, logits).backward()
    weights = net.mentor(LOSSES, net.moving_percentile, TARGET, torch.full((10,), 40))
    (weights * cross_entropy(reference, TARGET)).mean().backward()
    torch.testing.assert_close(logits.grad, reference.grad)


def test_the_percentile_follows_from_the_noise_rate() -> None:
    net = mentornet(noise_rate=0.2)
    net.set_epoch(1)
    losses_of(net)
    # 0.8 of 9 is 7.2: the 7th from 0
    assert float(net.moving_percentile) == pytest.approx(1.7014, abs=1e-4)
    assert net.hyperparameters()["percentile"] == pytest.approx(0.8)
    assert net.hyperparameters()["noise_rate_source"] == "given"
    assert net.log_values()["noise_rate"] == pytest.approx(0.2)
    estimating = mentornet()
    estimating.set_epoch(1)  # too early for an estimate: every label is trusted
    losses_of(estimating)
    assert float(estimating.moving_percentile) == pytest.approx(6.0025, abs=1e-4)
    assert "noise_rate" not in mentornet(percentile=0.7).log_values()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"percentile": 0.0}, "percentile must be above 0"),
        ({"percentile": 1.1}, "percentile must be above 0 and at most 1, not 1.1"),
        ({"percentile": 0.5, "noise_rate": 0.5}, "not both"),
        ({"noise_rate": 1.0}, "noise_rate must be"),
        ({"percentile_decay": 1.0}, "percentile_decay must be"),
        ({"burn_in": -0.1}, "burn_in must be"),
        ({"burn_in_drop_rate": 1.0}, "burn_in_drop_rate must be"),
        ({"drop_rate": 1.0}, "drop_rate must be"),
        ({"ramp": -1.0}, "ramp must be from 0 to 5"),
        ({"ramp": 6.0}, "ramp must be from 0 to 5"),
        ({"ramp_from": 1.5}, "ramp_from must be from 0 to 1"),
    ],
)
def test_what_is_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mentornet(**options)


def test_the_history_is_kept_where_the_rate_is_estimated() -> None:
    net = mentornet()
    losses_of(net)
    assert net.history is not None
    torch.testing.assert_close(net.history.average_losses, LOSSES)
    assert mentornet(noise_rate=0.2).history is None
    assert mentornet(percentile=0.7).history is None
