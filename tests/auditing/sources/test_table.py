"""Tables as sources: labels, names, columns, features, and what is written back."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

from discrimloss.auditing.settings import audit_model
from discrimloss.auditing.sources.base import (
    AuditSource,
    Corrections,
    LeftOut,
    SourceError,
    SourceOptions,
)
from discrimloss.auditing.sources.column_features import LARGEST, scaled_numbers, table_features
from discrimloss.auditing.sources.columns import plan_columns
from discrimloss.auditing.sources.open_source import open_source

SUFFIXES = [".csv", ".parquet", ".jsonl"]


def saved(folder: Path, frame: pandas.DataFrame, suffix: str = ".csv") -> str:
    path = folder / f"table{suffix}"
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    elif suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True)
    return str(path)


def flowers(num_rows: int = 60) -> pandas.DataFrame:
    generator = np.random.default_rng(1)
    kind = generator.integers(0, 3, num_rows)
    length = np.where(generator.random(num_rows) < 0.1, 1, kind) + 0.3
    return pandas.DataFrame(
        {
            "key": [f"f{number}" for number in range(num_rows)],
            "length": np.where(generator.random(num_rows) < 0.2, np.nan, length),
            "colour": generator.choice(["red", "blue", "white"], num_rows),
            "label": np.array(["iris", "None", "rose"])[kind],
        }
    )


def opened(folder: Path, frame: pandas.DataFrame, suffix: str = ".csv", **said) -> AuditSource:
    return open_source(SourceOptions(saved(folder, frame, suffix), **{"label": "label"} | said))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_mixed_columns_with_gaps(tmp_path, suffix):
    frame = flowers()
    frame.loc[[4, 7], "label"] = None
    source = opened(tmp_path, frame, suffix, id="key")
    assert source.kind == "table"
    assert len(source) == 58
    assert source.class_names == ("None", "iris", "rose")
    kept = frame.drop(index=[4, 7])
    assert [source.class_names[i] for i in source.target] == kept["label"].tolist()
    assert source.ids == tuple(kept["key"])
    assert source.left_out == (LeftOut("f4", "no label"), LeftOut("f7", "no label"))

    task = source.task(tmp_path / "cache")
    assert task.test is None
    assert task.num_classes == 3
    features = task.train.inputs.rows(torch.arange(58))
    assert task.input_shape == (5,)  # length, whether it is missing, three colours
    assert features[:, 1].tolist() == kept["length"].isna().astype(float).tolist()
    present = kept["length"].notna().to_numpy()
    order = np.argsort(kept["length"].to_numpy()[present], kind="stable")
    assert (
        features[:, 0].numpy()[present][order][1:] >= features[:, 0].numpy()[present][order][:-1]
    ).all()
    assert torch.equal(features[:, 2:].sum(dim=1), torch.ones(58))
    assert features.isfinite().all()
    assert audit_model(source.task(tmp_path)).name == "mlp"

    fields = dict(source.view(4).fields)
    assert "key" not in fields  # it is shown as the id of the sample
    assert "label" not in fields


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_corrections_there_and_back(tmp_path, suffix):
    frame = flowers()
    frame.loc[2, "label"] = None
    source = opened(tmp_path, frame, suffix, id="key")
    (tmp_path / "corrected").mkdir()
    # Sample 2 is row 3, as row 2 has no label.
    corrections = Corrections({0: "tulip", 2: "None"}, frozenset({1}))
    [path] = source.write_corrected(corrections, tmp_path / "corrected")
    assert path.name == f"table{suffix}"
    again = open_source(SourceOptions(str(path), label="label", id="key"))
    labels = dict(zip(again.ids, (again.class_names[i] for i in again.target), strict=True))
    expected = dict(zip(frame["key"], frame["label"], strict=True))
    expected |= {"f0": "tulip", "f3": "None"}
    del expected["f1"], expected["f2"]
    assert labels == expected
    assert again.left_out == (LeftOut("f2", "no label"),)
    assert source.fingerprint() != again.fingerprint()
    assert source.fingerprint() == opened(tmp_path, frame, suffix, id="key").fingerprint()


def test_whole_numbers_are_classes_and_others_are_regressed_on(tmp_path):
    frame = flowers()
    classes = opened(tmp_path, frame.assign(label=np.arange(60) % 3))
    assert classes.class_names == ("0", "1", "2")
    numbers = opened(tmp_path, frame.assign(label=np.arange(60) / 7))
    assert numbers.is_regression
    assert numbers.target.dtype == torch.float32
    assert numbers.task(tmp_path).num_classes is None
    (tmp_path / "new").mkdir()
    [path] = numbers.write_corrected(Corrections({0: 2.5}, frozenset()), tmp_path / "new")
    assert pandas.read_csv(path)["label"].tolist()[:2] == pytest.approx([2.5, 1 / 7])
    asked = opened(tmp_path, frame.assign(label=np.arange(60) % 3), regression=True)
    assert asked.is_regression


@pytest.mark.parametrize(
    ("change", "said", "sentence"),
    [
        ({}, {"label": None}, "--label COLUMN: it has key, length, colour, label"),
        ({}, {"label": "labels"}, "did you mean 'label'"),
        ({}, {"label": "label", "id": "name"}, "no column 'name' \\(--id\\)"),
        ({}, {"label": "key", "id": "key"}, "name the same column"),
        ({}, {"id": "colour"}, "rows 2 and 3 of table.csv .* same id 'blue'"),
        ({"key": [None] + ["x"] * 59}, {"id": "key"}, "row 0 of table.csv .* is empty"),
        ({"label": "one"}, {}, "all labels are 'one'"),
        ({"label": None}, {}, "all 60 labels are missing"),
        ({"length": 1.0, "colour": "red"}, {"id": "key"}, "is no usable column: .*colour"),
        ({}, {"encoder": "some"}, "--encoder does not fit"),
        ({}, {"text": "colour", "image": "key"}, "exclude each other"),
    ],
)  # fmt: skip
def test_what_cannot_be_audited_gets_a_sentence(tmp_path, change, said, sentence):
    with pytest.raises(SourceError, match=sentence):
        opened(tmp_path, flowers().assign(**change), **said)


# Columns.


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("names", [["label"], ["id", "label"]])
def test_a_table_of_labels_alone_is_refused(tmp_path, suffix, names):
    frame = pandas.DataFrame({"id": range(20), "label": list("ab") * 10})[names]
    with pytest.raises(SourceError, match="no column to learn from besides labels and ids"):
        opened(tmp_path, frame, suffix, label="label")


def test_columns_are_told_apart():
    generator = np.random.default_rng(0)
    number = 200
    target = generator.integers(0, 2, number)
    frame = pandas.DataFrame(
        {
            "row": np.arange(number) + 5,
            "money": np.exp(3 * generator.normal(size=number)),
            "day": pandas.date_range("2020-01-01", periods=number).strftime("%Y-%m-%d"),
            "european": pandas.date_range("2020-01-01", periods=number).strftime("%d.%m.%Y"),
            "moment": pandas.date_range("2020-01-01", periods=number, tz="UTC"),
            "date": [datetime.date(2020, 1 + i % 12, 1 + i // 12) for i in range(number)],
            "truth": pandas.Series(generator.random(number) < 0.5, dtype="boolean"),
            "city": generator.choice([f"c{i}" for i in range(90)], number),
            "name": [f"person {i}" for i in range(number)],
            "same": "x",
            "empty": [None] * number,
            "embedding": list(generator.normal(size=(number, 4))),
            "small": np.tile(np.arange(200, 0, -1), number)[:number].astype(np.uint8),
            "object": [{"a": 1}] * number,
            "copy": target * 10,
        }
    )
    plan = plan_columns(frame, target)
    assert {column.name: column.kind for column in plan.used} == {
        "money": "number",
        "day": "date",
        "european": "date",
        "moment": "date",
        "date": "date",
        "truth": "category",
        "city": "category",
        "embedding": "vector",
        "small": "number",
    }
    notes = "\n".join(plan.notes)
    for name, reason in {
        "row": "numbers the rows",
        "name": "identifies rows",
        "same": "all its values",
        "empty": "it is empty",
        "object": "objects",
        "copy": "leaks the label",
    }.items():
        assert f"'{name}'" in notes
        assert reason in notes
    assert len(plan.notes) == 6
    features = table_features(frame, plan.used)
    # money, 4 dates, one truth value, 64 categories of 90 cities, 4 of the embedding, small
    assert features.shape == (number, 1 + 4 + 1 + 64 + 4 + 1)
    assert np.isfinite(features).all()
    for date in features[:, 1:4].T:
        assert (np.diff(date) > 0).all()


def test_far_numbers_are_drawn_in_and_stay_in_order():
    numbers = np.array([0.0, 1.0, 2.0, 3.0, 1e9, -1e9, np.inf, np.nan])
    features = scaled_numbers(numbers)
    assert features.shape == (8, 2)
    assert features[:, 1].tolist() == [0, 0, 0, 0, 0, 0, 1, 1]
    finite = features[:6, 0][np.argsort(numbers[:6])]
    assert (np.diff(finite) > 0).all()
    assert np.abs(features).max() <= LARGEST


def test_a_column_of_mostly_one_number_still_says_something():
    features = scaled_numbers(np.array([0.0] * 50 + [1.0] * 2))
    assert features[-1, 0] > 1.0 > features[0, 0]


def test_a_number_that_determines_a_number_is_noticed():
    values = np.random.default_rng(0).normal(size=50)
    frame = pandas.DataFrame({"a": 3 * values + 1, "b": values**3})
    plan = plan_columns(frame.assign(c=np.roll(values, 1)), values.astype(np.float32))
    assert [column.name for column in plan.used] == ["c"]
    assert plan.warnings[0].startswith("the columns 'a', 'b' leak the label: every value of")
    assert plan.notes == ("the columns 'a', 'b' are not used: each leaks the label",)
    alone = plan_columns(frame[["a"]], values.astype(np.float32))
    assert [column.name for column in alone.used] == ["a"]
    assert "but you chose it" in alone.warnings[0]


def test_a_class_that_the_column_cannot_hold_is_refused(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"x": [0.5, 2.5, 1.0, 3.0] * 10, "label": [0, 1] * 20})
    numbers = opened(tmp_path, frame, ".parquet", label="label")
    numbers.require_class("7")
    with pytest.raises(SourceError, match="holds whole numbers"):
        numbers.require_class("brandnew")
    opened(tmp_path, frame, ".csv", label="label").require_class("brandnew")
