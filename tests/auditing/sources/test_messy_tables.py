"""Tables as people have them: which columns are learned from, and how each is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from discrimloss.auditing.sources.base import (
    AuditSource,
    Corrections,
    SourceError,
    SourceOptions,
)
from discrimloss.auditing.sources.column_features import column_values
from discrimloss.auditing.sources.columns import plan_columns
from discrimloss.auditing.sources.open_source import open_data, open_source

ROWS = 80
WORDS = tuple(f"word{number}" for number in range(16))


def texts(number: int = ROWS, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, 9)) for _ in range(number)]


def opened(frame: pd.DataFrame, **options: Any) -> AuditSource:
    return open_data(frame, SourceOptions(**{"label": "topic"} | options))


def learned_from(source: AuditSource) -> dict[str, str]:
    return {column.name: column.read_as for column in source.contents.learned_from}


def news(**more: Any) -> pd.DataFrame:
    topic = np.repeat(["a", "b"], ROWS // 2)
    return pd.DataFrame({"id": np.arange(ROWS) + 7000, "text": texts(), "topic": topic, **more})


def test_the_texts_are_found_and_ids_name_the_samples(tmp_path: Path) -> None:
    news().to_csv(tmp_path / "news.csv", index=False)
    source = open_source(SourceOptions(str(tmp_path / "news.csv"), label="topic"))
    assert source.kind == "text"
    assert learned_from(source) == {"text": "texts"}
    assert source.ids[:2] == ("7000", "7001")
    assert source.view(1).text == texts()[1]
    again = open_source(SourceOptions(**vars(source.options)))
    assert again.fingerprint() == source.fingerprint()
    earlier = open_source(
        SourceOptions.saved({"path": str(tmp_path / "news.csv"), "label": "topic"})
    )
    assert earlier.ids[:2] == ("0", "1")  # as audits of earlier versions have them


@pytest.mark.parametrize("name", ["Kunden-Nr.", "Bestellnummer", "order number", "Invoice No."])
def test_numbers_of_things_name_the_samples(name: str) -> None:
    frame = news().drop(columns="id").assign(**{name: [f"K-{n:04}" for n in range(ROWS)]})
    source = opened(frame.reset_index(drop=True))
    assert list(source.ids[:2]) == ["K-0000", "K-0001"]


def test_a_row_begins_with_what_is_learned_from() -> None:
    frame = news().drop(columns="text")
    frame.insert(0, "empty", "")
    frame["size"] = np.random.default_rng(0).random(ROWS)
    source = opened(frame)
    assert [name for name, _ in source.view(0).fields] == ["size", "empty"]  # no id, no label


def test_a_number_that_measures_something_is_learned_from() -> None:
    frame = news().drop(columns=["id", "text"])
    frame["Reynolds number"] = np.random.default_rng(0).permutation(10**5)[:ROWS]
    assert list(learned_from(opened(frame))) == ["Reynolds number"]


def test_title_and_body_are_read_together() -> None:
    source = opened(news(title=texts(seed=1)))
    assert set(learned_from(source)) == {"text", "title"}
    assert source.view(0).text == f"{texts()[0]}\n{texts(seed=1)[0]}"


def test_texts_beside_other_columns() -> None:
    price = np.random.default_rng(3).normal(size=ROWS)
    source = opened(news(price=price))
    assert source.kind == "table"
    assert learned_from(source) == {"text": "texts", "price": "numbers"}
    assert source.contents.texts() == texts()  # type: ignore[attr-defined]
    features = source.task().train.inputs.rows(torch.arange(ROWS))
    assert features.shape == (ROWS, 1 + 32)
    assert opened(news(price=price), columns=("price",)).contents.learned_from[0].name == "price"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("customer_id", np.random.default_rng(0).permutation(10**6)[:ROWS]),
        ("CustomerID", [f"c-{number:05}" for number in range(ROWS)]),
        ("row", np.arange(ROWS)),
        ("link", [f"https://x.example/{number}" for number in range(ROWS)]),
        ("Kunden-Nr.", [f"KD-{number:05}" for number in range(ROWS)]),
    ],
)
def test_columns_that_identify_rows_are_not_learned_from(name: str, values: Any) -> None:
    frame = news(**{name: values}).drop(columns="id")
    assert name not in learned_from(opened(frame))
    assert name in learned_from(opened(frame, columns=("text", name)))


@pytest.mark.parametrize("kind", ["code", "order", "time"])
def test_a_column_that_gives_the_label_away(kind: str) -> None:
    rng = np.random.default_rng(0)
    topic = news()["topic"]
    values = {
        "code": np.where(topic == "a", "x1", "x2"),
        "order": np.sort(rng.random(ROWS)),
        "time": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(ROWS) * 3.5, "h"),
    }[kind]
    frame = news(leak=values, size=rng.random(ROWS)).drop(columns="text")
    source = opened(frame)
    assert list(learned_from(source)) == ["size"]
    [warning] = source.warnings
    assert "'leak' leaks the label" in warning
    assert "columns=" in warning
    named = opened(frame, columns=("leak", "size"))
    assert "but you chose it" in named.warnings[0]


def test_a_column_that_nearly_gives_the_label_away_is_used_and_warned_of() -> None:
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 2, 400)
    frame = pd.DataFrame({"copy": np.where(np.arange(400) < 4, 1 - topic, topic)})
    plan = plan_columns(frame.assign(size=rng.random(400)), topic)
    assert [column.name for column in plan.used] == ["copy", "size"]
    assert "it determines 99.0 % of the labels" in plan.warnings[0]


def test_a_german_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    days = pd.date_range("2023-01-01", periods=ROWS).strftime("%d.%m.%Y %H:%M")
    frame = pd.DataFrame(
        {
            "umsatz": [f"{i % 9 + 1}.{i + 100},3{i % 7} €" for i in range(ROWS)],
            "anteil": [f"{rng.integers(1, 99)},5 %" for _ in range(ROWS)],
            "menge": [f"{rng.integers(1, 99)}.{rng.integers(100, 999)}" for _ in range(ROWS)],
            "raucher": rng.choice(["ja", "Ja", "nein", "NEIN"], ROWS),
            "datum": days,
            "alter": [*["k.A.", "unklar"], *(str(20 + i % 50) for i in range(ROWS - 2))],
            "leer": "",
            "topic": rng.choice(["süß", "sauer"], ROWS),
        }
    )
    frame.to_csv(tmp_path / "t.csv", sep=";", index=False, encoding="cp1252")
    source = open_source(SourceOptions(str(tmp_path / "t.csv"), label="topic"))
    assert source.class_names == ("sauer", "süß")
    assert learned_from(source) == {
        "umsatz": "numbers, '1.100,30 €' is 1100.3",
        "anteil": f"numbers, {frame.anteil[0]!r} is {frame.anteil[0].split(',')[0]}.5",
        "menge": f"numbers, {frame.menge[0]!r} is {frame.menge[0].replace('.', '')}",
        "raucher": "yes and no, 'ja' is yes",
        "datum": "dates, '01.01.2023 00:00' is 2023-01-01",
        "alter": "numbers; 1 that are none count as missing, such as 'unklar'",
    }
    assert "read in the encoding cp1252" in source.notes[0]
    assert any("'leer' is not used: it is empty" in note for note in source.notes)


def test_dates_in_local_order() -> None:
    days = pd.date_range("2023-01-01", periods=40)
    written = {
        "us": days.strftime("%m/%d/%Y"),
        "uk": days.strftime("%d/%m/%Y"),
        "short": days.strftime("%d.%m.%y"),
        "clock": days.strftime("%m/%d/%Y %I:%M %p"),
        "months": days.strftime("%d %b %Y"),
    }
    plan = plan_columns(pd.DataFrame(written))
    assert {column.name for column in plan.used if column.kind == "date"} == set(written)
    assert all("2023-01-01" in column.read_as for column in plan.used)


def test_dates_in_two_forms_and_times() -> None:
    days = pd.date_range("2023-01-01", periods=40, freq="31h")
    mixed = [day.strftime("%d.%m.%Y" if day.day % 2 else "%Y-%m-%d") for day in days]
    plan = plan_columns(pd.DataFrame({"mixed": mixed, "clock": days.strftime("%H:%M")}))
    assert [column.read_as for column in plan.used] == [
        "dates, '2023-01-02' is 2023-01-02 and '01.01.2023' is 2023-01-01",
        "times of day, such as '00:00'",
    ]
    values = column_values(pd.Series(mixed), plan.used[0])
    assert (np.diff(values) >= 0).all()


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("{:.1f} kg", "numbers, '40.5 kg' is 40.5"),
        ("{:.1f}mg/dl", "numbers, '40.5mg/dl' is 40.5"),
        ("{:.1f} m2", "numbers, '40.5 m2' is 40.5"),
        ("{:.2f} ?", "numbers, '40.50 ?' is 40.5"),  # the euro sign, lost in Latin-1
    ],
)
def test_numbers_with_a_unit(written: str, read_as: str) -> None:
    plan = plan_columns(pd.DataFrame({"x": [written.format(i + 0.5) for i in range(40, 90)]}))
    assert [(column.kind, column.read_as) for column in plan.used] == [("number", read_as)]


def test_bounds_count_as_the_number_they_name() -> None:
    values = [*(f"{i}.25" for i in range(1, 40)), "<0.5", ">120", "k.A."]
    [column] = plan_columns(pd.DataFrame({"crp": values})).used
    assert column.read_as == "numbers, '<0.5' is 0.5"
    numbers = column_values(pd.Series(values), column)
    assert numbers[[0, -3, -2]].tolist() == [1.25, 0.5, 120.0]
    assert np.isnan(numbers[-1])
    few = plan_columns(pd.DataFrame({"age": ["<18", "18", ">18", "<18"] * 10})).used
    assert few[0].kind == "category"


def test_a_refused_column_comes_with_the_way_out() -> None:
    frame = news().drop(columns="text").assign(size=np.random.default_rng(0).random(ROWS))
    price = [f"{i}.50 {'€' if i % 2 else '$'}" for i in range(ROWS)]
    [note] = opened(frame.assign(price=price)).notes[-1:]
    assert "'price' is not used: its numbers have several units, " in note
    assert "convert them to one" in note
    spelt = [f"{i % 28 + 1}. März {1900 + i}" for i in range(ROWS)]
    [note] = opened(frame.assign(born=spelt)).notes[-1:]
    assert "write them like 1969.39 or 2020-01-23" in note


def test_diagnoses_are_categories() -> None:
    codes = ["E11", "I10", "E78", "J45"] * (ROWS // 4)
    assert learned_from(opened(news(icd=codes)))["icd"] == "4 categories"


def test_ids_that_several_rows_share_are_not_learned_from() -> None:
    rng = np.random.default_rng(0)
    frame = news(size=rng.random(ROWS)).drop(columns="text")
    source = opened(frame.assign(patient_id=np.arange(ROWS) // 3, shop_id=np.arange(ROWS) % 4))
    assert learned_from(source) == {"size": "numbers", "shop_id": "4 categories"}
    assert any("'patient_id' is not used: it identifies groups of rows" in n for n in source.notes)


def test_a_column_for_each_class_gives_the_label_away() -> None:
    rng = np.random.default_rng(0)
    target = rng.integers(0, 3, 300)
    frame = pd.DataFrame({"size": rng.random(300), "is_a": target == 0, "is_b": target == 1})
    plan = plan_columns(frame, target)
    assert [column.name for column in plan.used] == ["size"]
    assert "together they leak the label" in plan.notes[0]
    alone = plan_columns(frame.drop(columns="is_b"), target)
    assert [column.name for column in alone.used] == ["size", "is_a"]
    assert "'is_a' leaks one class" in alone.warnings[0]


def test_regression_targets_in_local_form_come_back_in_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    prices = [f"{1 + i % 8}.{100 + i},{i % 90 + 10} €" for i in range(ROWS)]
    pd.DataFrame({"x": rng.random(ROWS), "price": prices}).to_csv(tmp_path / "t.csv", index=False)
    source = open_source(SourceOptions(str(tmp_path / "t.csv"), label="price"))
    assert source.is_regression
    assert float(source.target[0]) == pytest.approx(1100.1)
    (tmp_path / "out").mkdir()
    [written] = source.write_corrected(Corrections({0: 2345.6}), tmp_path / "out")
    assert pd.read_csv(written)["price"].tolist() == ["2.345,60 €", *prices[1:]]


@pytest.mark.parametrize(
    "labels",
    [
        ["a,b", "b", "a", "a,c", "c"],
        ["sports|tech", "tech", "sports", "sports|news", "news"],
        ["A", "B", "A,B", "A", "B"],
        ["a,b", "b,c", "a,c", "a,b", "b,c"],
        ["sports and news", "news", "sports", "tech", "news and tech"],
        ["['a', 'b']", "['b']", '["a", "c"]', "[]", "['c']"],
        [["a", "b"], ["b"], ["a"], ["c"], ["a", "c"]],
    ],
)
def test_several_labels_per_sample_are_refused(labels: list[Any]) -> None:
    frame = news(topics=labels * (ROWS // 5))
    with pytest.raises(SourceError, match="one label at a time"):
        opened(frame, label="topics")
    if isinstance(labels[0], str):
        source = opened(frame, label="topics", regression=False)
        assert len(source.class_names) == len(set(labels))


def test_the_way_out_names_the_sign_between_labels() -> None:
    frame = news(topics=["a | b", "b", "a", "a | c", "c"] * (ROWS // 5))
    with pytest.raises(SourceError, match=r'get_dummies\(" \| "\)'):
        opened(frame, label="topics")


@pytest.mark.parametrize(
    "names",
    [
        ["Food, drinks", "Toys, games", "Cars", "Health, beauty"],
        ["Smith, John", "Smith, Anna", "Doe, John", "Doe, Anna"],
        ["rock", "pop", "pop rock", "jazz"],
        ["true positive", "false positive", "true negative", "false negative"],
        ["10/20", "20/30", "30/40", "10/40"],
    ],
)
def test_classes_that_consist_of_parts_are_classes(names: list[str]) -> None:
    frame = news(kind=names * (ROWS // 4))
    assert len(opened(frame, label="kind").class_names) == 4


def test_columns_that_do_not_exist_are_refused() -> None:
    with pytest.raises(SourceError, match=r"no column 'txt' \(columns=\): did you mean 'text'"):
        opened(news(), columns=("txt",))
    with pytest.raises(SourceError, match="the labels or ids"):
        opened(news(), columns=("topic",))
