"""skorch: the same numbers as a plain loop, whatever skorch and scikit-learn do to a net."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from skorch import NeuralNet, NeuralNetClassifier
from skorch.callbacks import Checkpoint, EpochScoring, LoadInitState, TrainEndCheckpoint
from skorch.dataset import ValidSplit
from state_comparison import assert_same_state, state_of
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import DataLoader, Subset, TensorDataset, default_collate

from discrimloss import DiscrimLoss, SampleIds
from discrimloss.integrations.skorch import (
    DiscrimNetBinaryClassifier,
    DiscrimNetClassifier,
    DiscrimNetMixin,
    DiscrimNetRegressor,
)

EPOCHS = 4
generator = np.random.default_rng(0)
X = generator.normal(size=(50, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64) + (X[:, 1] > 0.5)
Y[::6] = (Y[::6] + 1) % 3  # the wrong labels


class SmallModule(nn.Module):
    def __init__(self, outputs: int = 3) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(3, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


SETTINGS: dict[str, Any] = {"max_epochs": EPOCHS, "lr": 0.1, "batch_size": 16, "verbose": 0}


def small_net(**settings: Any) -> DiscrimNetClassifier:
    defaults = {"criterion": nn.CrossEntropyLoss, "train_split": None, **SETTINGS}
    return DiscrimNetClassifier(SmallModule, **{**defaults, **settings})


def plain_loop(
    rows: Any = None, *, with_labels: bool = True, **options: Any
) -> tuple[SmallModule, DiscrimLoss]:
    """What the net should do, in PyTorch alone."""
    defaults = {"epochs": EPOCHS, "num_classes": 3 if with_labels else None}
    model, criterion = SmallModule(), DiscrimLoss(len(X), **{**defaults, **options})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = torch.arange(len(X)) if rows is None else torch.as_tensor(rows)
    for epoch in range(1, EPOCHS + 1):
        criterion.set_epoch(epoch)
        for index in rows.split(16):
            logits, target = model(torch.tensor(X)[index]), torch.tensor(Y)[index]
            losses = cross_entropy(logits, target, reduction="none")
            labels = {"target": target, "logits": logits} if with_labels else {}
            optimizer.zero_grad()
            criterion(losses, index, **labels).backward()
            optimizer.step()
    return model, criterion


def assert_same_weights(net: NeuralNet, expected: nn.Module) -> None:
    torch.testing.assert_close(net.module_.state_dict(), expected.state_dict(), rtol=0, atol=0)


@pytest.mark.usefixtures("quick_verdicts")
def test_a_run_equals_a_plain_loop() -> None:
    net = small_net().fit(X, Y)
    model, criterion = plain_loop()
    assert criterion.table.has_column("predicted_class")
    assert_same_state(net.discrimloss_, criterion)
    assert_same_weights(net, model)
    assert net.verdicts().code.tolist() == criterion.verdicts().code.tolist()


def test_options_and_epochs_of_ones_own() -> None:
    net = small_net(discrimloss__switch_gain=0.5, discrimloss__epochs=9).fit(X, Y)
    assert_same_state(net.discrimloss_, plain_loop(switch_gain=0.5, epochs=9)[1])


def test_options_set_later_start_the_samples_over() -> None:
    net = small_net().fit(X, Y).set_params(discrimloss__switch_gain=0.5)
    assert net.discrimloss_.hyperparameters.switch_gain == 0.5
    assert int(net.discrimloss_.table.visits.max()) == 0
    assert net.get_params()["discrimloss__switch_gain"] == 0.5
    net.fit(X, Y)
    assert_same_state(net.discrimloss_, plain_loop(switch_gain=0.5)[1])


@pytest.mark.usefixtures("quick_verdicts")
def test_rows_kept_for_validation_are_unseen() -> None:
    split = ValidSplit(5, stratified=True)
    net = small_net(train_split=split).fit(X, Y)
    train, valid = split(TensorDataset(torch.tensor(X)), Y)
    model, criterion = plain_loop(train.indices)
    assert_same_state(net.discrimloss_, criterion)
    assert_same_weights(net, model)
    assert np.flatnonzero(net.verdicts().label == "unseen").tolist() == valid.indices.tolist()


def test_validation_and_prediction_are_those_of_the_plain_net() -> None:
    weight = torch.tensor([1.0, 2.0, 3.0])  # whose mean is not the mean of the losses
    settings = {"criterion__weight": weight, "train_split": ValidSplit(5, stratified=True)}
    net = small_net(**settings).fit(X, Y)
    _, valid = net.train_split(TensorDataset(torch.tensor(X)), Y)
    plain = NeuralNetClassifier(
        net.module_, criterion=nn.CrossEntropyLoss, criterion__weight=weight, **SETTINGS
    ).initialize()
    with torch.no_grad():
        rows = torch.tensor(valid.indices)
        output, target = net.module_(torch.tensor(X)[rows]), torch.tensor(Y)[rows]
        assert net.history[-1, "valid_loss"] == pytest.approx(
            float(cross_entropy(output, target, weight=weight))
        )
    np.testing.assert_array_equal(net.predict_proba(X), plain.predict_proba(X))
    np.testing.assert_allclose(net.predict_proba(X).sum(1), 1, rtol=1e-6)  # softmax was inferred
    before = state_of(net.discrimloss_)
    net.score(X, Y)
    net.forward(X[:5], training=True)  # with dropout, say
    assert_same_state(net.discrimloss_, before)


def test_no_sample_state_in_the_optimizer() -> None:
    for options in ({}, {"discrimloss__variant": "released"}):
        net = small_net(optimizer=torch.optim.Adam, **options).fit(X, Y)
        shapes = [tuple(p.shape) for group in net.optimizer_.param_groups for p in group["params"]]
        assert shapes == [(3, 3), (3,)]
        assert len(net.optimizer_.state) == 2


def test_checkpoints_of_skorch_hold_the_state(tmp_path: Path) -> None:
    whole = small_net().fit(X, Y)
    for _ in range(2):  # the same program, twice
        at_end = TrainEndCheckpoint(dirname=str(tmp_path))
        resumed = small_net(
            max_epochs=2,
            discrimloss__epochs=EPOCHS,
            callbacks=[at_end, LoadInitState(at_end)],
        ).fit(X, Y)
    assert_same_state(resumed.discrimloss_, whole.discrimloss_)
    assert_same_weights(resumed, whole.module_)

    best = Checkpoint(monitor="train_loss_best", dirname=str(tmp_path / "best"))
    kept = small_net(callbacks=[best]).fit(X, Y)
    loaded = small_net().initialize()
    loaded.load_params(checkpoint=best)
    assert loaded.discrimloss_.num_samples == len(X)
    assert loaded.discrimloss_.epoch == kept.history[-1, "epoch"]


def test_saved_params_and_pickles_hold_the_state(tmp_path: Path) -> None:
    net = small_net().fit(X, Y)
    net.save_params(f_criterion=tmp_path / "criterion.pt")
    loaded = small_net().initialize()
    loaded.load_params(f_criterion=tmp_path / "criterion.pt")
    assert_same_state(loaded.discrimloss_, net.discrimloss_)
    assert_same_state(pickle.loads(pickle.dumps(net)).discrimloss_, net.discrimloss_)


def test_clone_and_fit_start_over() -> None:
    net = small_net(discrimloss__switch_gain=0.5).fit(X, Y)
    expected = state_of(net.discrimloss_)
    copied = clone(net)
    assert copied.get_params()["discrimloss__switch_gain"] == 0.5
    assert not copied.initialized_
    assert_same_state(copied.fit(X, Y).discrimloss_, expected)
    assert_same_state(net.fit(X, Y).discrimloss_, expected)
    net.fit(X[:20], Y[:20])
    assert net.discrimloss_.num_samples == 20


def test_a_criterion_given_as_an_instance_is_not_shared() -> None:
    task_loss = nn.CrossEntropyLoss()
    first, second = (small_net(criterion=task_loss).fit(X, Y) for _ in range(2))
    assert first.discrimloss_ is not second.discrimloss_
    assert_same_state(first.discrimloss_, second.discrimloss_)
    assert list(task_loss.children()) == []
    assert task_loss.reduction == first.criterion_.reduction == "mean"


@pytest.mark.filterwarnings("ignore:epoch 5 begins, but")
def test_partial_fit_goes_on() -> None:
    net = small_net(max_epochs=2, discrimloss__epochs=EPOCHS)
    net.partial_fit(X, Y).partial_fit(X, Y)
    assert_same_state(net.discrimloss_, plain_loop()[1])
    more = np.concatenate([X, X[:10]]), np.concatenate([Y, Y[:10]])
    net.partial_fit(*more)
    assert net.discrimloss_.epoch == 6
    assert net.discrimloss_.table.visits.tolist() == [6] * 50 + [2] * 10
    with pytest.raises(
        ValueError, match="trained on 60 samples, but this data has 50: continue with the same"
    ):
        net.partial_fit(X, Y)


def test_warm_start_goes_on() -> None:
    net = small_net(max_epochs=2, discrimloss__epochs=EPOCHS, warm_start=True)
    net.fit(X, Y).fit(X, Y)
    assert_same_state(net.discrimloss_, plain_loop()[1])


def test_grid_search_and_cross_validation() -> None:
    search = GridSearchCV(
        small_net(max_epochs=2),
        {"discrimloss__switch_gain": [0.1, 0.5], "lr": [0.1]},
        cv=3,
        scoring="accuracy",
        error_score="raise",
    ).fit(X, Y)
    best = search.best_estimator_
    assert best.discrimloss_.num_samples == 50
    assert (
        best.discrimloss_.hyperparameters.switch_gain
        == search.best_params_["discrimloss__switch_gain"]
    )
    scores = cross_val_score(small_net(max_epochs=2), X, Y, cv=3, error_score="raise")
    assert len(scores) == 3


def test_callbacks_see_pairs() -> None:
    scored = [
        EpochScoring(
            "accuracy", on_train=True, name=name, lower_is_better=False, use_caching=caching
        )
        for name, caching in (("cached", True), ("again", False))
    ]
    net = small_net(callbacks=scored, max_epochs=1).fit(X, Y)
    assert net.history[-1, "again"] == net.score(X, Y)
    assert 0 <= net.history[-1, "cached"] <= 1


def reversed_rows(samples: list[Any]) -> list[Tensor]:
    return default_collate([(x.flip(0), y) for x, y in samples])


def test_datasets_and_collate_functions_of_ones_own() -> None:
    flipped = TensorDataset(torch.tensor(X).flip(1), torch.tensor(Y))
    net = small_net(iterator_train__collate_fn=reversed_rows, iterator_train__num_workers=1)
    assert_same_state(net.fit(flipped, None).discrimloss_, plain_loop()[1])
    part = small_net().fit(
        Subset(TensorDataset(torch.tensor(X), torch.tensor(Y)), list(range(8))), None
    )
    assert part.discrimloss_.num_samples == 50
    assert part.discrimloss_.table.visits.nonzero().flatten().tolist() == list(range(8))


def test_regression_and_binary_classification() -> None:
    target = X @ np.array([[1.0], [-1.0], [0.5]], dtype=np.float32)
    model, criterion = SmallModule(1), DiscrimLoss(len(X), EPOCHS, task="regression")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(1, EPOCHS + 1):
        criterion.set_epoch(epoch)
        optimizer.zero_grad()
        output, given = model(torch.tensor(X)).squeeze(1), torch.tensor(target).squeeze(1)
        losses = mse_loss(output, given, reduction="none")
        criterion(losses, torch.arange(len(X)), target=given, predictions=output).backward()
        optimizer.step()
    settings = {**SETTINGS, "batch_size": -1, "train_split": None, "module__outputs": 1}
    net = DiscrimNetRegressor(SmallModule, **settings).fit(X, target)
    assert_same_state(net.discrimloss_, criterion)
    assert_same_weights(net, model)

    twice = np.concatenate([target, 2 * target], axis=1)  # the mean of a sample's two errors
    two_outputs = {**settings, "module__outputs": 2, "max_epochs": 1}
    net = DiscrimNetRegressor(SmallModule, **two_outputs).fit(X, twice)
    losses = mse_loss(SmallModule(2)(torch.tensor(X)), torch.tensor(twice), reduction="none")
    torch.testing.assert_close(net.discrimloss_.average_losses, losses.mean(1).detach())
    assert net.discrimloss_.labels is None  # two targets for each sample

    binary = DiscrimNetBinaryClassifier(SmallModule, **settings).fit(X, (Y > 0).astype(np.float32))
    assert binary.predict_proba(X).shape == (50, 2)
    assert binary.discrimloss_.table.visits.unique().tolist() == [EPOCHS]
    assert binary.discrimloss_.label_options == {"num_classes": 2}
    assert binary.discrimloss_.table.target.tolist() == (Y > 0).astype(int).tolist()
    assert binary.discrimloss_.table.has_column("predicted_class")


# ---------------------------------------------------------- targets and predictions


def test_the_switches() -> None:
    without = small_net(discrimloss__predictions=False).fit(X, Y).discrimloss_
    assert without.label_options == {"num_classes": 3}
    assert not without.table.has_column("predicted_class")
    net = small_net(discrimloss__class_aware=False).fit(X, Y)
    model, criterion = plain_loop(with_labels=False)
    assert_same_state(net.discrimloss_, criterion)
    assert_same_weights(net, model)
    assert small_net(discrimloss__variant="released").fit(X, Y).discrimloss_.labels is None
    net.set_params(discrimloss__class_aware=True).fit(X, Y)
    assert_same_state(net.discrimloss_, plain_loop()[1])
    with pytest.raises(ValueError, match="class_aware=False is for a DiscrimLoss without targets"):
        small_net(discrimloss__class_aware=False, discrimloss__num_classes=3).fit(X, Y)


class SmoothCrossEntropy(nn.Module):
    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(output, target, reduction="none", label_smoothing=0.1)


def test_a_criterion_that_nobody_knows_is_left_to_the_loss_of_the_paper() -> None:
    assert small_net(criterion=SmoothCrossEntropy).fit(X, Y).discrimloss_.labels is None
    told = small_net(criterion=SmoothCrossEntropy, discrimloss__num_classes=3).fit(X, Y)
    assert told.discrimloss_.table.target.tolist() == Y.tolist()
    assert not told.discrimloss_.table.has_column("predicted_class")


def test_ignored_labels_do_not_count() -> None:
    some = np.where(np.arange(len(Y)) % 7 == 0, -100, Y)
    net = small_net().fit(X, some)
    expected = np.where(some == -100, 0, EPOCHS)
    assert net.discrimloss_.table.visits.tolist() == expected.tolist()


@pytest.mark.parametrize("switch", [None, "predictions", "class_aware"])
def test_a_resumed_run_ends_as_one_that_was_not_interrupted(
    tmp_path: Path, switch: str | None
) -> None:
    """With enough samples for some of them to be held out."""
    generator = np.random.default_rng(1)
    x = generator.normal(size=(360, 3)).astype(np.float32)
    y = np.where(generator.random(360) < 0.3, generator.integers(3, size=360), x.argmax(1))
    options = {"batch_size": 60, **({} if switch is None else {f"discrimloss__{switch}": False})}
    whole = small_net(max_epochs=10, **options).fit(x, y)
    if switch != "class_aware":
        assert int((whole.discrimloss_.table.role == 2).sum()) > 0
    for _ in range(2):  # the same program, twice
        at_end = TrainEndCheckpoint(dirname=str(tmp_path))
        callbacks = [at_end, LoadInitState(at_end)]
        resumed = small_net(max_epochs=5, discrimloss__epochs=10, callbacks=callbacks, **options)
        resumed.fit(x, y)
    assert_same_state(resumed.discrimloss_, whole.discrimloss_)
    assert_same_weights(resumed, whole.module_)


@pytest.mark.filterwarnings("ignore:epoch 1 begins after epoch")
def test_a_loaded_state_decides_about_the_form(tmp_path: Path) -> None:
    forms = {"paper": {"class_aware": False}, "targets": {"predictions": False}, "all": {}}
    for name, switches in forms.items():
        options = {f"discrimloss__{switch}": value for switch, value in switches.items()}
        small_net(**options).fit(X, Y).save_params(f_criterion=tmp_path / name)

    def gone_on(name: str, **options: Any) -> DiscrimLoss:
        net = small_net(**options).initialize()
        net.load_params(f_criterion=tmp_path / name)
        net.partial_fit(X, Y)
        return net.discrimloss_

    assert gone_on("paper").labels is None
    assert not gone_on("targets").table.has_column("predicted_class")
    assert gone_on("all").table.has_column("predicted_class")
    with pytest.raises(ValueError, match="the saved run used targets, but class_aware=False"):
        gone_on("targets", discrimloss__class_aware=False)
    with pytest.raises(ValueError, match="the saved run used predictions, but predictions=False"):
        gone_on("all", discrimloss__predictions=False)
    with pytest.raises(ValueError, match="build it without num_classes and task"):
        gone_on("paper", discrimloss__num_classes=3)


class BareNet(DiscrimNetMixin, NeuralNet):
    pass


def no_module() -> Any:
    return cross_entropy


class AlreadyReduced(nn.Module):
    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(output, target)


def test_sentences() -> None:
    with pytest.raises(TypeError, match="criterion must be a torch module such as"):
        BareNet(SmallModule, criterion=no_module, **SETTINGS).fit(X, Y)
    with pytest.raises(ValueError, match='compute the task loss with reduction="none"'):
        small_net(criterion=AlreadyReduced).fit(X, Y)
    with pytest.raises(TypeError, match="iterator_train must be a DataLoader, not list"):
        small_net(iterator_train=lambda dataset, batch_size: list(DataLoader(dataset))).fit(X, Y)
    with pytest.raises(ValueError, match="leave out discrimloss__ids"):
        small_net(discrimloss__ids=SampleIds()).fit(X, Y)
    with pytest.raises(ValueError, match="unexpected argument discrimloss_epochs, did you mean"):
        small_net(discrimloss_epochs=3).fit(X, Y)
