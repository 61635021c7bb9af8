"""Lightning: the same numbers as a plain loop, also accumulated, resumed and in two processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning_runs
import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning_runs import (
    EPOCHS,
    MANY,
    SAMPLES,
    ClassModel,
    PredictingModel,
    SmallModel,
    ValidatedModel,
    class_dataset,
    quiet_trainer,
    small_dataset,
    small_loader,
)
from state_comparison import assert_same_state, state_of
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Subset, TensorDataset
from torchrun import GLOO

import discrimloss
from discrimloss import DiscrimLoss
from discrimloss.integrations.lightning import DiscrimLossCallback

pytestmark = [
    # Advice about the speed of loading, which depends on the machine.
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    # Lightning 2.6 asks torch 2.13 in a way that the latter will give up.
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated"),
]


def fit(**settings: Any) -> tuple[SmallModel, DiscrimLossCallback]:
    model, callback = SmallModel(), DiscrimLossCallback(log_every=0)
    quiet_trainer(callback, **settings).fit(model, small_loader())
    return model, callback


def plain_loop(accumulated: int = 1, epochs: int = EPOCHS) -> tuple[SmallModel, DiscrimLoss]:
    """What Lightning should do, in PyTorch alone."""
    model, criterion = SmallModel(), DiscrimLoss(num_samples=SAMPLES, epochs=epochs)
    optimizer = model.configure_optimizers()
    for epoch in range(1, epochs + 1):
        criterion.set_epoch(epoch)
        for step, batch in enumerate(small_loader(), start=1):
            (criterion(model.losses(batch), batch[-1]) / accumulated).backward()
            if step % accumulated == 0:
                optimizer.step()
                optimizer.zero_grad()
    return model, criterion


def assert_same_weights(model: SmallModel, expected: SmallModel) -> None:
    torch.testing.assert_close(model.state_dict(), expected.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("accumulated", [1, 2])
def test_a_run_equals_a_plain_loop(accumulated: int) -> None:
    model, callback = fit(accumulate_grad_batches=accumulated)
    expected_model, expected = plain_loop(accumulated)
    assert_same_state(callback.criterion, expected)
    assert_same_weights(model, expected_model)
    assert callback.criterion.epoch == EPOCHS


def test_a_criterion_of_ones_own_and_options() -> None:
    own = DiscrimLoss(num_samples=SAMPLES, epochs=EPOCHS)
    quiet_trainer(DiscrimLossCallback(own, log_every=0)).fit(SmallModel(), small_loader())
    assert_same_state(own, plain_loop()[1])

    callback = DiscrimLossCallback(num_samples=50, epochs=9, switch_gain=0.5, log_every=0)
    quiet_trainer(callback).fit(SmallModel(), small_loader())
    assert (callback.criterion.num_samples, callback.criterion.epochs) == (50, 9)
    assert callback.criterion.hyperparameters.switch_gain == 0.5


def test_samples_known_by_name(tmp_path: Path) -> None:
    def named() -> DiscrimLossCallback:
        criterion = DiscrimLoss(ids=discrimloss.SampleIds(), epochs=EPOCHS)
        return DiscrimLossCallback(criterion, log_every=0)

    first = named()
    trainer = quiet_trainer(first, max_epochs=2)
    trainer.fit(SmallModel(), small_loader())
    trainer.save_checkpoint(tmp_path / "named.ckpt")
    resumed = named()
    quiet_trainer(resumed).fit(SmallModel(), small_loader(), ckpt_path=tmp_path / "named.ckpt")
    expected = plain_loop()[1]
    assert torch.equal(resumed.criterion.average_losses, expected.average_losses)
    assert torch.equal(resumed.criterion.sample_weights, expected.sample_weights)


def test_half_precision_keeps_the_state_in_full() -> None:
    model, callback = fit(precision="bf16-mixed")
    _, expected = plain_loop()
    assert callback.criterion.table.history.dtype == torch.float32
    torch.testing.assert_close(
        callback.criterion.average_losses, expected.average_losses, rtol=0.05, atol=0.05
    )
    assert model.layer.weight.isfinite().all()


def test_a_subset_keeps_the_index_of_the_whole() -> None:
    callback = DiscrimLossCallback(log_every=0)
    loader = DataLoader(Subset(small_dataset(), range(10, 20)), batch_size=5)
    quiet_trainer(callback).fit(SmallModel(), loader)
    assert callback.criterion.num_samples == SAMPLES
    assert callback.criterion.table.visits.nonzero().flatten().tolist() == list(range(10, 20))


def test_epochs_follow_from_steps() -> None:
    callback = DiscrimLossCallback(log_every=0)
    trainer = quiet_trainer(callback, max_epochs=-1, max_steps=7, accumulate_grad_batches=2)
    trainer.fit(SmallModel(), small_loader())  # 4 batches, so 2 steps an epoch
    assert callback.criterion.epochs == 4


class Optimized(Callback):
    """Looks at what Lightning keeps of the model."""

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        groups = trainer.optimizers[0].param_groups
        self.shapes = [tuple(value.shape) for group in groups for value in group["params"]]


def test_the_samples_are_no_part_of_the_model(tmp_path: Path) -> None:
    model, callback, looks_on = SmallModel(), DiscrimLossCallback(log_every=0), Optimized()
    trainer = quiet_trainer(callback, looks_on)
    trainer.fit(model, small_loader())
    assert looks_on.shapes == [(1, 3), (1,)]
    trainer.save_checkpoint(tmp_path / "end.ckpt")
    saved = torch.load(tmp_path / "end.ckpt", weights_only=True)
    assert list(saved["state_dict"]) == ["layer.weight", "layer.bias"]
    assert list(saved["callbacks"]) == ["DiscrimLossCallback"]


@pytest.mark.usefixtures("quick_verdicts")
def test_what_is_logged() -> None:
    callback = DiscrimLossCallback(log_every=2)
    trainer = quiet_trainer(callback)
    trainer.fit(SmallModel(), small_loader())
    verdicts = callback.verdicts()
    expected = {
        "discrimloss/k_dyn": callback.criterion.k_dyn,
        **{f"discrimloss/share_{k}": n / SAMPLES for k, n in verdicts.counts.items()},
    }
    assert verdicts.noise_rate is None  # too few samples to tell
    assert trainer.logged_metrics == pytest.approx(expected)

    odd = quiet_trainer(DiscrimLossCallback(log_every=3), max_epochs=2)
    odd.fit(SmallModel(), small_loader())
    assert odd.logged_metrics == {}


def test_validation_sees_the_task_loss_and_teaches_nothing() -> None:
    model, callback = ValidatedModel(), DiscrimLossCallback(log_every=0)
    trainer = quiet_trainer(callback, val_check_interval=2)  # within the epochs, and a check before
    trainer.fit(model, small_loader(), small_loader(SAMPLES))
    assert_same_state(callback.criterion, plain_loop()[1])
    before = state_of(callback.criterion)
    figures = trainer.validate(model, small_loader(SAMPLES), verbose=False)
    alone = quiet_trainer().validate(model, small_loader(SAMPLES), verbose=False)  # no callback
    with torch.no_grad():
        expected = float(model.losses(next(iter(small_loader(SAMPLES)))).mean())
    assert figures[0]["valid_loss"] == alone[0]["valid_loss"] == pytest.approx(expected)
    assert_same_state(callback.criterion, before)


# A run that goes on finds the checkpoints of the earlier one, as it should.
@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
def test_resumed_after_an_epoch_as_if_never_stopped(tmp_path: Path) -> None:
    model, callback = SmallModel(), DiscrimLossCallback(log_every=0)
    keeper = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1)
    trainer = quiet_trainer(callback, keeper, enable_checkpointing=True)
    trainer.fit(model, small_loader())

    resumed_model, resumed = SmallModel(), DiscrimLossCallback(log_every=0)
    keeper = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1)
    trainer = quiet_trainer(resumed, keeper, enable_checkpointing=True)
    trainer.fit(resumed_model, small_loader(), ckpt_path=tmp_path / "epoch=1.ckpt")
    assert trainer.global_step == 4 * EPOCHS
    assert_same_state(resumed.criterion, callback.criterion)
    assert_same_weights(resumed_model, model)


class ResumableLoader(DataLoader[Any]):
    """Goes on after the batches it has handed out, which Lightning leaves to the loader."""

    def __init__(self) -> None:
        super().__init__(small_dataset(), batch_size=12)
        self.handed_out = 0

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        skipped = self.handed_out % len(self)
        batches = list(super().__iter__())[skipped:]
        for self.handed_out, batch in enumerate(batches, start=skipped + 1):
            yield batch

    def state_dict(self) -> dict[str, int]:
        return {"handed_out": self.handed_out}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.handed_out = state["handed_out"]


class SavesWithin(Callback):
    """A checkpoint in the middle of the third epoch."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
        if trainer.global_step == 10:
            trainer.save_checkpoint(self.path)


def test_resumed_within_an_epoch_as_if_never_stopped(tmp_path: Path) -> None:
    model, callback = SmallModel(), DiscrimLossCallback(log_every=0)
    trainer = quiet_trainer(callback, SavesWithin(tmp_path / "within.ckpt"))
    trainer.fit(model, ResumableLoader())

    resumed_model, resumed = SmallModel(), DiscrimLossCallback(log_every=0)
    trainer = quiet_trainer(resumed)
    trainer.fit(resumed_model, ResumableLoader(), ckpt_path=tmp_path / "within.ckpt")
    assert trainer.global_step == 4 * EPOCHS
    assert_same_state(resumed.criterion, callback.criterion)
    assert_same_weights(resumed_model, model)


@pytest.mark.usefixtures("quick_verdicts")
def test_verdicts_from_a_checkpoint_alone() -> None:
    callback = fit()[1]
    saved = callback.state_dict()
    restored = DiscrimLossCallback()
    with pytest.raises(ValueError, match="no criterion yet"):
        restored.verdicts()
    assert restored.state_dict() == {}
    restored.load_state_dict(saved)
    assert restored.criterion.epochs == EPOCHS
    assert restored.verdicts().code.tolist() == callback.verdicts().code.tolist()


def test_fit_again_goes_on_and_another_trainer_starts_over() -> None:
    model, callback = SmallModel(), DiscrimLossCallback(epochs=4, log_every=0)
    trainer = quiet_trainer(callback, max_epochs=2)
    trainer.fit(model, small_loader())
    trainer.fit_loop.max_epochs = 4
    trainer.fit(model, small_loader())
    assert callback.criterion.epoch == 4
    assert callback.criterion.table.visits.unique().tolist() == [4]

    quiet_trainer(callback).fit(SmallModel(), small_loader())
    assert_same_state(callback.criterion, plain_loop()[1])


@pytest.mark.filterwarnings("ignore:epoch 2 begins, but")
def test_data_that_was_appended_since_the_checkpoint(tmp_path: Path) -> None:
    first = DiscrimLossCallback(log_every=0)
    trainer = quiet_trainer(first, max_epochs=1)
    part = discrimloss.IndexedDataset(TensorDataset(*small_dataset().dataset[:24]))
    trainer.fit(SmallModel(), DataLoader(part, batch_size=12))
    trainer.save_checkpoint(tmp_path / "part.ckpt")
    grown = DiscrimLossCallback(log_every=0)
    trainer = quiet_trainer(grown, max_epochs=2)
    trainer.fit(SmallModel(), small_loader(), ckpt_path=tmp_path / "part.ckpt")
    assert grown.criterion.table.visits.tolist() == [2] * 24 + [1] * 20


def test_sentences() -> None:
    with pytest.raises(ValueError, match="trainer has no DiscrimLossCallback"):
        quiet_trainer().fit(SmallModel(), small_loader())
    with pytest.raises(ValueError, match=r"wrap the dataset in discrimloss\.IndexedDataset"):
        quiet_trainer(DiscrimLossCallback()).fit(SmallModel(), list(small_loader()))
    with pytest.raises(ValueError, match=r"DiscrimLossCallback\(epochs=…\)"):
        quiet_trainer(DiscrimLossCallback(), max_epochs=-1).fit(SmallModel(), small_loader())
    with pytest.raises(IndexError, match="num_samples=10, so valid indices are 0 to 9"):
        quiet_trainer(DiscrimLossCallback(num_samples=10)).fit(SmallModel(), small_loader())
    with pytest.raises(ValueError, match="not both"):
        DiscrimLossCallback(DiscrimLoss(4, 4), epochs=4)
    with pytest.raises(ValueError, match="to use ids, pass a criterion"):
        DiscrimLossCallback(ids=discrimloss.SampleIds())
    with pytest.raises(TypeError, match="must be a DiscrimLoss, not int"):
        DiscrimLossCallback(44)  # type: ignore[arg-type]


# ---------------------------------------------------------- targets and predictions


def class_loader(number: int = SAMPLES, batch_size: int = 12) -> DataLoader[Any]:
    return DataLoader(class_dataset(number), batch_size=batch_size)


def fit_classes(with_logits: bool = True, **options: Any) -> DiscrimLossCallback:
    callback = DiscrimLossCallback(log_every=0, **options)
    quiet_trainer(callback).fit(ClassModel(with_logits), class_loader())
    return callback


def test_a_run_with_predictions_equals_a_plain_loop() -> None:
    model, callback = ClassModel(), DiscrimLossCallback(log_every=0)
    quiet_trainer(callback).fit(model, class_loader())
    expected, criterion = ClassModel(), DiscrimLoss(SAMPLES, EPOCHS, num_classes=3)
    optimizer = expected.configure_optimizers()
    for epoch in range(1, EPOCHS + 1):
        criterion.set_epoch(epoch)
        for x, y, index in class_loader():
            logits = expected.layer(x)
            losses = cross_entropy(logits, y, reduction="none")
            criterion(losses, index, target=y, logits=logits).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert_same_state(callback.criterion, criterion)
    torch.testing.assert_close(model.state_dict(), expected.state_dict(), rtol=0, atol=0)
    assert criterion.table.has_column("predicted_class")


def test_regression_targets_and_predictions() -> None:
    callback = DiscrimLossCallback(log_every=0)
    quiet_trainer(callback).fit(PredictingModel(), small_loader())
    assert callback.criterion.label_options == {"task": "regression"}
    assert callback.criterion.table.has_column("mean_prediction")


def test_the_switches() -> None:
    for options in ({"predictions": False}, {"with_logits": False, "num_classes": 3}):
        criterion = fit_classes(**options).criterion
        assert criterion.label_options == {"num_classes": 3}
        assert not criterion.table.has_column("predicted_class")
    assert fit_classes(class_aware=False).criterion.labels is None
    assert fit_classes(variant="released").criterion.labels is None
    assert fit_classes(criterion=DiscrimLoss(SAMPLES, EPOCHS)).criterion.labels is None
    own = DiscrimLoss(SAMPLES, EPOCHS, num_classes=3)
    assert fit_classes(criterion=own).criterion.table.has_column("predicted_class")
    with pytest.raises(ValueError, match="class_aware=False is for a DiscrimLoss without targets"):
        DiscrimLossCallback(own, class_aware=False)
    with pytest.raises(ValueError, match="number of classes is unknown: pass logits"):
        fit_classes(with_logits=False)
    with pytest.raises(ValueError, match="num_classes=3, but a batch does not have exactly one"):
        quiet_trainer(DiscrimLossCallback(num_classes=3)).fit(SmallModel(), small_loader())


# A run that goes on finds the checkpoints of the earlier one, as it should.
@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
def test_resumed_with_predictions_as_if_never_stopped(tmp_path: Path) -> None:
    def run(**resumed: Any) -> tuple[ClassModel, DiscrimLoss]:
        model, callback = ClassModel(), DiscrimLossCallback(log_every=0)
        keeper = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1)
        trainer = quiet_trainer(callback, keeper, max_epochs=8, enable_checkpointing=True)
        trainer.fit(model, class_loader(MANY, 60), **resumed)
        return model, callback.criterion

    model, criterion = run()
    assert int((criterion.table.role == 2).sum()) > 0  # held out
    resumed_model, resumed = run(ckpt_path=tmp_path / "epoch=2.ckpt")
    assert_same_state(resumed, criterion)
    torch.testing.assert_close(resumed_model.state_dict(), model.state_dict(), rtol=0, atol=0)


def test_a_resumed_run_keeps_the_form_of_its_checkpoint() -> None:
    forms = {"paper": {"class_aware": False}, "targets": {"predictions": False}, "all": {}}
    saved = {name: fit_classes(**switches).state_dict() for name, switches in forms.items()}

    def restored(name: str, **options: Any) -> DiscrimLoss:
        callback = DiscrimLossCallback(**options)
        callback.load_state_dict(saved[name])
        return callback.criterion

    assert restored("paper").labels is None
    assert not restored("targets").table.has_column("predicted_class")
    assert restored("all").table.has_column("predicted_class")
    with pytest.raises(ValueError, match="the saved run used targets, but class_aware=False"):
        restored("targets", class_aware=False)
    with pytest.raises(ValueError, match="the saved run used predictions, but predictions=False"):
        restored("all", predictions=False)
    with pytest.raises(ValueError, match="build it without num_classes and task"):
        restored("paper", num_classes=3)


def run_program(program: Path, directory: Path) -> None:
    source = Path(discrimloss.__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, str(program), str(directory)],
        env={**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]


@pytest.mark.slow
def test_the_other_name_of_the_library(tmp_path: Path) -> None:
    text = Path(lightning_runs.__file__).read_text()
    program = tmp_path / "other_name.py"
    text = text.replace("import lightning\n", "import pytorch_lightning as lightning\n")
    program.write_text(text.replace('strategy="ddp", devices=2', "max_steps=-1"))
    run_program(program, tmp_path)
    ended = torch.load(tmp_path / "0.pt")
    assert ended["criterion"]["table.visits"].sum() == SAMPLES // 2 * EPOCHS  # one of two halves
    assert "discrimloss/k_dyn" in ended["logged"]


@pytest.mark.skipif(not GLOO, reason="torch has no gloo here")
def test_two_processes_equal_one_with_the_double_batch(tmp_path: Path) -> None:
    run_program(Path(lightning_runs.__file__), tmp_path)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)  # what was logged, too
    assert "discrimloss/k_dyn" in first["logged"]

    model, callback = fit()
    torch.testing.assert_close(first["criterion"], state_of(callback.criterion))
    torch.testing.assert_close(first["model"], model.state_dict())

    first, second = (torch.load(tmp_path / f"classes-{rank}.pt") for rank in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    classes, alone = ClassModel(), DiscrimLossCallback(log_every=0)
    # Every other sample goes to the other process, so that batches of both are batches of one.
    quiet_trainer(alone, max_epochs=8).fit(classes, class_loader(MANY, 60))
    torch.testing.assert_close(first["criterion"], state_of(alone.criterion))
    torch.testing.assert_close(first["model"], classes.state_dict())
