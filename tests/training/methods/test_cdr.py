"""CDR against the paper's update, weight by weight."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from discrimloss.training.methods.base import Batch, Setting, methods
from discrimloss.training.methods.cdr import CDR, critical_threshold, keep_critical_gradients
from discrimloss.training.methods.plain import Plain
from discrimloss.training.task_losses import cross_entropy, mse

SAMPLES, FEATURES, CLASSES, EPOCHS = 12, 4, 3, 20
RATE, DECAY = 0.5, 0.01


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def setting() -> Setting:
    target = torch.arange(SAMPLES) % CLASSES
    return Setting(network, cross_entropy, SAMPLES, CLASSES, EPOCHS, target)


def whole_batch() -> Batch:
    inputs = torch.randn(SAMPLES, FEATURES, generator=torch.Generator().manual_seed(2))
    return Batch(inputs, torch.arange(SAMPLES) % CLASSES, torch.arange(SAMPLES))


def with_gradient(values: list[list[float]], gradient: list[list[float]]) -> Tensor:
    weight = torch.tensor(values, requires_grad=True)
    weight.grad = torch.tensor(gradient)
    return weight


@pytest.mark.parametrize(
    ("share", "expected"), [(1.0, 1.0), (0.75, 2.0), (0.5, 3.0), (0.3, 4.0), (0.01, 4.0)]
)
def test_the_threshold_is_the_least_of_the_critical_ones(share: float, expected: float) -> None:
    assert critical_threshold(torch.tensor([3.0, 1.0, 4.0, 2.0]), share) == expected


def test_all_tensors_are_ranked_together() -> None:
    first = with_gradient([[1.0, -2.0], [0.1, 4.0]], [[-3.0, 0.5], [9.0, 0.0]])
    second = with_gradient([[10.0, -1.0, 0.5, 2.0]], [[0.2, 0.7, 0.4, -1.5]])
    # |g w|: 3, 1, 0.9, 0 and 2, 0.7, 0.2, 3. A quarter does not follow: 0 and 0.2.
    keep_critical_gradients([first, second], noise_rate=0.25)
    expected = torch.tensor([[-3.0, 0.5], [9.0, 0.0]]) * 0.75
    torch.testing.assert_close(first.grad, expected)
    torch.testing.assert_close(second.grad, torch.tensor([[0.2, 0.7, 0.0, -1.5]]) * 0.75)
    # Half of them: of what is left only 3, 2, 3 and 1 stay.
    keep_critical_gradients([first, second], noise_rate=0.5)
    torch.testing.assert_close(first.grad, torch.tensor([[-3.0, 0.5], [0.0, 0.0]]) * 0.375)
    torch.testing.assert_close(second.grad, torch.tensor([[0.2, 0.0, 0.0, -1.5]]) * 0.375)


def test_an_overflow_stays_visible() -> None:
    weight = with_gradient([[0.0, 1.0, 1.0]], [[torch.inf, torch.nan, 1.0]])
    keep_critical_gradients([weight], noise_rate=0.7)
    assert weight.grad is not None
    assert weight.grad[0, :2].isnan().all()


def naive_update(method: CDR, rate: float, learning_rate: float) -> dict[str, Tensor]:
    """``w - eta ((1 - tau) g + decay w)`` if critical, ``w - eta decay w`` if not."""
    named = dict(method.named_parameters())
    ranking = sorted(
        (abs(g * w), name, place)
        for name, weight in named.items()
        if weight.dim() >= 2 and weight.grad is not None
        for place, (g, w) in enumerate(
            zip(weight.grad.flatten().tolist(), weight.flatten().tolist(), strict=True)
        )
    )
    critical = {(name, place) for _, name, place in ranking[-int((1 - rate) * len(ranking)) :]}
    moved = {}
    for name, weight in named.items():
        assert weight.grad is not None
        values = []
        for place, w in enumerate(weight.flatten().tolist()):
            g = weight.grad.flatten().tolist()[place]
            if weight.dim() >= 2:
                g = (1 - rate) * g if (name, place) in critical else 0.0
            values.append(w - learning_rate * (g + DECAY * w))
        moved[name] = torch.tensor(values).reshape(weight.shape)
    return moved


def test_several_steps_against_a_naive_loop() -> None:
    torch.manual_seed(0)
    method = CDR(setting(), noise_rate=0.3)
    optimizer = torch.optim.SGD(method.trainable_parameters(), RATE, weight_decay=DECAY)
    for epoch in (1, 2, 3):
        method.begin_epoch(epoch)
        method(whole_batch()).loss.backward()
        expected = naive_update(method, 0.3, RATE)
        method.after_backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.testing.assert_close(dict(method.named_parameters()), expected)


def test_the_rate_in_the_state_is_the_one_that_counts() -> None:
    torch.manual_seed(0)
    method = CDR(setting())
    torch.manual_seed(0)
    plain = Plain(setting())

    def gradients(of: CDR | Plain, epoch: int) -> list[Tensor]:
        of.zero_grad()
        of.begin_epoch(epoch)
        of(whole_batch()).loss.backward()
        of.after_backward()
        return [p.grad.clone() for p in of.parameters() if p.grad is not None]

    assert method.hyperparameters()["noise_rate_source"] == "not estimated yet"
    torch.testing.assert_close(gradients(method, 1), gradients(plain, 1), rtol=0, atol=0)
    method.noise_rate.value.fill_(0.4)
    method.noise_rate.estimated_in.fill_(EPOCHS)
    ours, theirs = gradients(method, EPOCHS), gradients(plain, EPOCHS)
    weights = torch.cat([g.flatten() for g in ours if g.dim() == 2])
    assert int((weights == 0).sum()) == 14  # of 35 weights, int(0.6 * 35) = 21 are critical
    for own, other in zip(ours, theirs, strict=True):
        followed = own != 0
        factor = 0.6 if own.dim() == 2 else 1.0
        torch.testing.assert_close(own[followed], factor * other[followed])
    assert method.log_values() == {"noise_rate": 0.4}


def test_a_given_rate_is_recorded() -> None:
    method = CDR(setting(), noise_rate=0.3)
    assert method.hyperparameters() == {"noise_rate": 0.3, "noise_rate_source": "given"}


def test_a_regression_works() -> None:
    target = torch.linspace(-1, 1, SAMPLES)

    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(FEATURES, 1), nn.Flatten(0))

    method = CDR(Setting(build, mse, SAMPLES, None, EPOCHS, target), noise_rate=0.5)
    method.begin_epoch(1)
    result = method(Batch(whole_batch().inputs, target, torch.arange(SAMPLES)))
    result.loss.backward()
    method.after_backward()
    assert result.losses.shape == (SAMPLES,)
    assert int((method.networks[0][0].weight.grad == 0).sum()) == 2


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="noise_rate must be a fraction"):
        methods.get("cdr")(setting(), noise_rate=rate)
