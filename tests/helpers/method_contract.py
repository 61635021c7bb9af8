"""What every method must hold to, whatever it does inside: a class to test one or many with."""

from __future__ import annotations

import copy
import inspect
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discrimloss.training.methods.base import Batch, Method, Setting, StepResult, methods
from discrimloss.training.task_losses import cross_entropy, mse

NUM_SAMPLES, FEATURES, CLASSES, EPOCHS, BATCH_SIZE = 24, 5, 3, 4, 8
STEPS = NUM_SAMPLES // BATCH_SIZE


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, CLASSES))


class Training:
    """A method and its optimizer; every batch follows from the number of the step."""

    def __init__(
        self,
        name: str,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        epochs: int = EPOCHS,
        knows_difficulty: bool = True,
        **options: Any,
    ) -> None:
        generator = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(NUM_SAMPLES, FEATURES, generator=generator).to(dtype)
        self.target = torch.randint(CLASSES, (NUM_SAMPLES,), generator=generator)
        setting = Setting(
            build_network=lambda: network().to(dtype),
            task_losses=cross_entropy,
            num_samples=NUM_SAMPLES,
            num_classes=CLASSES,
            epochs=epochs,
            target=self.target,
            difficulty=torch.arange(NUM_SAMPLES).float() if knows_difficulty else None,
        )
        torch.manual_seed(seed)
        self.method: Method = methods.get(name)(setting, **options)
        self.optimizer = torch.optim.SGD(self.method.trainable_parameters(), 0.3, momentum=0.9)

    def batch(self, index: Tensor) -> Batch:
        return Batch(self.inputs[index], self.target[index], index)

    def step(self, index: Tensor) -> StepResult:
        result: StepResult = self.method(self.batch(index))
        result.loss.backward()
        self.method.after_backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.method.after_step()
        return result

    def run(
        self,
        first: int,
        last: int,
        order: Tensor | None = None,
        before_step: Callable[[int], None] = lambda number: None,
    ) -> list[float]:
        """Steps `first` to `last`, counted from 0; the losses. Rows of a batch in any `order`."""
        losses = []
        for number in range(first, last):
            before_step(number)
            epoch, step = 1 + number // STEPS, number % STEPS
            if step == 0 or number == first:
                self.method.begin_epoch(epoch)
            index = torch.randperm(NUM_SAMPLES, generator=torch.Generator().manual_seed(epoch))
            index = index[step * BATCH_SIZE : (step + 1) * BATCH_SIZE]
            result = self.step(index if order is None else index[order])
            losses.append(float(result.loss.detach()))
        return losses

    def state(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.method.state_dict().items()}


def built_or_refused(name: str, setting: Setting) -> tuple[Method | None, str]:
    try:
        return methods.get(name)(setting), ""
    except ValueError as error:
        return None, str(error)


def assert_equal(state: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    torch.testing.assert_close(state, expected, rtol=0, atol=0, equal_nan=True)


def differ(state: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return any(not torch.equal(state[name], other[name]) for name in state)


@pytest.mark.usefixtures("quick_verdicts")
class MethodContract:
    """Each test takes the name of a method: subclasses say of which."""

    def test_the_result_of_a_step(self, name: str) -> None:
        training = Training(name)
        training.method.begin_epoch(1)
        before = training.state()
        result = training.step(torch.arange(BATCH_SIZE))
        assert result.loss.shape == ()
        assert result.loss.isfinite()
        assert result.losses.shape == (BATCH_SIZE,)
        assert result.output.shape == (BATCH_SIZE, CLASSES)
        assert not result.losses.requires_grad
        assert not result.output.requires_grad
        assert differ(training.state(), before)
        with torch.no_grad():  # the records are of the task loss
            expected = cross_entropy(result.output, training.target[:BATCH_SIZE])
        torch.testing.assert_close(result.losses, expected)

    def test_saved_and_loaded_it_goes_on_as_if_nothing_had_been(self, name: str) -> None:
        whole = Training(name)
        saved = {}

        def save(number: int) -> None:
            saved[number] = whole.state(), copy.deepcopy(whole.optimizer.state_dict())

        losses = whole.run(0, EPOCHS * STEPS, before_step=save)
        for cut in (0, 1, STEPS, STEPS + 2, 3 * STEPS, 4 * STEPS - 1):
            state, optimizer_state = saved[cut]
            resumed = Training(name, seed=7)
            resumed.method.load_state_dict(state)
            resumed.optimizer.load_state_dict(optimizer_state)
            # As the loop does it: what a step draws comes from the generator as it was then.
            assert resumed.run(cut, EPOCHS * STEPS) == losses[cut:], cut
            assert_equal(resumed.state(), whole.state())
            assert resumed.method.log_values() == whole.method.log_values(), cut

    @pytest.mark.parametrize("epochs", [1, 2, 3])
    def test_runs_may_be_short(self, name: str, epochs: int) -> None:
        training = Training(name, epochs=epochs, knows_difficulty=False)
        for epoch in range(1, epochs + 1):
            training.method.begin_epoch(epoch)
            order = training.method.sample_order(epoch, torch.Generator().manual_seed(epoch))
            for index in order.split(BATCH_SIZE):
                assert training.step(index).loss.isfinite()
        json.dumps(training.method.hyperparameters(), allow_nan=False)

    def test_all_state_is_tensors(self, name: str) -> None:
        for key, value in Training(name).state().items():
            assert type(value) is Tensor, key

    def test_a_batch_of_one(self, name: str) -> None:
        training = Training(name)
        for epoch in range(1, EPOCHS + 1):
            training.method.begin_epoch(epoch)
            for index in range(NUM_SAMPLES):
                result = training.step(torch.tensor([index]))
                assert result.loss.isfinite()
                assert result.losses.shape == (1,)
        for key, value in training.state().items():
            assert value.isfinite().all(), key

    def test_rows_in_any_order(self, name: str) -> None:
        straight, shuffled = Training(name), Training(name)
        order = torch.randperm(BATCH_SIZE, generator=torch.Generator().manual_seed(5))
        losses = straight.run(0, 2 * STEPS)
        assert shuffled.run(0, 2 * STEPS, order) == pytest.approx(losses, rel=1e-4, abs=1e-6)
        torch.testing.assert_close(shuffled.state(), straight.state(), rtol=1e-4, atol=1e-5)

    def test_the_seed_decides(self, name: str) -> None:
        one, same, other = Training(name, 3), Training(name, 3), Training(name, 4)
        assert_equal(one.state(), same.state())
        assert differ(one.state(), other.state())
        losses = [training.run(0, STEPS) for training in (one, same, other)]
        assert losses[0] == losses[1] != losses[2]
        assert_equal(one.state(), same.state())

    def test_a_copy_lives_on_its_own(self, name: str) -> None:
        training = Training(name)
        training.run(0, STEPS)
        before = training.state()
        copied = copy.deepcopy(training)
        losses = copied.run(STEPS, 2 * STEPS)
        assert_equal(training.state(), before)
        assert training.run(STEPS, 2 * STEPS) == losses
        assert_equal(training.state(), copied.state())

    def test_a_double_network(self, name: str) -> None:
        training = Training(name, dtype=torch.float64)
        training.run(0, STEPS)
        dtypes = {key: value.dtype for key, value in training.state().items()}
        for key, value in Training(name).state().items():
            if not key.startswith("networks."):
                assert dtypes[key] == value.dtype, key

    def test_prediction_changes_nothing(self, name: str) -> None:
        training = Training(name)
        training.run(0, STEPS)
        before = training.state()
        training.method.eval()
        with torch.no_grad():
            answer = training.method.predict(training.inputs)
        assert answer.shape == (NUM_SAMPLES, CLASSES)
        assert_equal(training.state(), before)

    def test_the_order_of_samples(self, name: str) -> None:
        method = Training(name).method
        for epoch in (1, EPOCHS):
            one, same = (
                method.sample_order(epoch, torch.Generator().manual_seed(epoch)) for _ in range(2)
            )
            assert one.dtype == torch.int64
            assert one.dim() == 1
            assert len(one) > 0
            assert 0 <= int(one.min()) <= int(one.max()) < NUM_SAMPLES
            assert torch.equal(one, same)

    def test_what_it_says(self, name: str) -> None:
        training = Training(name)
        training.run(0, EPOCHS * STEPS)
        verdicts = training.method.verdicts()
        assert verdicts is not None
        assert len(verdicts) == NUM_SAMPLES
        said: dict[str, Any] = {
            **training.method.hyperparameters(),
            **training.method.log_values(),
        }
        json.dumps(said, allow_nan=False)
        assert all(isinstance(value, float) for value in training.method.log_values().values())

    def test_its_scores_are_of_the_samples_it_saw(self, name: str) -> None:
        # A run this small finds no noise: without any, no sample is left out.
        takes_rate = "noise_rate" in inspect.signature(methods.get(name)).parameters
        training = Training(name, **({"noise_rate": 0.25} if takes_rate else {}))
        training.method.begin_epoch(1)
        training.step(torch.arange(BATCH_SIZE))
        scores = training.method.sample_scores()
        if scores is None:
            return
        assert scores.shape == (NUM_SAMPLES,)
        assert not scores.requires_grad
        assert scores[BATCH_SIZE:].isnan().all()  # never in a batch
        before = training.state()
        training.run(0, EPOCHS * STEPS)
        scores = training.method.sample_scores()
        assert scores is not None
        assert scores.isfinite().all()
        assert scores.unique().numel() > 1  # or else they say nothing
        assert differ(training.state(), before)

    def test_a_regression_is_learned_or_refused_in_one_sentence(self, name: str) -> None:
        setting = Setting(
            build_network=lambda: nn.Sequential(nn.Linear(FEATURES, 1), nn.Flatten(0)),
            task_losses=mse,
            num_samples=NUM_SAMPLES,
            num_classes=None,
            epochs=EPOCHS,
            target=torch.arange(NUM_SAMPLES).float(),
        )
        method, refusal = built_or_refused(name, setting)
        if method is None:
            assert re.fullmatch(f"method '{name}' does not support regression: it [^\n]+", refusal)
            return
        for epoch in range(1, EPOCHS + 1):
            method.begin_epoch(epoch)
            index = method.sample_order(epoch, torch.Generator().manual_seed(epoch))[:BATCH_SIZE]
            inputs = torch.randn(len(index), FEATURES, generator=torch.Generator().manual_seed(0))
            result: StepResult = method(Batch(inputs, setting.target[index], index))
            result.loss.backward()
            method.after_backward()
            assert result.loss.isfinite()
            assert result.losses.shape == result.output.shape == index.shape
        assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in method.parameters())

    def test_it_is_described(self, name: str) -> None:
        assert len(methods.summary(name)) > 10
        assert all(not option.is_required for option in methods.options(name).values())
