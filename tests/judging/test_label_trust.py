"""Which labels are learned from, and how much each counts, from predictions and losses."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from discrimloss.judging import label_trust
from discrimloss.judging.label_trust import LabelTrust, smoothed
from discrimloss.judging.noise_model import NoiseModel, fit_noise_model
from discrimloss.training.methods.base import Batch, Setting
from discrimloss.training.methods.discrimloss import DiscrimLossMethod
from discrimloss.training.task_losses import cross_entropy, task_losses

SAMPLES, EPOCHS = 400, 8


class Made:
    """Three blobs, or a line, with 30 % wrong labels."""

    def __init__(self, is_regression: bool = False) -> None:
        generator = torch.Generator().manual_seed(0)
        self.is_wrong = torch.rand(SAMPLES, generator=generator) < 0.3
        self.inputs = torch.randn(SAMPLES, 3, generator=generator)
        if is_regression:
            true = 10.0 * self.inputs[:, 0]
            other = true[torch.randperm(SAMPLES, generator=generator)]
            self.setting = self._setting(
                torch.where(self.is_wrong, other, true),
                None,
                lambda: nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)),
            )
        else:
            true = torch.randint(3, (SAMPLES,), generator=generator)
            self.inputs[torch.arange(SAMPLES), true] += 4.0
            other = (true + torch.randint(1, 3, (SAMPLES,), generator=generator)) % 3
            self.setting = self._setting(
                torch.where(self.is_wrong, other, true), 3, lambda: nn.Linear(3, 3)
            )

    def _setting(self, target: Tensor, num_classes: int | None, network: object) -> Setting:
        losses = cross_entropy if num_classes else task_losses("mse", is_regression=True)
        return Setting(network, losses, SAMPLES, num_classes, EPOCHS, target)  # type: ignore[arg-type]

    def trained(self, epochs: int = EPOCHS, **options: float) -> DiscrimLossMethod:
        torch.manual_seed(1)
        method = DiscrimLossMethod(self.setting, **options)  # type: ignore[arg-type]
        for epoch in range(1, epochs + 1):
            method.begin_epoch(epoch)
            order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(epoch))
            for index in order.split(40):
                result = method(Batch(self.inputs[index], self.setting.target[index], index))
                result.loss.backward()
                with torch.no_grad():
                    for parameter in method.networks.parameters():
                        parameter -= 0.3 * parameter.grad
                        parameter.grad = None
        return method


@pytest.mark.parametrize("is_regression", [False, True])
def test_wrong_labels_lose_their_trust(is_regression: bool) -> None:
    made = Made(is_regression)
    method = made.trained(predictions_from=0.3)
    assert method.labels is not None
    trust = method.labels.trust
    assert trust[~made.is_wrong].mean() > 0.8
    assert trust[made.is_wrong].mean() < 0.35
    assert 1.0 - method.log_values()["mean_trust"] == pytest.approx(0.3, abs=0.08)
    scores = method.sample_scores()
    assert torch.equal(scores, 1.0 - trust)
    assert method.hyperparameters()["predictions_from"] == 0.3


def test_until_then_it_is_the_papers_form() -> None:
    made = Made()
    plain, later = made.trained(4), made.trained(4, predictions_from=0.5)
    assert torch.equal(plain.networks[0].weight, later.networks[0].weight)
    changed = made.trained(5, predictions_from=0.5)
    assert not torch.equal(made.trained(5).networks[0].weight, changed.networks[0].weight)


def test_the_first_epoch_has_no_estimate() -> None:
    made = Made()
    first = made.trained(1, predictions_from=0.0)
    assert first.labels is not None
    assert not first.labels.has_estimate
    assert (first.labels.trust == 1.0).all()


def test_an_epoch_that_is_resumed_is_not_estimated_again() -> None:
    made = Made()
    method = made.trained(predictions_from=0.3)
    resumed = DiscrimLossMethod(made.setting, predictions_from=0.3)
    resumed.load_state_dict(method.state_dict())
    assert resumed.labels is not None
    resumed.begin_epoch(EPOCHS)
    assert torch.equal(resumed.labels.trust, method.labels.trust)  # type: ignore[union-attr]
    resumed.begin_epoch(EPOCHS + 1)
    assert not torch.equal(resumed.labels.trust, method.labels.trust)  # type: ignore[union-attr]


def step_with_given_trust(made: Made) -> tuple[DiscrimLossMethod, Tensor, Tensor]:
    """A method, the loss of a step on its first 40 samples, and their task losses."""
    method = made.trained(3, predictions_from=0.0)
    assert method.labels is not None
    index = torch.arange(40)
    method.begin_epoch(4)
    method.labels.trust[:3] = torch.tensor([0.09, 0.11, 0.5])
    result = method(Batch(made.inputs[index], made.setting.target[index], index))
    return method, result.loss, result.losses


def test_a_number_counts_as_much_as_it_is_trusted_and_below_a_tenth_not_at_all() -> None:
    method, loss, losses = step_with_given_trust(Made(is_regression=True))
    weights = method.labels.trust[:40].clone()  # type: ignore[union-attr]
    weights[weights < 0.1] = 0.0
    assert weights[:3].tolist() == pytest.approx([0.0, 0.11, 0.5])
    expected = (weights * losses).sum() / weights.sum() * weights.mean().sqrt()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_class_that_is_trusted_counts_as_the_predictions_so_far_support_it() -> None:
    made = Made()
    method, loss, losses = step_with_given_trust(made)
    labels = method.labels
    assert labels is not None
    transition = labels.log_transition.exp().tolist()
    averages = labels.predictions[:40] / (1.0 - 0.6 ** labels.visits[:40])[:, None]
    averages -= averages.mean(1, keepdim=True)
    averages[torch.arange(40), made.setting.target[:40]] -= labels.leak
    expected = (averages * labels.sharpness + labels.bias).softmax(1).tolist()
    output = method.networks[0](made.inputs[:40])
    of_every_class = -output.log_softmax(1).mean(1)
    trust = labels.trust[:40].tolist()
    total = trusted = 0.0
    for row, label in enumerate(made.setting.target[:40].tolist()):
        if trust[row] < 0.1:
            continue
        joint = [expected[row][true] * transition[true][label] for true in range(3)]
        cost = 0.8 * losses[row].item() + 0.2 * of_every_class[row].item()
        total += joint[label] / sum(joint) * cost
        trusted += trust[row]
    assert trust[0] < 0.1 < trust[1]
    assert loss.item() == pytest.approx(total / trusted * (trusted / 40) ** 0.5, rel=1e-4)


def test_smoothed_losses_are_least_where_every_class_has_a_little() -> None:
    target = torch.tensor([1])
    logits = torch.zeros(1, 4, requires_grad=True)
    for _ in range(2000):
        loss = smoothed(cross_entropy(logits, target), logits).sum()
        (gradient,) = torch.autograd.grad(loss, logits)
        logits = (logits - gradient).detach().requires_grad_()
    assert logits.softmax(1).tolist()[0] == pytest.approx([0.05, 0.85, 0.05, 0.05], abs=1e-4)


def test_a_large_batch_in_half_precision_has_its_gradient() -> None:
    made = Made()
    method = made.trained(3, predictions_from=0.0)
    method.begin_epoch(4)
    index = torch.arange(SAMPLES)
    batch = Batch(made.inputs[index].half(), made.setting.target[index], index)
    in_half = deepcopy(method)
    in_half.networks.half()
    in_half(batch).loss.backward()
    method(Batch(made.inputs, made.setting.target, index)).loss.backward()
    found, expected = (one.networks[0].weight.grad for one in (in_half, method))
    assert torch.allclose(found.float(), expected, rtol=0.05, atol=1e-3)  # type: ignore[union-attr, operator, arg-type]
    assert found.abs().max() > 0.01  # type: ignore[union-attr, operator]


@pytest.mark.parametrize("is_regression", [False, True])
def test_noise_does_not_vanish_when_it_is_learned_by_heart(is_regression: bool) -> None:
    made = Made(is_regression)
    method = made.trained(4, predictions_from=0.0)
    assert method.labels is not None
    found = float(method.labels.noise)
    assert found == pytest.approx(0.3, abs=0.1)
    # From now on every answer is half as far from the label as it was: memorised, but not whole.
    target = made.setting.target
    by_heart = target if is_regression else torch.nn.functional.one_hot(target, 3) * 6.0
    predicted = method.labels.predictions / (1.0 - 0.6**method.labels.visits)[:, None]
    drawn = (predicted + by_heart.reshape(predicted.shape)) / 2
    for _ in range(6):
        method.labels.record(drawn, torch.arange(SAMPLES))
    method.labels.update(5, lambda: torch.full((SAMPLES,), 0.5))  # losses that know nothing
    p_incorrect = 1.0 - method.labels.trust
    assert p_incorrect.mean() == pytest.approx(found, abs=0.05)
    assert p_incorrect[made.is_wrong].mean() > 2 * p_incorrect[~made.is_wrong].mean()
    assert is_regression or method.labels.leak > 0.1


def test_the_noise_that_labels_are_weighed_by_is_that_of_the_predictions() -> None:
    made = Made()
    method = made.trained(3, predictions_from=0.0)
    labels = method.labels
    assert labels is not None
    averages = labels.predictions.double() / (1.0 - 0.6 ** labels.visits.double())[:, None]
    least_noise = float(labels.noise)
    method.begin_epoch(4)
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(4))
    expected = fit_noise_model(averages[order], made.setting.target[order], least_noise)
    assert float(labels.sharpness) == pytest.approx(float(expected.sharpness), rel=1e-3)
    assert float(labels.leak) == pytest.approx(expected.leak, abs=1e-3)
    assert torch.allclose(labels.bias.double(), expected.bias, atol=1e-3)
    assert torch.allclose(labels.log_transition.double(), expected.log_transition, atol=1e-3)
    assert float(expected.sharpness) != pytest.approx(1.0, abs=0.1)


class TestTwoJudges:
    """By predictions, and by losses where these are in two groups and find the same noise."""

    @pytest.fixture
    def made(self) -> Made:
        return Made()

    @pytest.fixture
    def sure(self, made: Made) -> Tensor:
        return made.is_wrong.float().clamp(0.001, 0.999)

    @pytest.fixture
    def labels(self, made: Made) -> LabelTrust:
        labels = LabelTrust(made.setting.target, 3)
        labels.record(made.trained().networks[0](made.inputs), torch.arange(SAMPLES))
        return labels

    def by_predictions(self, labels: LabelTrust) -> Tensor:
        alone = deepcopy(labels)
        alone.update(2, lambda: torch.full((SAMPLES,), 0.5))
        return alone.trust

    def test_losses_in_two_groups_are_believed(self, labels: LabelTrust, sure: Tensor) -> None:
        by_predictions = self.by_predictions(labels)
        labels.update(2, lambda: sure)
        assert torch.allclose(labels.trust, 1.0 - sure)
        assert not torch.allclose(by_predictions, 1.0 - sure, atol=0.1)

    def test_losses_leave_out_who_is_rather_wrong(self, labels: LabelTrust, sure: Tensor) -> None:
        sure[:3] = torch.tensor([0.45, 0.55, 0.85])
        labels.update(2, lambda: sure)
        assert labels.weights(torch.arange(3)).tolist() == pytest.approx([0.55, 0.0, 0.0])
        labels.update(3, lambda: torch.full((SAMPLES,), 0.5))  # now the predictions decide
        labels.trust[:3] = torch.tensor([0.05, 0.15, 0.55])
        assert labels.weights(torch.arange(3)).tolist() == pytest.approx([0.0, 0.15, 0.55])

    @pytest.fixture
    def lost(self, labels: LabelTrust, sure: Tensor, monkeypatch: pytest.MonkeyPatch) -> LabelTrust:
        """Once estimated; from then on no noise is found in the predictions, whatever they are."""
        labels.update(2, lambda: sure)
        never = NoiseModel(1.0, torch.zeros(3), torch.eye(3).clamp(min=1e-6).log())
        monkeypatch.setattr(label_trust, "fit_noise_model", lambda *_: never)
        return labels

    def test_losses_are_believed_when_predictions_have_lost_the_noise(
        self, lost: LabelTrust, sure: Tensor
    ) -> None:
        other = sure.clone()
        other[0] = 0.3
        sharpness = lost.sharpness.clone()
        lost.update(3, lambda: other)
        assert torch.allclose(lost.trust, 1.0 - other)
        assert torch.equal(lost.sharpness, sharpness)  # of the noise that was found before

    def test_nothing_decides_when_losses_are_unsure_then(self, lost: LabelTrust) -> None:
        before = deepcopy(lost.state_dict())
        lost.update(3, lambda: torch.full((SAMPLES,), 0.5))
        for name, value in lost.state_dict().items():
            assert torch.equal(value, before[name]) == (name != "estimated_in"), name
        assert int(lost.estimated_in) == 3

    def test_losses_that_are_unsure_are_not(self, labels: LabelTrust, made: Made) -> None:
        by_predictions = self.by_predictions(labels)
        labels.update(2, lambda: 0.4 * made.is_wrong + 0.18)
        assert torch.equal(labels.trust, by_predictions)

    @pytest.mark.parametrize("few", [0.0, 0.6])
    def test_nor_are_losses_of_one_group_and_its_hard_samples(self, made: Made, few: float) -> None:
        labels = LabelTrust(made.setting.target, 3)
        generator = torch.Generator().manual_seed(0)
        sure = 4.0 * torch.nn.functional.one_hot(made.setting.target, 3)
        labels.record(sure + torch.randn(SAMPLES, 3, generator=generator), torch.arange(SAMPLES))
        by_predictions = self.by_predictions(labels)
        assert 1.0 - by_predictions.mean() < 0.05  # about the noise that these losses find
        found = torch.zeros(SAMPLES)
        found[:12] = few
        labels.update(2, lambda: found)
        assert torch.equal(labels.trust, by_predictions)
        assert (labels.trust < 1.0).any()

    def test_nor_are_those_that_find_another_noise(self, labels: LabelTrust) -> None:
        by_predictions = self.by_predictions(labels)
        labels.update(2, lambda: torch.full((SAMPLES,), 0.999))
        assert torch.equal(labels.trust, by_predictions)

    def test_regression_targets_have_one_estimate(self) -> None:
        made = Made(is_regression=True)
        labels = LabelTrust(made.setting.target, None)
        labels.record(made.trained(3).networks[0](made.inputs), torch.arange(SAMPLES))
        labels.update(2, lambda: pytest.fail("nobody asks the losses"))
        assert labels.has_estimate


def test_samples_that_were_never_seen_are_trusted() -> None:
    made = Made()
    method = made.trained(1, predictions_from=0.0)
    assert method.labels is not None
    method.labels.visits[0] = 0
    method.begin_epoch(2)
    assert method.labels.trust[0] == 1.0
    assert method.sample_scores()[0].isnan()


@pytest.mark.parametrize("is_regression", [False, True])
def test_samples_that_are_held_out_teach_nothing(is_regression: bool) -> None:
    made = Made(is_regression)
    method = made.trained(3, predictions_from=0.0, held_out=0.5)
    method.begin_epoch(4)
    for held_out in (True, False):
        index = (method.is_held_out == held_out).nonzero()[:, 0]
        method(Batch(made.inputs[index], made.setting.target[index], index)).loss.backward()
        gradients = [parameter.grad for parameter in method.networks.parameters()]
        assert all(bool((gradient == 0.0).all()) == held_out for gradient in gradients)  # type: ignore[union-attr]
        method.zero_grad()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_an_answer_that_is_no_number_is_forgotten(bad: float) -> None:
    made = Made()
    method = made.trained(3, predictions_from=0.0)
    method.begin_epoch(4)
    before = deepcopy(method.labels)
    assert before is not None
    index = torch.arange(40)
    inputs = made.inputs[index].clone()
    inputs[0] = bad
    assert not method(Batch(inputs, made.setting.target[index], index)).loss.isfinite()
    for name, value in method.labels.state_dict().items():  # type: ignore[union-attr]
        assert torch.equal(value, before.state_dict()[name]), name
    result = method(Batch(made.inputs[index], made.setting.target[index], index))
    assert result.loss.isfinite()


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="predictions_from"):
        DiscrimLossMethod(Made().setting, predictions_from=share)
