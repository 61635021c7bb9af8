"""A loss that turns NaN stops the run, and says where; the last good checkpoint stays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from lively_task import BATCH_SIZE, STEPS, TRAIN, lively_config
from run_comparison import place_of
from safetensors.torch import load_file

from discrimloss.training.loop import NonFiniteLossError
from discrimloss.training.methods.base import Batch, Setting, StepResult, methods
from discrimloss.training.methods.plain import Plain
from discrimloss.training.run import RunRequest, run_training
from discrimloss.training.seeds import derived_generator

pytestmark = pytest.mark.usefixtures("lively", "quick_verdicts")


class GoesWrong(Plain):
    """The losses of some rows turn NaN in a certain step, or only the gradient does."""

    def __init__(
        self, setting: Setting, *, epoch: int, step: int, rows: int = 2, what: str = "loss"
    ) -> None:
        super().__init__(setting)
        self.place, self.rows, self.what = (epoch, step), rows, what
        self.now = (0, 0)

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        self.now = (epoch, 0)

    def training_step(self, batch: Batch) -> StepResult:
        result = super().training_step(batch)
        self.now = (self.now[0], self.now[1] + 1)
        if self.now != self.place or self.what != "loss":
            return result
        losses = result.losses.clone()
        losses[: self.rows] = math.nan
        return StepResult(result.loss * math.nan, losses, result.output)

    def after_backward(self) -> None:
        if self.now == self.place and self.what == "gradient":
            next(iter(self.trainable_parameters())).grad[0] = math.inf  # type: ignore[index]


@pytest.fixture(autouse=True)
def goes_wrong() -> Iterator[None]:
    methods.register("goes_wrong")(GoesWrong)
    yield
    del methods.registered["goes_wrong"]


def failure(out: Path, *settings: str) -> str:
    config = lively_config("method=goes_wrong", *settings)
    with pytest.raises(NonFiniteLossError) as error:
        run_training(RunRequest(config, Path(), out))
    assert not (out / "summary.json").exists()
    weights = load_file(out / "checkpoint" / "model.safetensors")
    for name, tensor in weights.items():
        if name.endswith("latest_loss"):  # -inf before the first visit
            assert (tensor < torch.inf).all(), name
        else:
            assert tensor.isfinite().all(), name
    return str(error.value)


def samples_of(epoch: int, step: int) -> list[int]:
    """Of a batch, with the seed of the recipe."""
    order = torch.randperm(TRAIN, generator=derived_generator(1, "order", epoch))
    return order[(step - 1) * BATCH_SIZE : step * BATCH_SIZE].tolist()


@pytest.mark.parametrize("step", [1, 3, STEPS])
def test_the_message_has_epoch_step_and_samples(step: int, tmp_path: Path) -> None:
    message = failure(tmp_path / "run", "options.epoch=2", f"options.step={step}")
    first, second = samples_of(2, step)[:2]
    assert (
        f"the loss became nan in epoch 2, step {step} (from samples {first}, {second})" in message
    )
    assert "\n" not in message
    assert place_of(tmp_path / "run") == (2, 0)


@pytest.mark.parametrize("step", [2, STEPS])
def test_a_checkpoint_after_every_step_is_of_the_step_before(step: int, tmp_path: Path) -> None:
    out = tmp_path / "run"
    settings = ("options.epoch=1", f"options.step={step}", "options.rows=1")
    message = failure(out, *settings, "checkpoint_seconds=0")
    assert f"epoch 1, step {step} (from sample {samples_of(1, step)[0]})" in message
    assert place_of(out) == (1, step - 1)


def test_many_samples_are_not_all_named(tmp_path: Path) -> None:
    message = failure(tmp_path / "run", "options.epoch=2", "options.step=2", "options.rows=20")
    named = ", ".join(map(str, samples_of(2, 2)[:10]))
    assert f"(from samples {named}, …)" in message


def test_a_loss_that_is_nan_of_no_sample(tmp_path: Path) -> None:
    message = failure(tmp_path / "run", "options.epoch=2", "options.step=2", "options.rows=0")
    assert "(from no single sample)" in message


def test_a_gradient_that_overflows_in_the_last_step_of_an_epoch(tmp_path: Path) -> None:
    """The loss of the next epoch would tell, but by then the parameters would be saved."""
    out = tmp_path / "run"
    settings = ("options.epoch=2", f"options.step={STEPS}", "options.what=gradient")
    message = failure(out, *settings)
    assert f"the parameters became NaN or infinite in epoch 2, step {STEPS}" in message
    assert f"(with samples {samples_of(2, STEPS)[0]}, " in message
    assert place_of(out) == (2, 0)
