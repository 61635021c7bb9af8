"""DiscrimTrainer gives its criterion targets and predictions, where a sample has one of each."""

from pathlib import Path
from typing import Any

import pytest
import torch
from state_comparison import assert_same_state
from tiny_transformers import CLASSES, Sample, arguments, bert, texts, tiny_vit_config
from torch import Tensor
from torch.nn import functional as F
from transformers import (
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertLMHeadModel,
    ViTForImageClassification,
)

from discrimloss import DiscrimLoss
from discrimloss.integrations.transformers import DiscrimTrainer
from discrimloss.state.table import HELD_OUT

pytestmark = pytest.mark.usefixtures("quick_verdicts", "fits_once")


def trained(directory: Path, model: Any, data: list[Sample], **options: Any) -> DiscrimTrainer:
    settings = {"num_train_epochs": 2, **options.pop("settings", {})}
    args = arguments(directory, **settings)
    trainer = DiscrimTrainer(model=model, args=args, train_dataset=data, **options)
    trainer.train()
    return trainer


def classified(directory: Path, **options: Any) -> DiscrimTrainer:
    return trained(directory, bert(BertForSequenceClassification), texts(10), **options)


def labelled(values: list[Any]) -> list[Sample]:
    samples = texts(len(values))
    return [{**s, "labels": value} for s, value in zip(samples, values, strict=True)]


def images() -> list[Sample]:
    torch.manual_seed(0)
    return [{"pixel_values": torch.randn(3, 8, 8), "labels": i % CLASSES} for i in range(6)]


def choices() -> list[Sample]:
    return [
        {"input_ids": s["input_ids"].repeat(4, 1).roll(i, 1), "labels": i % 4}
        for i, s in enumerate(texts(6))
    ]


def test_a_run_with_predictions_is_the_loop_by_hand(tmp_path: Path) -> None:
    data, model = texts(10), bert(BertForSequenceClassification)
    criterion = DiscrimLoss(10, 3, num_classes=CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(1, 4):
        criterion.set_epoch(epoch)
        for index in torch.arange(10).split(4):
            logits = model(input_ids=torch.stack([data[i]["input_ids"] for i in index])).logits
            target = torch.tensor([data[i]["labels"] for i in index])
            losses = F.cross_entropy(logits, target, reduction="none")
            optimizer.zero_grad()
            criterion(losses, index, target=target, logits=logits).backward()
            optimizer.step()
    trainer = classified(tmp_path, settings={"num_train_epochs": 3})
    torch.testing.assert_close(trainer.model.state_dict(), model.state_dict())
    torch.testing.assert_close(trainer.criterion.state_dict(), criterion.state_dict())


@pytest.mark.parametrize(
    ("model", "data", "num_classes"),
    [
        (lambda: bert(BertForSequenceClassification), lambda: texts(6), CLASSES),
        (lambda: ViTForImageClassification(tiny_vit_config()), images, CLASSES),
        (lambda: bert(BertForMultipleChoice), choices, 4),  # num_labels is another number
    ],
)
def test_classes_of_samples(tmp_path: Path, model: Any, data: Any, num_classes: int) -> None:
    samples = data()
    criterion = trained(tmp_path, model(), samples).criterion
    assert criterion.label_options == {"num_classes": num_classes}
    assert criterion.table.has_column("predicted_class")
    assert criterion.table.target.tolist() == [sample["labels"] for sample in samples]


def test_one_output_is_a_regression(tmp_path: Path) -> None:
    model = bert(BertForSequenceClassification, num_labels=1)
    criterion = trained(tmp_path, model, labelled([0.5 * i for i in range(6)])).criterion
    assert criterion.label_options == {"task": "regression"}
    assert criterion.table.has_column("mean_prediction")
    assert criterion.table.target.tolist() == [0.5 * i for i in range(6)]


def multi_label() -> Any:
    return bert(BertForSequenceClassification, problem_type="multi_label_classification")


def language_model() -> Any:
    return bert(BertLMHeadModel, is_decoder=True)


@pytest.mark.parametrize(
    ("model", "label"),
    [
        (lambda: bert(BertForTokenClassification), [0, 1, 2, -100, 1, 0]),
        (multi_label, [1.0, 0.0, 1.0]),
        (lambda: bert(BertForSequenceClassification, num_labels=3), [0.5, 0.0, 1.0]),
        (language_model, [5, 6, 7, 8, 9, 10]),
    ],
)
def test_several_targets_of_a_sample_are_left_to_the_loss_of_the_paper(
    tmp_path: Path, model: Any, label: list[float]
) -> None:
    criterion = trained(tmp_path, model(), labelled([label] * 6)).criterion
    assert criterion.labels is None
    assert criterion.table.visits.tolist() == [2] * 6


def test_samples_without_a_label_do_not_count(tmp_path: Path) -> None:
    data = labelled([0, -100, 2, 1, -100])
    trainer = trained(tmp_path, bert(BertForSequenceClassification), data)
    assert trainer.criterion.table.visits.tolist() == [2, 0, 2, 2, 0]
    assert trainer.criterion.table.target.tolist() == [0, -1, 2, 1, -1]


def own_losses(outputs: Any, labels: Tensor, model: Any) -> Tensor:
    logits = outputs.logits if hasattr(outputs, "logits") else outputs[1]
    return 2 * F.cross_entropy(logits, labels, reduction="none")


def test_losses_of_the_users_own(tmp_path: Path) -> None:
    criterion = classified(tmp_path, sample_losses=own_losses).criterion
    assert criterion.table.has_column("predicted_class")
    # Nobody says which of the outputs in a tuple are logits.
    model = bert(BertForSequenceClassification, return_dict=False)
    assert trained(tmp_path, model, texts(6), sample_losses=own_losses).criterion.labels is None

    def span_losses(outputs: Any, labels: dict[str, Tensor], model: Any) -> Tensor:
        return F.cross_entropy(outputs.start_logits, labels["start_positions"], reduction="none")

    spans = [
        {"input_ids": s["input_ids"], "start_positions": i % 3, "end_positions": 3}
        for i, s in enumerate(texts(5))
    ]
    model = bert(BertForQuestionAnswering, num_labels=2)
    assert trained(tmp_path, model, spans, sample_losses=span_losses).criterion.labels is None


def test_the_switches(tmp_path: Path) -> None:
    criterion = classified(tmp_path, predictions=False).criterion
    assert criterion.label_options == {"num_classes": CLASSES}
    assert not criterion.table.has_column("predicted_class")
    assert classified(tmp_path, class_aware=False).criterion.labels is None
    # The released code's form knows no targets.
    released = classified(tmp_path, discrimloss={"variant": "released"}).criterion
    assert released.labels is None


@pytest.mark.filterwarnings("ignore:epoch 1 begins after epoch 2:UserWarning")
def test_a_criterion_of_the_users_own_decides(tmp_path: Path) -> None:
    own = DiscrimLoss(10, 2)
    assert not classified(tmp_path, discrimloss=own).criterion.table.has_column("target")
    own = DiscrimLoss(10, 2, num_classes=5)
    assert classified(tmp_path, discrimloss=own, predictions=False).criterion is own
    assert own.table.has_column("target")
    classified(tmp_path, discrimloss=own)  # goes on as it began
    assert not own.table.has_column("predicted_class")
    options = {"discrimloss": {"num_classes": CLASSES, "threshold": "ema"}}
    assert classified(tmp_path, **options).criterion.table.has_column("predicted_class")
    with pytest.raises(ValueError, match="class_aware=False is for a DiscrimLoss without targets"):
        classified(tmp_path, discrimloss=own, class_aware=False)
    with pytest.raises(
        ValueError, match="has num_classes=3, but a batch does not have exactly one"
    ):
        trained(
            tmp_path,
            bert(BertForTokenClassification),
            labelled([[0, 1, 2, 0, 1, 2]] * 4),
            discrimloss={"num_classes": 3},
        )


LONG = {
    "num_train_epochs": 10,
    "per_device_train_batch_size": 64,
    "learning_rate": 0.3,
    "train_sampling_strategy": "random",
    "save_strategy": "steps",
    "save_steps": 8,
}


@pytest.mark.parametrize("kind", ["classes", "classes only", "regression"])
def test_a_resumed_run_ends_as_one_that_was_not_interrupted(tmp_path: Path, kind: str) -> None:
    """With enough samples for some of them to be held out."""
    generator = torch.Generator().manual_seed(2)
    labels = torch.randint(CLASSES, (320,), generator=generator).tolist()
    outputs, settings = CLASSES, LONG
    if kind == "regression":
        labels = [float(label) for label in labels]
        outputs, settings = 1, {**LONG, "learning_rate": 0.01}

    def run(**more: Any) -> DiscrimTrainer:
        trainer = DiscrimTrainer(
            model=bert(BertForSequenceClassification, num_labels=outputs),
            args=arguments(tmp_path, **settings),
            train_dataset=labelled(labels),
            predictions=kind != "classes only",
        )
        trainer.train(**more)
        return trainer

    whole = run()
    assert whole.criterion.labels is not None
    assert int((whole.criterion.labels.roles(whole.criterion.table) == HELD_OUT).sum()) > 0
    for step in (8, 40):  # within an epoch, and at the end of one
        resumed = run(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        assert_same_state(resumed.criterion, whole.criterion)
        torch.testing.assert_close(
            resumed.model.state_dict(), whole.model.state_dict(), rtol=0, atol=0
        )
    finished = run(resume_from_checkpoint=str(tmp_path / "checkpoint-50"))  # nothing is left to do
    assert_same_state(finished.criterion, whole.criterion)


@pytest.mark.filterwarnings("ignore:the loaded state is of:UserWarning")
def test_a_resumed_run_keeps_the_form_of_its_checkpoint(tmp_path: Path) -> None:
    saving = {"num_train_epochs": 1, "save_strategy": "epoch"}
    forms = {"paper": {"class_aware": False}, "targets": {"predictions": False}, "all": {}}
    for name, switches in forms.items():
        classified(tmp_path / name, settings=saving, **switches)

    def resumed(name: str, **options: Any) -> DiscrimLoss:
        model, args = bert(BertForSequenceClassification), arguments(tmp_path / name)
        trainer = DiscrimTrainer(model=model, args=args, train_dataset=texts(10), **options)
        trainer.train(resume_from_checkpoint=True)
        assert trainer.criterion.table.visits.tolist() == [2] * 10
        return trainer.criterion

    assert resumed("paper").labels is None
    assert not resumed("targets").table.has_column("predicted_class")
    assert resumed("all").table.has_column("predicted_class")
    with pytest.raises(ValueError, match="the saved run used targets, but class_aware=False"):
        resumed("targets", class_aware=False)
    with pytest.raises(ValueError, match="the saved run used predictions, but predictions=False"):
        resumed("all", predictions=False)
    with pytest.raises(ValueError, match="build it without num_classes and task"):
        resumed("paper", discrimloss={"num_classes": CLASSES})
