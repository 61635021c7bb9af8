"""What every loss of `discrimloss.losses` must do in a plain loop: a class to test one or many."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from discrimloss.losses.base import IndexedLoss, loss_classes

NUM_SAMPLES, FEATURES, CLASSES, EPOCHS, BATCH_SIZE = 24, 5, 3, 4, 8
STEPS = NUM_SAMPLES // BATCH_SIZE
KNOWN = {"num_samples": NUM_SAMPLES, "num_classes": CLASSES, "epochs": EPOCHS}


def build(name: str, **changed: Any) -> IndexedLoss:
    """A loss with what its constructor asks for."""
    loss_class = loss_classes.get(name)
    arguments = inspect.signature(loss_class).parameters
    known = {key: value for key, value in KNOWN.items() if key in arguments}
    return loss_class(**known | changed)


def keeps_rows(name: str) -> bool:
    return build(name).num_samples is not None


class PlainLoop:
    """A network, a loss and an optimizer; every batch follows from the number of the step."""

    def __init__(self, name: str, dtype: torch.dtype = torch.float32, **options: Any) -> None:
        generator = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(NUM_SAMPLES, FEATURES, generator=generator).to(dtype)
        self.target = torch.randint(CLASSES, (NUM_SAMPLES,), generator=generator)
        torch.manual_seed(0)
        hidden, last = nn.Linear(FEATURES, 8), nn.Linear(8, CLASSES)
        self.model = nn.Sequential(hidden, nn.ReLU(), last).to(dtype)
        self.criterion = build(name, **options)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.3, momentum=0.9)

    def step(self, index: Tensor) -> float:
        loss = self.criterion(self.model(self.inputs[index]), self.target[index], index)
        assert loss.isfinite()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.detach())

    def run(self, first: int, last: int, order: Tensor | None = None) -> list[float]:
        """Steps `first` to `last`, counted from 0; the rows of each batch in any `order`."""
        losses = []
        for number in range(first, last):
            epoch, step = 1 + number // STEPS, number % STEPS
            if step == 0:
                self.criterion.set_epoch(epoch)
            index = torch.randperm(NUM_SAMPLES, generator=torch.Generator().manual_seed(epoch))
            index = index[step * BATCH_SIZE : (step + 1) * BATCH_SIZE]
            losses.append(self.step(index if order is None else index[order]))
        return losses

    def state(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.criterion.state_dict().items()}


def assert_equal(state: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    torch.testing.assert_close(state, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.usefixtures("quick_verdicts")
class LossContract:
    """Each test takes the registered name of a loss: subclasses say of which."""

    def test_reductions(self, name: str) -> None:
        values = {}
        for reduction in ("none", "mean", "sum"):
            loop = PlainLoop(name, reduction=reduction)
            logits = loop.model(loop.inputs[:BATCH_SIZE])
            values[reduction] = loop.criterion(
                logits, loop.target[:BATCH_SIZE], torch.arange(BATCH_SIZE)
            )
        assert values["none"].shape == (BATCH_SIZE,)
        torch.testing.assert_close(values["mean"], values["none"].mean())
        torch.testing.assert_close(values["sum"], values["none"].sum())
        with pytest.raises(ValueError, match="reduction must be one of mean, sum, none, not 'max'"):
            build(name, reduction="max")

    def test_it_learns(self, name: str) -> None:
        loop = PlainLoop(name)
        before = [p.detach().clone() for p in loop.model.parameters()]
        loop.run(0, EPOCHS * STEPS)
        assert all((p != old).any() for p, old in zip(loop.model.parameters(), before, strict=True))

    def test_a_batch_of_one(self, name: str) -> None:
        loop = PlainLoop(name)
        for epoch in range(1, EPOCHS + 1):
            loop.criterion.set_epoch(epoch)
            for index in range(NUM_SAMPLES):
                loop.step(torch.tensor([index]))
        for key, value in loop.state().items():
            assert value.isfinite().all(), key

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
    def test_dtypes(self, name: str, dtype: torch.dtype) -> None:
        loop = PlainLoop(name, dtype)
        dtypes = {key: value.dtype for key, value in loop.state().items()}
        loop.criterion.to(dtype)  # as if it were a part of the model
        loop.criterion.set_epoch(1)
        loop.step(torch.arange(BATCH_SIZE))
        assert {key: value.dtype for key, value in loop.state().items()} == dtypes

    @pytest.mark.parametrize("cut", [0, 1, STEPS, STEPS + 2, 3 * STEPS, 4 * STEPS - 1])
    def test_a_resumed_loop_equals_an_uninterrupted_one(self, name: str, cut: int) -> None:
        whole = PlainLoop(name)
        losses = whole.run(0, EPOCHS * STEPS)

        stopped = PlainLoop(name)
        stopped.run(0, cut)
        resumed = PlainLoop(name)
        resumed.criterion.load_state_dict(stopped.state())
        resumed.model.load_state_dict(stopped.model.state_dict())
        resumed.optimizer.load_state_dict(copy.deepcopy(stopped.optimizer.state_dict()))
        assert resumed.run(cut, EPOCHS * STEPS) == losses[cut:]  # set_epoch only at epoch starts
        assert_equal(resumed.state(), whole.state())
        assert resumed.criterion.log_values() == whole.criterion.log_values()

    def test_all_state_is_tensors(self, name: str) -> None:
        for key, value in build(name).state_dict().items():
            assert type(value) is Tensor, key

    def test_rows_in_any_order(self, name: str) -> None:
        straight, shuffled = PlainLoop(name), PlainLoop(name)
        order = torch.randperm(BATCH_SIZE, generator=torch.Generator().manual_seed(5))
        losses = straight.run(0, 2 * STEPS)
        assert shuffled.run(0, 2 * STEPS, order) == pytest.approx(losses, rel=1e-4, abs=1e-6)
        torch.testing.assert_close(shuffled.state(), straight.state(), rtol=1e-4, atol=1e-5)

    def test_in_eval_mode_it_is_the_task_loss_and_changes_nothing(self, name: str) -> None:
        loop = PlainLoop(name)
        loop.run(0, STEPS + 1)
        before = loop.state()
        loop.criterion.eval()
        logits = loop.model(loop.inputs)
        expected = functional.cross_entropy(logits, loop.target, reduction="none").mean()
        assert torch.equal(loop.criterion(logits, loop.target), expected)
        assert torch.equal(loop.criterion(logits, loop.target, torch.arange(NUM_SAMPLES)), expected)
        assert_equal(loop.state(), before)

    def test_copies_live_on_their_own(self, name: str) -> None:
        loop = PlainLoop(name)
        loop.run(0, STEPS)
        before = loop.state()
        copied = copy.deepcopy(loop)
        pickled = copy.deepcopy(loop)
        pickled.criterion = pickle.loads(pickle.dumps(loop.criterion))
        losses = copied.run(STEPS, 2 * STEPS)
        assert_equal(loop.state(), before)
        assert pickled.run(STEPS, 2 * STEPS) == losses
        assert_equal(pickled.state(), copied.state())

    def test_what_it_says(self, name: str) -> None:
        loop = PlainLoop(name)
        loop.run(0, EPOCHS * STEPS)
        values = loop.criterion.log_values()
        json.dumps({**loop.criterion.hyperparameters(), **values}, allow_nan=False)
        assert all(type(value) is float for value in values.values())
        assert repr(loop.criterion).startswith(type(loop.criterion).__name__)

    def test_its_scores_are_of_the_samples_it_saw(self, name: str) -> None:
        loop = PlainLoop(name)
        loop.criterion.set_epoch(1)
        loop.step(torch.arange(BATCH_SIZE))
        scores = loop.criterion.sample_scores()
        if scores is None:
            return
        assert scores.shape == (NUM_SAMPLES,)
        assert scores[BATCH_SIZE:].isnan().all()  # never in a batch
        loop.run(0, EPOCHS * STEPS)
        scores = loop.criterion.sample_scores()
        assert scores is not None
        assert scores.isfinite().all()
        assert scores.unique().numel() > 1  # or else they say nothing

    def test_a_regression(self, name: str) -> None:
        if loss_classes.get(name).needs_classes is not None:
            return
        arguments = inspect.signature(loss_classes.get(name)).parameters
        regression: dict[str, Any] = {"num_classes": None} if "num_classes" in arguments else {}
        criterion = build(name, task_loss=nn.MSELoss(reduction="none"), **regression)
        predictions = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
        target = torch.tensor([1.0, 1.0, 1.0])
        loss = criterion(predictions, target, torch.tensor([0, 1, 2]))
        loss.backward()
        assert predictions.grad is not None
        assert predictions.grad.tolist()[0] == 0.0
        assert (predictions.grad[1:] > 0.0).all()
        assert float(criterion.eval()(predictions.detach(), target)) == pytest.approx(10 / 3)
        with pytest.raises(ValueError, match="task_loss must return one loss for each"):
            build(name, task_loss=nn.MSELoss(), **regression)(predictions, target, torch.arange(3))

    @pytest.mark.parametrize("epoch", [0, -1, 1.5])
    def test_epochs_count_from_one(self, name: str, epoch: float) -> None:
        with pytest.raises(ValueError, match="epoch"):
            build(name).set_epoch(epoch)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("change", "error", "sentence"),
        [
            ({"logits": torch.zeros(2)}, ValueError, "logits must have shape (batch, classes)"),
            ({"logits": torch.zeros(2, 3).int()}, TypeError, "logits must be a tensor of real"),
            ({"target": torch.zeros(2)}, TypeError, "target must be a tensor of class positions"),
            ({"target": torch.zeros(3).long()}, ValueError, "target must have shape (2,), one"),
            ({"target": torch.tensor([0, 3])}, IndexError, "target 3 (row 1 of the batch) is out"),
            ({"target": torch.tensor([-1, 0])}, IndexError, "valid targets are 0 to 2"),
        ],
    )
    def test_a_wrong_batch(
        self, name: str, change: dict[str, Tensor], error: type[Exception], sentence: str
    ) -> None:
        if loss_classes.get(name).needs_classes is None:
            return  # the task loss checks its own input
        criterion = build(name)
        before = {key: value.clone() for key, value in criterion.state_dict().items()}
        index = torch.tensor([0, 1])
        batch = {"logits": torch.zeros(2, 3), "target": torch.tensor([0, 1]), **change}
        with pytest.raises(error, match=re.escape(sentence)):
            criterion(**batch, index=index)
        assert_equal(criterion.state_dict(), before)
        with pytest.raises(error, match=re.escape(sentence)):
            criterion.eval()(**batch)

    @pytest.mark.parametrize(
        ("index", "error", "sentence"),
        [
            (None, TypeError, "index"),
            (torch.tensor([0, 24]), IndexError, "sample index 24"),
            (torch.tensor([-1, 0]), IndexError, "sample index -1"),
            (torch.tensor([0.0, 1.0]), TypeError, "sample indices must be integers"),
            (torch.tensor([0]), ValueError, "index must have"),
        ],
    )
    def test_a_wrong_index(
        self, name: str, index: Tensor | None, error: type[Exception], sentence: str
    ) -> None:
        criterion = build(name)
        logits, target = torch.zeros(2, CLASSES), torch.tensor([0, 1])
        if not keeps_rows(name):
            assert criterion(logits, target, index).isfinite()
            return
        before = {key: value.clone() for key, value in criterion.state_dict().items()}
        with pytest.raises(error, match=sentence):
            criterion(logits, target, index)
        assert_equal(criterion.state_dict(), before)

    def test_without_samples_no_index_is_needed(self, name: str) -> None:
        arguments = inspect.signature(loss_classes.get(name)).parameters
        if "num_samples" in arguments and arguments["num_samples"].default is not None:
            return
        known = {key: KNOWN[key] for key in ("num_classes", "epochs") if key in arguments}
        loss_class: Any = loss_classes.get(name)
        if name in ("data_parameters", "discrimloss", "superloss_discrimloss"):
            with pytest.raises(ValueError, match="num_samples"):  # needed with default options
                loss_class(**known)
            return
        alone, watched = loss_class(**known), build(name)
        logits, target = torch.randn(4, CLASSES), torch.tensor([0, 1, 2, 0])
        assert alone.sample_scores() is None
        assert torch.equal(alone(logits, target), watched(logits, target, torch.arange(4)))

    def test_it_is_documented(self, name: str) -> None:
        loss_class = loss_classes.get(name)
        assert len(loss_classes.summary(name)) > 10
        text = inspect.getdoc(loss_class) or ""
        described = text.partition("Args:")[2]
        own = [key for key in inspect.signature(loss_class).parameters if "options" not in key]
        for argument in own:
            assert re.search(rf"^    [\w, ]*\b{argument}\b[\w, ]*: ", described, re.MULTILINE)
        assert all(not option.is_required for option in loss_class.options().values())
