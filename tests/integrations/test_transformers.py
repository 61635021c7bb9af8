"""What DiscrimTrainer trains is what a loop by hand with DiscrimLoss trains.

Targets and predictions are in `test_transformers_labels.py`.
"""

from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from state_comparison import assert_same_state, state_of
from tiny_transformers import CLASSES, Sample, arguments, bert, texts, tiny_vit_config
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import Dataset, Subset, TensorDataset
from transformers import (
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    DataCollatorForMultipleChoice,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    Trainer,
    ViTForImageClassification,
)

from discrimloss import DiscrimLoss, IndexedDataset
from discrimloss.integrations.transformers import DiscrimTrainer, DiscrimTrainerMixin
from discrimloss.models.text_encoder import byte_tokenizer

pytestmark = pytest.mark.usefixtures("quick_verdicts")


def by_hand(model: Any, data: list[Sample], criterion: DiscrimLoss, batch_size: int = 4) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(1, criterion.epochs + 1):
        criterion.set_epoch(epoch)
        for start in range(0, len(data), batch_size):
            batch = data[start : start + batch_size]
            logits = model(input_ids=torch.stack([sample["input_ids"] for sample in batch])).logits
            labels = torch.tensor([sample["labels"] for sample in batch])
            losses = F.cross_entropy(logits, labels, reduction="none")
            optimizer.zero_grad()
            criterion(losses, torch.arange(start, start + len(batch))).backward()
            optimizer.step()


def assert_same_weights(model: Any, other: Any, **tolerance: float) -> None:
    torch.testing.assert_close(model.state_dict(), other.state_dict(), **tolerance)


@pytest.mark.parametrize("options", [None, {"threshold": "ema", "switch_gain": 0.3}, "criterion"])
def test_a_run_is_the_loop_by_hand(tmp_path: Path, options: Any) -> None:
    data, expected = texts(10), bert(BertForSequenceClassification)
    criterion = DiscrimLoss(10, 3, **(options if isinstance(options, dict) else {}))
    by_hand(expected, data, criterion)
    given = DiscrimLoss(10, 3) if options == "criterion" else options
    trainer = DiscrimTrainer(
        model=bert(BertForSequenceClassification),
        args=arguments(tmp_path, num_train_epochs=3),
        train_dataset=data,
        discrimloss=given,
        class_aware=False,
    )
    trainer.train()
    assert_same_weights(trainer.model, expected)
    torch.testing.assert_close(trainer.criterion.state_dict(), criterion.state_dict())
    assert (trainer.criterion is given) == (options == "criterion")


@pytest.mark.parametrize(("number", "batch_size"), [(8, 2), (7, 4), (11, 3)])
def test_accumulated_steps_are_steps_of_one_batch(
    tmp_path: Path, number: int, batch_size: int
) -> None:
    """Also where the last micro-batch, or the last step, has fewer samples than the others."""
    data, expected = texts(number), bert(BertForSequenceClassification)
    by_hand(expected, data, DiscrimLoss(number, 1), batch_size=2 * batch_size)
    trainer = DiscrimTrainer(
        model=bert(BertForSequenceClassification),
        args=arguments(
            tmp_path,
            num_train_epochs=1,
            per_device_train_batch_size=batch_size,
            gradient_accumulation_steps=2,
        ),
        train_dataset=data,
        class_aware=False,
    )
    trainer.train()
    assert_same_weights(trainer.model, expected)
    assert int(trainer.criterion.table.visits.sum()) == number


class Items(Dataset[Any]):
    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, position: int) -> Any:
        return self.samples[position]


def as_table(samples: list[Sample]) -> datasets.Dataset:
    return datasets.Dataset.from_list(
        [{**s, "input_ids": s["input_ids"].tolist()} for s in samples]
    )


def transformed(samples: list[Sample]) -> datasets.Dataset:
    def only_what_the_model_takes(rows: dict[str, Any]) -> dict[str, Any]:
        return {name: rows[name] for name in ("input_ids", "labels")}

    return as_table(samples).with_transform(only_what_the_model_takes)


def stack_pairs(pairs: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    tokens, labels = zip(*pairs, strict=True)
    return {"input_ids": torch.stack(tokens), "labels": torch.stack(labels)}


def as_pairs(samples: list[Sample]) -> TensorDataset:
    labels = torch.tensor([sample["labels"] for sample in samples])
    return TensorDataset(torch.stack([sample["input_ids"] for sample in samples]), labels)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (list, {}),
        (Items, {"train_sampling_strategy": "random"}),
        (as_table, {"train_sampling_strategy": "random"}),
        (as_table, {"train_sampling_strategy": "group_by_length"}),
        (transformed, {"remove_unused_columns": False, "train_sampling_strategy": "random"}),
        (as_pairs, {"train_sampling_strategy": "random", "dataloader_num_workers": 1}),
        (IndexedDataset, {"train_sampling_strategy": "random"}),
    ],
)
def test_every_loss_reaches_its_own_sample(tmp_path: Path, make: Any, options: Any) -> None:
    """With a model that stands still, the average loss of each sample is its loss."""
    samples, model = texts(9), bert(BertForSequenceClassification)
    trainer = DiscrimTrainer(
        model=model,
        args=arguments(tmp_path, learning_rate=0.0, num_train_epochs=1, **options),
        train_dataset=make(samples),
        data_collator=stack_pairs if make is as_pairs else None,
        processing_class=None if make is as_pairs else byte_tokenizer(),
    )
    trainer.train()
    batch = stack_pairs(list(as_pairs(samples)))
    expected = F.cross_entropy(
        model(input_ids=batch["input_ids"]).logits, batch["labels"], reduction="none"
    )
    torch.testing.assert_close(trainer.criterion.average_losses, expected.detach())


def test_a_subset_keeps_the_positions_of_the_whole(tmp_path: Path) -> None:
    trainer = DiscrimTrainer(
        model=bert(BertForSequenceClassification),
        args=arguments(tmp_path, num_train_epochs=1),
        train_dataset=Subset(texts(9), [8, 2, 5]),
    )
    trainer.train()
    assert trainer.criterion.table.visits.tolist() == [0, 0, 1, 0, 0, 1, 0, 0, 1]


def test_a_dropped_last_batch_stays_unseen(tmp_path: Path) -> None:
    args = arguments(tmp_path, num_train_epochs=1, dataloader_drop_last=True)
    model = bert(BertForSequenceClassification)
    trainer = DiscrimTrainer(model=model, args=args, train_dataset=texts(6))
    trainer.train()
    assert trainer.criterion.table.visits.tolist() == [1, 1, 1, 1, 0, 0]


def token_task() -> tuple[Any, list[Sample], Any]:
    samples = [
        {"input_ids": [5, 6, 7], "labels": [0, -100, 2]},
        {"input_ids": [8, 9], "labels": [-100, -100]},
        {"input_ids": [10, 11, 12, 13], "labels": [1, 1, 0, 2]},
    ]
    collator = DataCollatorForTokenClassification(byte_tokenizer())
    return bert(BertForTokenClassification), samples, collator


def choice_task() -> tuple[Any, list[Sample], Any]:
    samples = [
        {"input_ids": [[5, 6], [7, 8, 9]], "attention_mask": [[1, 1], [1, 1, 1]], "label": 0},
        {"input_ids": [[9, 8], [7]], "attention_mask": [[1, 1], [1]], "label": 1},
        {"input_ids": [[6], [5]], "attention_mask": [[1], [1]], "label": 1},
    ]
    return bert(BertForMultipleChoice), samples, DataCollatorForMultipleChoice(byte_tokenizer())


def number_task() -> tuple[Any, list[Sample], Any]:
    samples = [{"input_ids": [5 + i] * (i + 1), "label": 0.5 * i} for i in range(3)]
    collator = DataCollatorWithPadding(byte_tokenizer())
    return bert(BertForSequenceClassification, num_labels=1), samples, collator


def image_task() -> tuple[Any, list[Sample], Any]:
    torch.manual_seed(0)
    samples = [{"pixel_values": torch.randn(3, 8, 8), "label": i % CLASSES} for i in range(3)]
    return ViTForImageClassification(tiny_vit_config()), samples, None


@pytest.mark.parametrize("task", [token_task, choice_task, number_task, image_task])
def test_tasks(tmp_path: Path, task: Any) -> None:
    """Alone in a batch, a sample's loss is the model's own."""
    model, samples, collator = task()
    trainer = DiscrimTrainer(
        model=model,
        args=arguments(
            tmp_path, learning_rate=0.0, per_device_train_batch_size=2, num_train_epochs=1
        ),
        train_dataset=samples,
        data_collator=collator,
    )
    trainer.train()
    model.eval()
    for i, sample in enumerate(samples):
        batch = trainer.data_collator([dict(sample)])
        loss = model(**batch).loss.detach()
        torch.testing.assert_close(trainer.criterion.average_losses[i], loss, equal_nan=True)


def test_sequences_without_a_labelled_token_do_not_count(tmp_path: Path) -> None:
    model, samples, collator = token_task()
    labelled = [samples[0], samples[2]]
    ended = []
    for data, batch_size, steps in ((labelled, 2, 1), (samples, 3, 1), (samples, 2, 2)):
        args = arguments(
            tmp_path,
            per_device_train_batch_size=batch_size,
            gradient_accumulation_steps=steps,
            num_train_epochs=1,
        )
        model = bert(BertForTokenClassification)
        DiscrimTrainer(model=model, args=args, train_dataset=data, data_collator=collator).train()
        ended.append(model)
    for model in ended[1:]:
        assert_same_weights(model, ended[0])


def test_evaluation_is_the_trainers_own(tmp_path: Path) -> None:
    data, model = texts(10), bert(BertForSequenceClassification)
    common = {
        "model": model,
        "args": arguments(tmp_path, label_smoothing_factor=0.1),
        "train_dataset": data,
        "eval_dataset": as_table(data),
        "compute_metrics": lambda seen: {"sum": float(seen.predictions.sum())},
    }
    ours, plain = DiscrimTrainer(**common), Trainer(**common)
    before = ours.get_eval_dataloader().collate_fn
    ours.train()
    assert ours.get_eval_dataloader().collate_fn is before is plain.get_eval_dataloader().collate_fn
    assert ours.train_dataset is data
    state = state_of(ours.criterion)
    for dataset in (None, data):  # the training data are data like any other
        seen, expected = ours.evaluate(dataset), plain.evaluate(dataset)
        for name in ("eval_loss", "eval_sum"):
            assert seen[name] == expected[name]
    assert (ours.predict(data).predictions == plain.predict(data).predictions).all()
    assert_same_state(ours.criterion, state)


def test_label_smoothing_changes_what_samples_lose(tmp_path: Path) -> None:
    args = arguments(tmp_path, learning_rate=0.0, num_train_epochs=1, label_smoothing_factor=0.3)
    model, data = bert(BertForSequenceClassification), texts(4)
    trainer = DiscrimTrainer(model=model, args=args, train_dataset=data)
    trainer.train()
    batch = stack_pairs(list(as_pairs(data)))
    log_p = model(input_ids=batch["input_ids"]).logits.log_softmax(1).detach()
    naive = [
        -0.7 * row[k] - 0.3 * row.mean() for row, k in zip(log_p, batch["labels"], strict=True)
    ]
    torch.testing.assert_close(trainer.criterion.average_losses, torch.stack(naive))


def test_losses_of_the_users_own(tmp_path: Path) -> None:
    model = bert(BertForQuestionAnswering, num_labels=2)
    samples = [
        {"input_ids": s["input_ids"], "start_positions": i % 3, "end_positions": 3 + i % 2}
        for i, s in enumerate(texts(5))
    ]

    def span_losses(outputs: Any, labels: dict[str, Tensor], given_model: Any) -> Tensor:
        assert given_model is model
        start = F.cross_entropy(outputs.start_logits, labels["start_positions"], reduction="none")
        return start + F.cross_entropy(
            outputs.end_logits, labels["end_positions"], reduction="none"
        )

    common = {
        "model": model,
        "args": arguments(tmp_path, learning_rate=0.0, num_train_epochs=1),
        "train_dataset": samples,
    }
    trainer = DiscrimTrainer(**common, sample_losses=span_losses)
    trainer.train()
    for i, sample in enumerate(samples):
        loss = model(**trainer.data_collator([sample])).loss.detach()
        torch.testing.assert_close(trainer.criterion.average_losses[i], 2 * loss)
    with pytest.raises(ValueError, match="labels are start_positions, end_positions: pass sample_"):
        DiscrimTrainer(**common).train()


class WithLossOfItsOwn(Trainer):
    batches_made = 0

    def get_train_dataloader(self) -> Any:
        self.batches_made += 1
        return super().get_train_dataloader()

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        return (2 * loss[0], *loss[1:]) if isinstance(loss, tuple) else 2 * loss


class Mixed(DiscrimTrainerMixin, WithLossOfItsOwn):
    pass


def test_a_trainer_of_ones_own_needs_losses_of_samples(tmp_path: Path) -> None:
    data = texts(6)
    common = {"model": bert(BertForSequenceClassification), "args": arguments(tmp_path)}
    with pytest.raises(ValueError, match=r"WithLossOfItsOwn\.compute_loss returns one loss for a"):
        Mixed(**common, train_dataset=data)
    trainer = Mixed(
        **common,
        train_dataset=data,
        eval_dataset=data,
        sample_losses=lambda outputs, labels, model: (
            2 * F.cross_entropy(outputs.logits, labels, reduction="none")
        ),
    )
    trainer.train()
    assert trainer.batches_made == 1
    plain = Trainer(**common, eval_dataset=data).evaluate()["eval_loss"]
    assert trainer.evaluate()["eval_loss"] == pytest.approx(2 * plain)


def test_the_criterion_is_no_part_of_the_model(tmp_path: Path) -> None:
    model = bert(BertForSequenceClassification)
    trainer = DiscrimTrainer(model=model, args=arguments(tmp_path), train_dataset=texts(6))
    with pytest.raises(ValueError, match="built when train"):
        _ = trainer.criterion
    trainer.train()
    assert not any(isinstance(module, DiscrimLoss) for module in model.modules())
    batch = next(iter(trainer.get_train_dataloader()))
    loss, outputs = trainer.compute_loss(model.train(), batch, return_outputs=True)
    assert loss.requires_grad
    assert outputs.logits.shape == (4, CLASSES)
