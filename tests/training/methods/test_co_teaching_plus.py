"""Co-teaching+ against its algorithm in plain loops: who disagrees, who is kept, who is taught."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from discrimloss.training.methods.base import Batch, Setting, StepResult
from discrimloss.training.methods.co_teaching_plus import CoTeachingPlus, rising_forget_rate
from discrimloss.training.task_losses import cross_entropy, mse

SAMPLES, FEATURES, CLASSES, EPOCHS = 40, 4, 3, 8


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


INPUTS = torch.randn(SAMPLES, FEATURES, generator=generator())
TARGET = torch.randint(CLASSES, (SAMPLES,), generator=generator(1))
ALL = torch.arange(SAMPLES)
SETTING = Setting(
    lambda: nn.Linear(FEATURES, CLASSES), cross_entropy, SAMPLES, CLASSES, EPOCHS, TARGET
)


def step(method: CoTeachingPlus, index: Tensor) -> StepResult:
    result: StepResult = method(Batch(INPUTS[index], TARGET[index], index))
    return result


def agreeing(**options: int) -> CoTeachingPlus:
    """Two equal networks."""
    method = CoTeachingPlus(SETTING, noise_rate=0.5, warmup_epochs=0, **options)
    method.networks[1].load_state_dict(method.networks[0].state_dict())
    return method


def test_several_steps() -> None:
    torch.manual_seed(0)
    warmup_epochs, gradual_epochs, noise_rate = 2, 2, 0.5
    method = CoTeachingPlus(
        SETTING, noise_rate=noise_rate, gradual_epochs=gradual_epochs, warmup_epochs=warmup_epochs
    )
    nets = [SETTING.build_network() for _ in range(2)]
    for net, own in zip(nets, method.networks, strict=True):
        net.load_state_dict(own.state_dict())
    optimizer = torch.optim.SGD(method.trainable_parameters(), lr=0.02)
    sizes = []
    for epoch in range(1, 7):
        method.begin_epoch(epoch)
        index = torch.randperm(SAMPLES, generator=generator(epoch))
        answers = [net(INPUTS[index]) for net in nets]
        losses = [cross_entropy(answer, TARGET[index]) for answer in answers]

        predicted = [answer.argmax(dim=1).tolist() for answer in answers]
        disagree = [row for row in range(SAMPLES) if predicted[0][row] != predicted[1][row]]
        rows = list(range(SAMPLES)) if epoch <= warmup_epochs else disagree
        forget_rate = noise_rate * min((epoch - 1) / gradual_epochs, 1)
        number = max(1, int((1 - forget_rate) * len(rows)))
        chosen = [
            sorted(rows, key=lambda row: float(each[row].detach()))[:number] for each in losses
        ]
        assert len(rows) > 1
        sizes.append((len(rows), number))
        expected = sum(
            own[others].mean() for own, others in zip(losses, reversed(chosen), strict=True)
        )
        expected.backward()
        with torch.no_grad():
            for net in nets:
                for parameter in net.parameters():
                    parameter -= 0.02 * parameter.grad
                    parameter.grad = None

        result = step(method, index)
        result.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.testing.assert_close(result.loss.detach(), expected.detach())
        torch.testing.assert_close(result.losses, losses[0].detach())
        said = method.log_values()
        assert said["disagreement"] == pytest.approx(len(disagree) / SAMPLES)
        assert said["forget_rate"] == pytest.approx(forget_rate)
    for net, own in zip(nets, method.networks, strict=True):
        torch.testing.assert_close(own.state_dict(), net.state_dict())
    assert sizes[:2] == [(40, 40), (40, 30)]
    assert all(number < size < SAMPLES for size, number in sizes[2:])


def test_if_all_agree_it_takes_the_whole_batch_while_the_forget_rate_rises() -> None:
    method = agreeing(gradual_epochs=3)
    for epoch in (1, 3):  # forget 0 and 1/3, yet nobody is left out
        method.begin_epoch(epoch)
        result = step(method, ALL)
        torch.testing.assert_close(result.loss.detach(), 2 * result.losses.mean())


def test_if_all_agree_it_learns_nothing_afterwards() -> None:
    method = agreeing(gradual_epochs=3)
    method.begin_epoch(4)
    result = step(method, ALL)
    assert float(result.loss.detach()) == 0.0
    result.loss.backward()
    for parameter in method.networks.parameters():  # in the graph all the same
        assert parameter.grad is not None
        assert not parameter.grad.any()


def test_while_nothing_is_forgotten_it_takes_every_row() -> None:
    method = CoTeachingPlus(SETTING, noise_rate=0.0, warmup_epochs=0)
    method.begin_epoch(5)
    result = step(method, ALL)
    assert method.log_values()["disagreement"] > 0.0
    second = cross_entropy(method.networks[1](INPUTS), TARGET).mean().detach()
    torch.testing.assert_close(result.loss.detach(), result.losses.mean() + second)


def released(**options: int) -> CoTeachingPlus:
    torch.manual_seed(0)
    return CoTeachingPlus(SETTING, noise_rate=0.5, gradual_epochs=3, form="released", **options)


def second_softmax(logits: list[float], label: int) -> float:
    """The cross-entropy of probabilities that are taken for logits."""
    total = sum(math.exp(each) for each in logits)
    probabilities = [math.exp(each) / total for each in logits]
    return math.log(sum(map(math.exp, probabilities))) - probabilities[label]


def test_the_second_softmax_by_hand() -> None:
    # Probabilities 1/2, 1/4, 1/4: log(e^0.5 + 2 e^0.25) - 0.25 = log 4.2167723 - 0.25 = 1.1890695
    # for a wrong label, and 0.25 less for the right one.
    logits = [math.log(2.0), 0.0, 0.0]
    assert second_softmax(logits, 1) == pytest.approx(1.1890695)
    assert second_softmax(logits, 0) == pytest.approx(0.9390695)


def test_the_authors_code_selects_by_a_second_softmax_and_divides_twice() -> None:
    method = released(warmup_epochs=0)
    method.begin_epoch(1)  # the forget rate is 0.5 / 2
    outputs = [network(INPUTS).detach() for network in method.networks]
    rows = [row for row in range(SAMPLES) if outputs[0][row].argmax() != outputs[1][row].argmax()]
    number = int(0.75 * len(rows))
    losses = [
        [second_softmax(output[row].tolist(), int(TARGET[row])) for row in range(SAMPLES)]
        for output in outputs
    ]
    chosen = [sorted(rows, key=own.__getitem__)[:number] for own in losses]
    plain = [cross_entropy(output, TARGET).tolist() for output in outputs]
    by_logits = [sorted(rows, key=own.__getitem__)[:number] for own in plain]
    assert [set(each) for each in chosen] != [set(each) for each in by_logits]
    expected = sum(
        sum(own[row] for row in others) / number / number
        for own, others in zip(losses, reversed(chosen), strict=True)
    )
    assert number > 1
    assert float(step(method, ALL).loss.detach()) == pytest.approx(expected, rel=1e-5)


def test_the_authors_warm_up_has_one_softmax_and_divides_twice() -> None:
    method = released(warmup_epochs=2)
    method.begin_epoch(1)  # keeps 30 of 40 rows
    losses = [cross_entropy(net(INPUTS).detach(), TARGET) for net in method.networks]
    chosen = [own.argsort()[:30] for own in losses]
    expected = (losses[0][chosen[1]].mean() + losses[1][chosen[0]].mean()) / 30
    torch.testing.assert_close(step(method, ALL).loss.detach(), expected)


def test_the_authors_code_takes_disputed_rows_though_nothing_is_forgotten() -> None:
    method = CoTeachingPlus(SETTING, noise_rate=0.0, warmup_epochs=0, form="released")
    method.begin_epoch(5)
    outputs = [network(INPUTS).detach() for network in method.networks]
    disputed = outputs[0].argmax(1) != outputs[1].argmax(1)
    assert 0 < int(disputed.sum()) < SAMPLES
    soft = [cross_entropy(each.softmax(1), TARGET)[disputed].mean() for each in outputs]
    expected = (soft[0] + soft[1]) / disputed.sum()
    torch.testing.assert_close(step(method, ALL).loss.detach(), expected)


def test_the_share_of_disagreement_is_of_the_epoch() -> None:
    torch.manual_seed(0)
    method = CoTeachingPlus(SETTING)
    with torch.no_grad():
        first, second = (network(INPUTS).argmax(dim=1) for network in method.networks)
    differs = (first != second).float()
    assert 0 < differs.sum() < SAMPLES
    for epoch in (1, 2):
        method.begin_epoch(epoch)
        assert method.log_values()["disagreement"] == 0.0
        step(method, ALL[:5])
        method.begin_epoch(epoch)  # resumed: what was counted stays
        step(method, ALL[5:])
        assert method.log_values()["disagreement"] == pytest.approx(float(differs.mean()))


def test_scores_are_of_all_samples_and_not_only_of_those_in_dispute() -> None:
    method = agreeing(gradual_epochs=1)
    method.begin_epoch(2)  # nobody disagrees, half of the losses are large
    losses = step(method, ALL).losses
    large = losses > losses.sort().values[SAMPLES // 2 - 1]
    assert method.sample_scores().tolist() == large.float().tolist()


def test_the_second_schedule_goes_on_to_twice_the_noise_rate() -> None:
    # tau = 0.2, E_k = 2, E_max = 6: 0.1 an epoch, then 0.2 * (1 + (e - 2) / 4)
    rates = [rising_forget_rate(finished, 0.2, 2, 6) for finished in range(7)]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4])
    assert rising_forget_rate(6, 0.7, 2, 6) == 1.0
    assert rising_forget_rate(5, 0.2, 10, 6) == pytest.approx(0.1)  # a schedule beyond the run

    method = CoTeachingPlus(SETTING, noise_rate=0.2, gradual_epochs=2, late_schedule="rising")
    method.begin_epoch(6)  # 5 finished, of 8: 0.2 * (1 + 3 / 6)
    assert method.log_values()["forget_rate"] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("noise_rate", "warmup_epochs"),
    [
        (0.2, 1),  # a tenth of 8, rounded up
        (None, 2),  # the last estimate is at the beginning of epoch 3, 30 % of 8
    ],
)
def test_what_is_recorded(noise_rate: float | None, warmup_epochs: int) -> None:
    assert CoTeachingPlus(SETTING, noise_rate=noise_rate).hyperparameters() == {
        "noise_rate": noise_rate,
        "noise_rate_source": "not estimated yet" if noise_rate is None else "given",
        "gradual_epochs": 2,  # a quarter of 8
        "warmup_epochs": warmup_epochs,
        "late_schedule": "level",
        "form": "paper",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_rate": -0.1}, "noise_rate must be a fraction of the labels"),
        ({"warmup_epochs": -1}, "warmup_epochs must be at least 0, not -1"),
        ({"form": "other"}, "form must be 'paper' or 'released'"),
        ({"form": "released", "late_schedule": "rising"}, "only in the paper"),
        ({"late_schedule": "falling"}, "late_schedule must be 'level' or 'rising', not 'falling'"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, float | str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CoTeachingPlus(SETTING, **options)  # type: ignore[arg-type]


def test_a_regression_is_refused_before_a_network_is_built() -> None:
    def unwanted() -> nn.Module:
        raise AssertionError("built")

    setting = Setting(unwanted, mse, SAMPLES, None, EPOCHS, torch.zeros(SAMPLES))
    with pytest.raises(ValueError, match="'co_teaching_plus' does not support regression"):
        CoTeachingPlus(setting)
