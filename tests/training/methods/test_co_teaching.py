"""Co-teaching against Algorithm 1 in plain loops, and the small-loss selection by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from discrimloss.training.methods.base import Batch, Setting
from discrimloss.training.methods.co_teaching import CoTeaching
from discrimloss.training.methods.small_loss import (
    gradual_length,
    released_forget_rate,
    risen_forget_rate,
    small_loss_mask,
)
from discrimloss.training.task_losses import cross_entropy, mse

SAMPLES, FEATURES, CLASSES, EPOCHS = 10, 4, 3, 6


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


INPUTS = torch.randn(SAMPLES, FEATURES, generator=generator())
TARGET = torch.randint(CLASSES, (SAMPLES,), generator=generator(1))
NUMBERS = torch.randn(SAMPLES, generator=generator(2))


class Number(nn.Linear):
    """A regression: answers of shape (batch,)."""

    def __init__(self) -> None:
        super().__init__(FEATURES, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs)[:, 0]


def classification() -> Setting:
    return Setting(
        lambda: nn.Linear(FEATURES, CLASSES), cross_entropy, SAMPLES, CLASSES, EPOCHS, TARGET
    )


def regression() -> Setting:
    return Setting(Number, mse, SAMPLES, None, EPOCHS, NUMBERS)


def kept_by_hand(losses: list[float], index: list[int], forget_rate: float) -> set[int]:
    """Positions of the rows that stay, one by one."""
    number = max(1, int((1 - forget_rate) * len(losses)))
    rows = sorted(range(len(losses)), key=lambda row: (losses[row], index[row]))
    return set(rows[:number])


class TestForgetRate:
    def test_it_rises_with_the_finished_epochs(self) -> None:
        # tau = 0.4, T_k = 4: 0.1 more after each epoch, and the first keeps all
        rates = [risen_forget_rate(finished, 0.4, 4) for finished in range(7)]
        assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.4, 0.4])

    @pytest.mark.parametrize(
        ("exponent", "expected"),
        [
            (0.5, [0.0, 0.1, 0.141421, 0.2, 0.4]),  # 0.4 * sqrt(0, 1, 2, 4, 16) / 4
            (2.0, [0.0, 0.1, 0.4, 0.4, 0.4]),  # 0.4 * min((0, 1, 4, 16, 256) / 4, 1)
        ],
    )
    def test_the_exponent_is_on_the_epochs_alone(
        self, exponent: float, expected: list[float]
    ) -> None:
        rates = [risen_forget_rate(finished, 0.4, 4, exponent) for finished in (0, 1, 2, 4, 16)]
        assert rates == pytest.approx(expected, abs=1e-6)

    def test_the_authors_code_is_ahead_by_two_epochs(self) -> None:
        # tau = 0.45, T_k = 10: nine steps of 0.05, the first in epoch 1 and the last in epoch 9
        rates = [released_forget_rate(epoch, 0.45, 10) for epoch in (1, 2, 8, 9, 10, 11)]
        assert rates == pytest.approx([0.05, 0.10, 0.40, 0.45, 0.45, 0.45])
        # its exponent is on tau: 0.5 ** 2 in three steps, then 0.5
        rates = [released_forget_rate(epoch, 0.5, 4, 2.0) for epoch in (1, 2, 3, 4)]
        assert rates == pytest.approx([0.25 / 3, 0.5 / 3, 0.25, 0.5])
        assert released_forget_rate(1, 0.4, 1) == 0.4

    def test_the_schedule_is_an_option(self) -> None:
        method = CoTeaching(classification(), noise_rate=0.3, gradual_epochs=4, schedule="released")
        rates = []
        for epoch in range(1, 5):
            method.begin_epoch(epoch)
            rates.append(method.forget_rate)
        assert rates == pytest.approx([0.1, 0.2, 0.3, 0.3])
        assert method.hyperparameters()["schedule"] == "released"

    @pytest.mark.parametrize(
        ("epochs", "length"), [(200, 10), (40, 10), (39, 9), (12, 3), (6, 1), (1, 1)]
    )
    def test_short_runs_have_a_short_schedule(self, epochs: int, length: int) -> None:
        assert gradual_length(None, epochs) == length
        assert gradual_length(7, epochs) == 7


class TestSelection:
    LOSSES = torch.tensor([0.5, 0.1, 0.9, 0.3, 0.7])
    INDEX = torch.tensor([4, 0, 2, 1, 3])

    @pytest.mark.parametrize(
        ("forget_rate", "kept"),
        [
            (0.0, [True, True, True, True, True]),
            (0.1, [True, True, False, True, True]),  # int(4.5) = 4
            (0.4, [True, True, False, True, False]),
            (0.8, [False, True, False, False, False]),  # one, though (1 - 0.8) * 5 < 1 in floats
            (1.0, [False, True, False, False, False]),  # never none
        ],
    )
    def test_the_smallest_are_kept(self, forget_rate: float, kept: list[bool]) -> None:
        assert small_loss_mask(self.LOSSES, self.INDEX, forget_rate).tolist() == kept

    def test_among_candidates(self) -> None:
        candidates = torch.tensor([True, False, True, True, False])
        # losses 0.5, 0.9, 0.3 of three; int(0.7 * 3) = 2
        kept = small_loss_mask(self.LOSSES, self.INDEX, 0.3, candidates)
        assert kept.tolist() == [True, False, False, True, False]
        nobody = torch.zeros(5, dtype=torch.bool)
        assert not small_loss_mask(self.LOSSES, self.INDEX, 0.3, nobody).any()

    def test_between_equal_losses_the_sample_index_decides(self) -> None:
        losses = torch.tensor([1.0, 1.0, 0.0, 1.0])
        index = torch.tensor([7, 3, 9, 5])
        kept = small_loss_mask(losses, index, 0.5)
        assert kept.tolist() == [False, True, True, False]
        for order in ([3, 2, 1, 0], [1, 3, 0, 2]):
            moved = small_loss_mask(losses[order], index[order], 0.5)
            assert moved.tolist() == kept[order].tolist()


def run_and_compare(setting: Setting, target: Tensor, noise_rate: float) -> None:
    """Steps of the method beside Algorithm 1, written out row by row, with SGD."""
    torch.manual_seed(0)
    method = CoTeaching(setting, noise_rate=noise_rate, gradual_epochs=2)
    first, second = (setting.build_network() for _ in range(2))
    first.load_state_dict(method.networks[0].state_dict())
    second.load_state_dict(method.networks[1].state_dict())
    optimizer = torch.optim.SGD(method.trainable_parameters(), lr=0.2)
    left_out = [0.0] * SAMPLES
    for epoch in range(1, 5):
        method.begin_epoch(epoch)
        forget_rate = noise_rate * min((epoch - 1) / 2, 1)  # 0, tau / 2, tau, tau
        assert method.log_values()["forget_rate"] == pytest.approx(forget_rate)
        index = torch.randperm(SAMPLES, generator=generator(epoch))

        losses = [setting.task_losses(net(INPUTS[index]), target[index]) for net in (first, second)]
        chosen = [kept_by_hand(each.tolist(), index.tolist(), forget_rate) for each in losses]
        parts = []
        for net, own_losses, others_choice in zip(
            (first, second), losses, reversed(chosen), strict=True
        ):
            part = sum(own_losses[row] for row in others_choice) / len(others_choice)
            part.backward()
            parts.append(float(part.detach()))
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter -= 0.2 * parameter.grad
                    parameter.grad = None
        for rows in chosen:
            for row in set(range(SAMPLES)) - rows:
                left_out[int(index[row])] += 0.5

        result = method(Batch(INPUTS[index], target[index], index))
        result.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        assert float(result.loss.detach()) == pytest.approx(sum(parts), rel=1e-5)
        torch.testing.assert_close(result.losses, losses[0].detach())
    for net, reference in zip(method.networks, (first, second), strict=True):
        torch.testing.assert_close(net.state_dict(), reference.state_dict())
    assert method.sample_scores().tolist() == pytest.approx([each / 4 for each in left_out])
    assert max(left_out) > 0


@pytest.mark.parametrize("noise_rate", [0.35, 0.6])
def test_it_is_algorithm_1(noise_rate: float) -> None:
    run_and_compare(classification(), TARGET, noise_rate)


def test_it_is_algorithm_1_for_a_regression() -> None:
    run_and_compare(regression(), NUMBERS, 0.4)


def test_each_network_learns_from_the_others_choice_only() -> None:
    method = CoTeaching(regression(), noise_rate=0.5, gradual_epochs=1)
    for network, weight in zip(method.networks, (0.0, 1.0), strict=True):
        nn.init.constant_(network.weight, weight)
        nn.init.zeros_(network.bias)
    inputs = torch.tensor([[2.0, 0, 0, 0], [0.0, 1, 0, 0]])
    target = torch.tensor([2.0, 0.5])
    method.begin_epoch(2)
    # Answers 0, 0 and 2, 1; squared errors 4, 0.25 and 0, 0.25: the first network keeps the second
    # row and the second network the first row, so they pay 4 and 0.25.
    result = method(Batch(inputs, target, torch.tensor([0, 1])))
    assert float(result.loss.detach()) == 4.25
    result.loss.backward()
    # d/dv (2 v - 2)^2 = -8 at v = 0, of the first row; d/dw (w - 0.5)^2 = 1 at w = 1, of the second
    assert method.networks[0].weight.grad.tolist() == [[-8.0, 0.0, 0.0, 0.0]]
    assert method.networks[1].weight.grad.tolist() == [[0.0, 1.0, 0.0, 0.0]]
    assert method.sample_scores()[:2].tolist() == [0.5, 0.5]
    assert method.sample_scores()[2:].isnan().all()


def test_without_a_noise_rate_it_trusts_all_until_it_has_an_estimate() -> None:
    method = CoTeaching(classification())
    method.begin_epoch(1)
    result = method(Batch(INPUTS, TARGET, torch.arange(SAMPLES)))
    second = method.networks[1](INPUTS)
    plain = result.losses.mean() + cross_entropy(second, TARGET).mean()
    torch.testing.assert_close(result.loss.detach(), plain.detach())
    assert method.sample_scores().tolist() == [0.0] * SAMPLES
    assert method.hyperparameters() == {
        "noise_rate": None,
        "noise_rate_source": "not estimated yet",
        "gradual_epochs": 1,
        "exponent": 1.0,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_rate": 1.0}, "noise_rate must be a fraction of the labels"),
        ({"gradual_epochs": 0}, "gradual_epochs must be at least 1, not 0"),
        ({"exponent": 0.0}, "exponent must be a finite number above 0, not 0.0"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CoTeaching(classification(), **options)  # type: ignore[arg-type]
