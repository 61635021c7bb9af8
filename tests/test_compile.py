"""A compiled training step does what the eager one does, and is compiled once."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field

import labelled_batches
import pytest
import torch
from labelled_batches import CLASSES, PHASES, STORIES, LabelledBatches
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


# The forms that know targets and predictions: compiled once for each phase.


class LabelledTraining:
    """A criterion, and a step that takes the outputs of a network."""

    def __init__(self, form: str, story: str) -> None:
        self.criterion = labelled_batches.make_criterion(form)
        self.batches = LabelledBatches(form, STORIES[story])

    def step(self, outputs: Tensor, target: Tensor, index: Tensor) -> Tensor:
        given: dict[str, Tensor] = {"target": target}
        if self.batches.form == "logits":
            given["logits"] = outputs
        elif self.batches.form == "regression with predictions":
            given["predictions"] = outputs
        if self.batches.is_regression:
            losses = (outputs - target).square()
        else:
            losses = functional.cross_entropy(outputs, target.clamp(0, 3), reduction="none")
        loss: Tensor = self.criterion(losses, index, **given)
        return loss

    def gradients(self, step: Step, index: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        outputs = self.batches.outputs(index, epoch).detach().requires_grad_()
        loss = step(outputs, self.batches.target[index], index)
        (gradient,) = torch.autograd.grad(loss, outputs)
        return loss.detach(), gradient


@pytest.mark.parametrize(
    ("form", "story"),
    [
        ("classes", "memorised"),
        ("logits", "noisy"),
        ("logits", "memorised"),
        ("regression with predictions", "memorised"),
    ],
)
def test_a_step_with_targets_is_compiled_once_for_each_phase(form: str, story: str) -> None:
    torch._dynamo.reset()
    graphs = []

    def counting_backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., object]:
        graphs.append(graph)
        return graph.forward

    compiled, eager = (LabelledTraining(form, story) for _ in range(2))
    compiled_step = torch.compile(compiled.step, fullgraph=True, backend=counting_backend)
    for epoch in range(1, 9):
        for each in (compiled, eager):
            each.criterion.set_epoch(epoch)
        for index in eager.batches.order(epoch):
            torch.testing.assert_close(
                compiled.gradients(compiled_step, index, epoch),
                eager.gradients(eager.step, index, epoch),
            )
        assert_same_state(compiled.criterion, eager.criterion)
    assert len(graphs) == len(PHASES[form, story])


def test_logits_that_appear_later_are_refused_in_a_compiled_step() -> None:
    torch._dynamo.reset()
    criterion = DiscrimLoss(NUM_SAMPLES, epochs=10, num_classes=3)
    step = torch.compile(criterion, backend="eager")
    losses, index, target = torch.ones(4), torch.arange(4), torch.tensor([0, 1, 2, 0])
    with torch._dynamo.config.patch(error_on_recompile=True):
        for _ in range(3):
            step(losses, index, target=target)
    with pytest.raises(ValueError, match="logits are given, but were not in earlier batches"):
        step(losses, index, target=target, logits=torch.zeros(4, 3))


def test_a_compiled_step_with_logits_agrees_with_the_eager_one() -> None:
    torch._dynamo.reset()
    compiled, eager = (LabelledTraining("logits", "memorised") for _ in range(2))
    compiled_step: Step = torch.compile(compiled.step, fullgraph=True)
    for epoch in (1, 2):  # compiling is slow: one phase
        for each in (compiled, eager):
            each.criterion.set_epoch(epoch)
        for index in eager.batches.order(epoch):
            torch.testing.assert_close(
                compiled.gradients(compiled_step, index, epoch),
                eager.gradients(eager.step, index, epoch),
                rtol=1e-3,
                atol=1e-4,
            )
    states = state_of(compiled.criterion), state_of(eager.criterion)
    for name in ("table.role", "table.target", "table.visits", "table.predicted_visits"):
        assert torch.equal(states[0][name], states[1][name])

    index = torch.arange(97)
    outputs, target = eager.batches.outputs(index, 7), eager.batches.target[index]
    outputs = outputs.detach().requires_grad_()
    with pytest.raises(ValueError, match=r"sample 3 has target \d but had \d before"):
        compiled_step(outputs, torch.where(index == 3, (target + 1) % CLASSES, target), index)
    with pytest.raises(IndexError, match=r"target 99 \(row 3 of the batch\)"):
        compiled_step(outputs, torch.where(index == 3, 99, target), index)
    assert_same_state(compiled.criterion, states[0])
