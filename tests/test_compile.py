"""A compiled training step does what the eager one does, and is compiled once."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from state_comparison import assert_same_state, state_of
from torch import Tensor, nn
from torch.nn import functional

from discrimloss import DiscrimLoss

NUM_SAMPLES, BATCH = 20, 8

pytestmark = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler"),
    # torch's own, while it compiles.
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning:torch"),
]

Step = Callable[[Tensor, Tensor, Tensor], Tensor]


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


def make_criterion() -> DiscrimLoss:
    return DiscrimLoss(NUM_SAMPLES, epochs=3, weight_range=(0.05, 20.0), regularization=0.01)


@dataclass
class Training:
    model: nn.Module = field(default_factory=make_model)
    criterion: DiscrimLoss = field(default_factory=make_criterion)

    def step(self, x: Tensor, target: Tensor, index: Tensor) -> Tensor:
        losses = functional.cross_entropy(self.model(x), target, reduction="none")
        loss: Tensor = self.criterion(losses, index)
        return loss

    def gradients(self, step: Step, batch: tuple[Tensor, Tensor, Tensor]) -> list[Tensor]:
        """The loss and the gradients of all parameters; the parameters move a little."""
        loss = step(*batch)
        parameters = list(self.model.parameters())
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= 0.5 * gradient
        return [loss.detach(), *gradients]


@dataclass
class CompiledTraining(Training):
    def __post_init__(self) -> None:
        torch._dynamo.reset()
        self.compiled_step: Step = torch.compile(self.step, fullgraph=True)


@pytest.fixture(scope="module")
def compiled() -> CompiledTraining:
    """Shared, because compiling is slow."""
    return CompiledTraining()


def make_batch(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(NUM_SAMPLES, (BATCH,), generator=generator)
    index[1] = index[0]  # always a duplicate
    x = torch.randn(BATCH, 4, generator=generator)
    return x, torch.randint(3, (BATCH,), generator=generator), index


def test_a_compiled_step_agrees_with_the_eager_one_in_every_epoch(
    compiled: CompiledTraining,
) -> None:
    eager = Training()
    with torch._dynamo.config.patch(error_on_recompile=True):
        for epoch in (1, 2, 3):
            eager.criterion.set_epoch(epoch)
            compiled.criterion.set_epoch(epoch)
            for step in range(3):
                batch = make_batch(10 * epoch + step)
                torch.testing.assert_close(
                    compiled.gradients(compiled.compiled_step, batch),
                    eager.gradients(eager.step, batch),
                )
                torch.testing.assert_close(state_of(compiled.criterion), state_of(eager.criterion))
    assert eager.criterion.sample_weights.max() > 1.0 > eager.criterion.sample_weights.min()


@pytest.mark.parametrize("wrong", [NUM_SAMPLES, -1])
def test_a_wrong_index_is_an_error_in_a_compiled_step_and_moves_nothing(
    compiled: CompiledTraining, wrong: int
) -> None:
    compiled.gradients(compiled.compiled_step, make_batch(99))
    before = state_of(compiled.criterion)
    x, target, index = make_batch(100)
    index[3] = wrong
    with (
        torch._dynamo.config.patch(error_on_recompile=True),
        pytest.raises(IndexError, match=f"index {wrong} .* 0 to {NUM_SAMPLES - 1}"),
    ):
        compiled.compiled_step(x, target, index)
    assert_same_state(compiled.criterion, before)
