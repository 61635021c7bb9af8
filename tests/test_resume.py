"""A run that is saved, stopped and taken up again ends as if it had never stopped."""

from pathlib import Path
from typing import Any

import labelled_batches
import pytest
import torch
from labelled_batches import PHASES, STORIES, LabelledBatches
from state_comparison import assert_same_state
from torch import Tensor, nn
from torch.nn import functional

from discrimloss import DiscrimLoss

pytestmark = pytest.mark.usefixtures("fits_once")

NUM_SAMPLES, EPOCHS, STEPS_PER_EPOCH = 24, 4, 3
SWITCH_EPOCH = 2.5  # stage 1 ends with epoch 2: learned_early is filled in during the run

every_variant = pytest.mark.parametrize("variant", ["paper", "released"])
every_threshold = pytest.mark.parametrize(
    "threshold", ["bounded_split", "split", "ema", "mean", 0.7]
)


class Training:
    """A model, an optimizer and a criterion; every batch follows from the number of the step."""

    def __init__(self, variant: Any, threshold: Any) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.3, momentum=0.9)
        self.criterion = DiscrimLoss(
            NUM_SAMPLES,
            epochs=EPOCHS,
            variant=variant,
            threshold=threshold,
            switch_epoch=SWITCH_EPOCH,
            weight_range=(0.2, 20.0),
        )
        self.x = torch.randn(NUM_SAMPLES, 5)
        self.target = torch.randint(3, (NUM_SAMPLES,))
        self.steps_done = 0

    def run_until(self, last_step: int) -> list[tuple[float, float, float]]:
        """Loss, k1 and k_dyn of every step."""
        trace = []
        while self.steps_done < last_step:
            self.criterion.set_epoch(self.steps_done // STEPS_PER_EPOCH + 1)
            index = self._batch(self.steps_done)
            losses = functional.cross_entropy(
                self.model(self.x[index]), self.target[index], reduction="none"
            )
            loss = self.criterion(losses, index)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            trace.append((loss.item(), float(self.criterion.k1), self.criterion.k_dyn))
            self.steps_done += 1
        return trace

    @staticmethod
    def _batch(step: int) -> Tensor:
        # Drawn with replacement: some samples twice in a batch, some seldom.
        return torch.randint(NUM_SAMPLES, (12,), generator=torch.Generator().manual_seed(step))

    def save(self, path: Path) -> None:
        checkpoint = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "criterion": self.criterion.state_dict(),
            "steps_done": self.steps_done,
        }
        torch.save(checkpoint, path)

    def load(self, path: Path) -> None:
        checkpoint = torch.load(path, weights_only=True)
        self.model.load_state_dict(checkpoint["model"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        self.criterion.load_state_dict(checkpoint["criterion"])
        self.steps_done = checkpoint["steps_done"]


@every_variant
@every_threshold
# The first step, inside an epoch, at the end of the first, at the end of stage 1, the last but one.
@pytest.mark.parametrize("cut", [0, 1, 2, 3, 5, 6, 7, 11])
def test_a_resumed_run_is_bit_identical(
    variant: str, threshold: Any, cut: int, tmp_path: Path
) -> None:
    whole = Training(variant, threshold)
    trace = whole.run_until(EPOCHS * STEPS_PER_EPOCH)

    interrupted = Training(variant, threshold)
    interrupted.run_until(cut)
    interrupted.save(tmp_path / "checkpoint.pt")
    resumed = Training(variant, threshold)
    resumed.load(tmp_path / "checkpoint.pt")
    resumed_trace = resumed.run_until(EPOCHS * STEPS_PER_EPOCH)

    assert resumed_trace == trace[cut:]
    assert_same_state(resumed.criterion, whole.criterion)
    assert torch.equal(resumed.criterion.sample_weights, whole.criterion.sample_weights)
    for name, parameter in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], parameter)


@every_variant
@every_threshold
def test_the_run_under_comparison_is_a_lively_one(variant: str, threshold: Any) -> None:
    training = Training(variant, threshold)
    training.run_until(EPOCHS * STEPS_PER_EPOCH)
    weights = training.criterion.sample_weights
    assert weights.max() > 1.0 > weights.min()
    learned_early = training.criterion.state_dict()["table.learned_early"]
    assert {0, 1} <= set(learned_early.tolist())


@every_variant
def test_the_state_dict_holds_tensors_only(variant: str) -> None:
    training = Training(variant, "split")
    training.run_until(STEPS_PER_EPOCH)
    for name, value in training.criterion.state_dict().items():
        assert type(value) is Tensor, name


@pytest.mark.parametrize(
    ("saved", "own", "sentence"),
    [
        (
            {},
            {"num_classes": 3},
            r"from a DiscrimLoss without num_classes and task, but this one .*=3: ",
        ),
        ({"num_classes": 3}, {}, r"built without .*: build it with num_classes=3"),
        ({"num_classes": 3}, {"num_classes": 4}, "num_classes=4: build it with num_classes=3"),
        ({"task": "regression"}, {"num_classes": 8}, "build it with task='regression'"),
    ],
)
def test_a_state_with_other_targets_is_refused(
    saved: dict[str, Any], own: dict[str, Any], sentence: str
) -> None:
    state = DiscrimLoss(NUM_SAMPLES, EPOCHS, **saved).state_dict()
    criterion = DiscrimLoss(NUM_SAMPLES, EPOCHS, **own)
    with pytest.raises(ValueError, match=sentence):
        criterion.load_state_dict(state)
    DiscrimLoss(NUM_SAMPLES, EPOCHS, **saved).load_state_dict(state)


# The forms that know targets and predictions, through all phases.


@pytest.mark.parametrize(
    ("form", "story", "last_epoch", "as_file"),
    [
        (*run, last_epoch, False)
        for run in PHASES
        for last_epoch in ((0, 2, 5, 8) if run[0] == "logits" else (0, 5))
    ]
    + [(*run, 5, True) for run in PHASES if run[1] == "memorised"],
)
def test_a_resumed_run_with_targets_is_bit_identical(
    form: str, story: str, last_epoch: int, as_file: bool, tmp_path: Path
) -> None:
    batches = LabelledBatches(form, STORIES[story])
    interrupted, fresh = (labelled_batches.make_criterion(form) for _ in range(2))
    batches.train(interrupted, 1, last_epoch)
    half = batches.order(last_epoch + 1)[:4]
    interrupted.set_epoch(last_epoch + 1)
    for index in half:
        batches.step(interrupted, index, last_epoch + 1)
    if as_file:
        file = pytest.importorskip("discrimloss.state.file", exc_type=ImportError)
        file.save_state(interrupted, tmp_path)
        file.load_state(fresh, tmp_path)
    else:
        torch.save(interrupted.state_dict(), tmp_path / "state.pt")
        fresh.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert_same_state(fresh, interrupted)
    rest = batches.order(last_epoch + 1)[4:]
    for criterion in (interrupted, fresh):
        criterion.set_epoch(last_epoch + 1)
    for index in rest:
        found = [
            batches.step(criterion, index, last_epoch + 1) for criterion in (interrupted, fresh)
        ]
        assert torch.equal(found[0][0], found[1][0])
    steps = [batches.train(criterion, last_epoch + 2) for criterion in (interrupted, fresh)]
    for whole, resumed in zip(*steps, strict=True):
        assert whole[0] == resumed[0]
        assert torch.equal(whole[1], resumed[1])
        assert torch.equal(whole[2], resumed[2])
    assert_same_state(fresh, interrupted)


@pytest.mark.parametrize("form", ["logits", "regression with predictions"])
def test_a_state_of_before_the_first_batch_replaces_predictions(form: str) -> None:
    untouched, used = (labelled_batches.make_criterion(form) for _ in range(2))
    batches = LabelledBatches(form, STORIES["memorised"])
    batches.train(used)
    used.load_state_dict(untouched.state_dict())
    assert_same_state(used, untouched)
    for criterion in (used, untouched):
        batches.train(criterion)
    assert_same_state(used, untouched)


def test_a_loaded_state_remembers_whether_there_were_logits() -> None:
    batches = LabelledBatches("classes", STORIES["clean"])
    criterion, loaded = (labelled_batches.make_criterion("classes") for _ in range(2))
    batches.train(criterion, 1, 1)
    loaded.load_state_dict(criterion.state_dict())
    index = torch.arange(4)
    logits = batches.outputs(index, 2)
    with pytest.raises(ValueError, match="logits are given, but were not in earlier batches"):
        loaded(batches.losses(logits, index), index, batches.target[index], logits)
