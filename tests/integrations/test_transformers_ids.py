"""Samples that a Trainer knows by a column of theirs, in datasets with positions and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset as ArrowDataset
from tiny_transformers import CLASSES, arguments, bert, texts
from torch.utils.data import Dataset, IterableDataset
from transformers import BertForSequenceClassification

from discrimloss import DiscrimLoss, SampleIds
from discrimloss.integrations.indexed_rows import NamedStream
from discrimloss.integrations.transformers import DiscrimTrainer

pytestmark = pytest.mark.usefixtures("quick_verdicts")


def named_texts(number: int = 10) -> list[dict[str, Any]]:
    return [
        {"input_ids": s["input_ids"].tolist(), "labels": s["labels"], "guid": f"text-{i}"}
        for i, s in enumerate(texts(number))
    ]


class MapStyle(Dataset[Any]):
    def __init__(self, samples: list[dict[str, Any]]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, position: int) -> dict[str, Any]:
        return self.samples[position]


class Stream(IterableDataset[Any]):
    """Has no positions and no length."""

    def __init__(self, samples: list[dict[str, Any]]) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.samples)


def arrow_stream(samples: list[dict[str, Any]]) -> Any:
    return ArrowDataset.from_list(samples).to_iterable_dataset()


DATASETS = {
    "a list": list,
    "a torch dataset": MapStyle,
    "a datasets.Dataset": ArrowDataset.from_list,
    "a stream": Stream,
    "a datasets.IterableDataset": arrow_stream,
}


def trained(directory: Path, dataset: Any, **options: Any) -> DiscrimTrainer:
    own = {"sample_id": "guid", "steps_per_iteration": 3}
    model = bert(BertForSequenceClassification)
    trainer = DiscrimTrainer(
        model=model,
        args=arguments(directory, max_steps=6, **options),
        train_dataset=dataset,
        **own,  # type: ignore[arg-type]
    )
    trainer.train()
    return trainer


@pytest.mark.parametrize("kind", DATASETS)
def test_ids_are_positions_by_another_name(kind: str, tmp_path: Path) -> None:
    samples = named_texts()
    named = trained(tmp_path / "named", DATASETS[kind](samples))  # type: ignore[operator]
    by_position = DiscrimTrainer(
        model=bert(BertForSequenceClassification),
        args=arguments(tmp_path / "positions", max_steps=6),
        train_dataset=samples,
        steps_per_iteration=3,
    )
    by_position.train()
    verdicts = named.criterion.verdicts()
    assert verdicts.ids == [f"text-{i}" for i in range(10)]  # met in this order
    assert torch.equal(named.criterion.average_losses, by_position.criterion.average_losses)
    assert torch.equal(named.criterion.sample_weights, by_position.criterion.sample_weights)
    for name, value in by_position.model.state_dict().items():
        assert torch.equal(named.model.state_dict()[name], value), name


def test_ids_are_in_the_checkpoint(tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole", Stream(named_texts()))
    trained(tmp_path / "resumed", Stream(named_texts()), save_strategy="steps", save_steps=2)
    resumed = DiscrimTrainer(
        model=bert(BertForSequenceClassification),
        args=arguments(tmp_path / "resumed", max_steps=6),
        train_dataset=Stream(named_texts()),
        sample_id="guid",
        steps_per_iteration=3,
    )
    resumed.train(resume_from_checkpoint=str(tmp_path / "resumed" / "checkpoint-2"))
    assert resumed.criterion.verdicts().ids == whole.criterion.verdicts().ids
    assert torch.equal(resumed.criterion.average_losses, whole.criterion.average_losses)


@pytest.mark.filterwarnings("ignore:epoch 1 begins after epoch 2:UserWarning")
def test_filtered_and_appended_data_goes_on_with_its_history(tmp_path: Path) -> None:
    before = trained(tmp_path / "before", named_texts(8)).criterion
    criterion = DiscrimLoss(ids=SampleIds(), epochs=2, num_classes=CLASSES)
    criterion.load_state_dict(before.state_dict())
    trainer = DiscrimTrainer(
        model=bert(BertForSequenceClassification),
        args=arguments(tmp_path / "after", num_train_epochs=1),
        train_dataset=named_texts(10)[5:],
        discrimloss=criterion,
        sample_id="guid",
    )
    trainer.train()
    visits = dict(
        zip(criterion.ids.names(), criterion.table.visits.tolist(), strict=True)  # type: ignore[union-attr]
    )
    seen_before = dict(zip(before.ids.names(), before.table.visits.tolist(), strict=True))  # type: ignore[union-attr]
    for number in range(10):
        name = f"text-{number}"
        assert visits[name] == seen_before.get(name, 0) + (number >= 5)


@pytest.mark.parametrize("kind", ["a list", "a datasets.Dataset", "a stream"])
def test_a_missing_column_is_named(kind: str, tmp_path: Path) -> None:
    samples = [{k: v for k, v in s.items() if k != "guid"} for s in named_texts()]
    with pytest.raises(ValueError, match=r"no column 'guid'.* input_ids"):
        trained(tmp_path, DATASETS[kind](samples))  # type: ignore[operator]


def test_a_stream_of_unknown_length_needs_iterations(tmp_path: Path) -> None:
    trainer = DiscrimTrainer(
        model=bert(BertForSequenceClassification),
        args=arguments(tmp_path, max_steps=6),
        train_dataset=Stream(named_texts()),
        sample_id="guid",
    )
    with pytest.raises(ValueError, match="give steps_per_iteration"):
        trainer.train()


@pytest.mark.filterwarnings("ignore:the loaded state is of:UserWarning")
@pytest.mark.filterwarnings("ignore:epoch 3 begins:UserWarning")
def test_rows_appended_since_the_checkpoint_start_fresh(tmp_path: Path) -> None:
    def trainer(number: int, epochs: int) -> DiscrimTrainer:
        return DiscrimTrainer(
            model=bert(BertForSequenceClassification),
            args=arguments(tmp_path, num_train_epochs=epochs, save_strategy="epoch"),
            train_dataset=texts(number),
        )

    trainer(8, epochs=1).train()
    grown = trainer(12, epochs=2)
    grown.train(resume_from_checkpoint=True)
    assert grown.criterion.num_samples == 12
    assert grown.criterion.table.visits[:8].min() >= 1
    fewer = trainer(4, epochs=3)
    with pytest.raises(
        ValueError, match=r"has 12 samples, but the training data has 4: .*sample_id"
    ):
        fewer.train(resume_from_checkpoint=True)


def test_a_stream_that_is_handed_on_has_numbers_for_ids() -> None:
    rows = list(NamedStream([{"guid": 3}], "guid", only_numbers=True))
    assert rows[0].index == 3
    with pytest.raises(ValueError, match=r"must be whole numbers: .*dispatch_batches"):
        list(NamedStream([{"guid": "3"}], "guid", only_numbers=True))
