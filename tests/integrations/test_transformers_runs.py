"""Epochs and iterations, checkpoints, logs, and what is refused."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from state_comparison import assert_same_state
from tiny_transformers import arguments, bert, texts
from torch.utils.data import IterableDataset
from transformers import BertForSequenceClassification, Trainer, TrainerCallback

from discrimloss import DiscrimLoss, SampleIds
from discrimloss.integrations.transformers import DiscrimTrainer
from discrimloss.state.file import STATE_FILE

pytestmark = pytest.mark.usefixtures("quick_verdicts")


class Recorder(TrainerCallback):
    """Notes every log, and the criterion's epoch at every step."""

    def __init__(self) -> None:
        self.logs: list[dict[str, float]] = []
        self.epochs: list[int] = []
        self.trainer: Any = None

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        self.logs.append({**logs, "step": state.global_step})

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.epochs.append(self.trainer.criterion.epoch)

    def of_samples(self) -> list[dict[str, float]]:
        return [logs for logs in self.logs if "discrimloss/k_dyn" in logs]


def recorded(directory: Path, number: int = 6, **options: Any) -> tuple[DiscrimTrainer, Recorder]:
    ours = {
        name: options.pop(name)
        for name in ("steps_per_iteration", "discrimloss")
        if name in options
    }
    recorder = Recorder()
    trainer = DiscrimTrainer(
        model=bert(BertForSequenceClassification),
        args=arguments(directory, **options),
        train_dataset=texts(number),
        callbacks=[recorder],
        **ours,
    )
    recorder.trainer = trainer
    return trainer, recorder


@pytest.mark.parametrize(
    ("options", "epochs", "seen"),
    [
        ({"num_train_epochs": 3}, 3, [1, 1, 2, 2, 3, 3]),
        ({"num_train_epochs": 1.5}, 2, [1, 1, 2]),
        ({"max_steps": 5}, 3, [1, 1, 2, 2, 3]),
        ({"max_steps": 5, "gradient_accumulation_steps": 2}, 5, [1, 2, 3, 4, 5]),
        ({"max_steps": 7, "steps_per_iteration": 3}, 3, [1, 1, 1, 2, 2, 2, 3]),
        ({"num_train_epochs": 2, "steps_per_iteration": 1}, 4, [1, 2, 3, 4]),
        ({"num_train_epochs": 2, "discrimloss": {"epochs": 9}}, 9, [1, 1, 2, 2]),
    ],
)
def test_epochs_count_from_one(
    tmp_path: Path, options: dict[str, Any], epochs: int, seen: list[int]
) -> None:
    trainer, recorder = recorded(tmp_path, **options)
    trainer.train()
    assert trainer.criterion.epochs == epochs
    assert recorder.epochs == seen


def test_what_was_found_is_logged_when_an_epoch_ends(tmp_path: Path) -> None:
    trainer, recorder = recorded(tmp_path, num_train_epochs=2, logging_strategy="epoch")
    trainer.train()
    logs = recorder.of_samples()
    assert [values["step"] for values in logs] == [2, 4]
    assert logs[-1]["discrimloss/k_dyn"] == trainer.criterion.k_dyn
    verdicts = trainer.criterion.verdicts()
    assert logs[-1].get("discrimloss/noise_estimate") == verdicts.noise_rate
    for label, number in verdicts.counts.items():
        assert logs[-1][f"discrimloss/share_{label}"] == pytest.approx(number / 6)
    # What the Trainer logs itself does not get lost over it.
    assert [values["step"] for values in recorder.logs if "loss" in values] == [2, 4]


def test_what_was_found_is_logged_when_an_iteration_ends(tmp_path: Path) -> None:
    trainer, recorder = recorded(tmp_path, max_steps=11, steps_per_iteration=5)
    trainer.train()
    assert [values["step"] for values in recorder.of_samples()] == [5, 10, 11]


def test_trackers_get_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    trainer, _ = recorded(tmp_path, report_to=["tensorboard"])
    trainer.train()
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    seen = [(event.step, event.value) for event in events.Scalars("train/discrimloss/k_dyn")]
    assert [step for step, _ in seen] == [2, 4]
    assert seen[-1][1] == pytest.approx(trainer.criterion.k_dyn)


RESUMED = {
    "optim": "adamw_torch",
    "learning_rate": 0.01,
    "lr_scheduler_type": "linear",
    "num_train_epochs": 3,
    "train_sampling_strategy": "random",
    "gradient_accumulation_steps": 2,
    "save_strategy": "steps",
    "save_steps": 1,
}


@pytest.mark.parametrize(  # within an epoch, at the end of one, and within an iteration
    ("stopped_at", "ours"), [(4, {}), (6, {}), (5, {"steps_per_iteration": 2})]
)
def test_a_resumed_run_ends_as_one_that_was_not_interrupted(
    tmp_path: Path, stopped_at: int, ours: dict[str, Any]
) -> None:
    def trainer() -> DiscrimTrainer:
        model = bert(BertForSequenceClassification)
        model.dropout.p = 0.2  # the random state is resumed as well
        args = arguments(tmp_path / "run", **RESUMED)
        return DiscrimTrainer(model=model, args=args, train_dataset=texts(21), **ours)

    whole = trainer()
    whole.train()
    assert whole.state.global_step == 9
    for checkpoint in (tmp_path / "run").glob("checkpoint-*"):
        if int(checkpoint.name.partition("-")[2]) > stopped_at:
            shutil.rmtree(checkpoint)
    resumed = trainer()
    resumed.train(resume_from_checkpoint=True)
    assert_same_state(resumed.criterion, whole.criterion)
    torch.testing.assert_close(resumed.model.state_dict(), whole.model.state_dict(), rtol=0, atol=0)


def test_a_second_run_starts_anew_and_a_given_criterion_goes_on(tmp_path: Path) -> None:
    trainer, _ = recorded(tmp_path, num_train_epochs=1)
    trainer.train()
    first = trainer.criterion
    trainer.train()
    assert trainer.criterion is not first
    assert trainer.criterion.table.visits.tolist() == [1] * 6
    criterion = DiscrimLoss(6, 2)
    trainer, _ = recorded(tmp_path, num_train_epochs=1, discrimloss=criterion)
    trainer.train()
    trainer.train()
    assert criterion.table.visits.tolist() == [2] * 6


def test_a_checkpoint_without_sample_state_is_refused(tmp_path: Path) -> None:
    args = arguments(tmp_path, num_train_epochs=1, save_strategy="epoch")
    model = bert(BertForSequenceClassification)
    Trainer(model=model, args=args, train_dataset=texts(6)).train()
    trainer = DiscrimTrainer(model=model, args=args, train_dataset=texts(6))
    with pytest.raises(ValueError, match=r"no discrimloss\S+ in .*checkpoint-2: resume from a che"):
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(texts(4))


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"train_dataset": Stream()}, ValueError, "Stream have no positions: pass sample_id"),
        ({"compute_loss_func": print}, ValueError, "compute_loss_func returns one loss for a batc"),
        ({"discrimloss": "ema"}, TypeError, "a DiscrimLoss or a mapping of its options, not str"),
        ({"discrimloss": {"reduction": "sum"}}, ValueError, "must be 'mean', not 'sum'"),
        ({"discrimloss": DiscrimLoss(9, 2, reduction="none")}, ValueError, "'mean', not 'none'"),
        ({"discrimloss": {"ids": SampleIds()}}, ValueError, "with ids needs sample_id"),
        (
            {"discrimloss": DiscrimLoss(4, 2), "sample_id": "note"},
            ValueError,
            r"ids=SampleIds\(\)",
        ),
        ({"steps_per_iteration": 0}, ValueError, "steps_per_iteration"),
        (
            {"discrimloss": {"num_classes": 3}, "class_aware": False},
            ValueError,
            "class_aware=False is for a DiscrimLoss without targets",
        ),
    ],
)
def test_what_cannot_work_is_refused_at_once(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    common = {"model": bert(BertForSequenceClassification), "train_dataset": texts(4)}
    with pytest.raises(error, match=sentence):
        DiscrimTrainer(**{**common, "args": arguments(tmp_path, max_steps=2), **options})


def test_a_criterion_without_room_is_refused(tmp_path: Path) -> None:
    trainer, _ = recorded(tmp_path, discrimloss=DiscrimLoss(5, 2))
    with pytest.raises(ValueError, match="for 5 samples, but the training data has 6: build it"):
        trainer.train()


def test_batches_without_an_index_are_refused(tmp_path: Path) -> None:
    class OwnLoader(DiscrimTrainer):
        def get_train_dataloader(self) -> Any:
            return Trainer.get_train_dataloader(self)

    args, model = arguments(tmp_path), bert(BertForSequenceClassification)
    with pytest.raises(ValueError, match="a training batch has no index of its samples"):
        OwnLoader(model=model, args=args, train_dataset=texts(4)).train()


# Pinned memory is the Trainer's default, and torch minds it where there is no GPU.
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")
def test_the_documentation_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "huggingface.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, {"__name__": "documentation"})
    assert sorted(path.name for path in tmp_path.glob("out/*/discrimloss*")) == [STATE_FILE] * 3
