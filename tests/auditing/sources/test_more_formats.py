"""Encodings, compressed files, JSON, Excel, Feather and databases: read, and written back."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

from discrimloss.auditing.sources.base import (
    AuditSource,
    Corrections,
    SourceError,
    SourceOptions,
)
from discrimloss.auditing.sources.open_source import absolute, open_source
from discrimloss.auditing.sources.text_files import Encoding, find_encoding

ROWS = 30
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "größe": RNG.normal(size=ROWS).round(3),
        "farbe": RNG.choice(["rot", "grün", "weiß"], ROWS),
        "label": np.array(["süß", "sauer"])[np.arange(ROWS) % 2],
    }
)
CORRECTIONS = Corrections({0: "sauer", 3: "süß"}, frozenset({2, 5}))


def corrected() -> pd.DataFrame:
    frame = FRAME.copy()
    frame.loc[[0, 3], "label"] = ["sauer", "süß"]
    return frame.drop(index=[2, 5]).reset_index(drop=True)


def opened(path: Path | str, **options: str) -> AuditSource:
    return open_source(SourceOptions(absolute(path), label="label", **options))


WRITERS: dict[str, tuple[Callable[[Path], object], Callable[[Path], pd.DataFrame]]] = {
    "t.csv.gz": (lambda path: FRAME.to_csv(path, index=False), pd.read_csv),
    "t.tsv.bz2": (
        lambda path: FRAME.to_csv(path, index=False, sep="\t"),
        lambda path: pd.read_csv(path, sep="\t"),
    ),
    "t.csv.xz": (lambda path: FRAME.to_csv(path, index=False), pd.read_csv),
    "t.jsonl.gz": (
        lambda path: FRAME.to_json(path, orient="records", lines=True),
        lambda path: pd.read_json(path, lines=True),
    ),
    "t.json": (lambda path: FRAME.to_json(path, orient="records", indent=2), pd.read_json),
    "columns.json": (FRAME.to_json, pd.read_json),
    "lists.json": (
        lambda path: path.write_text(json.dumps(FRAME.to_dict("list"))),
        pd.read_json,
    ),
    "t.feather": (FRAME.to_feather, pd.read_feather),
    "t.xlsx": (lambda path: FRAME.to_excel(path, index=False), pd.read_excel),
}


@pytest.mark.parametrize("name", WRITERS)
def test_there_and_back(tmp_path: Path, name: str) -> None:
    write, read = WRITERS[name]
    write(tmp_path / name)
    source = opened(tmp_path / name)
    assert source.class_names == ("sauer", "süß")
    assert [column.name for column in source.contents.learned_from] == ["größe", "farbe"]
    (tmp_path / "out").mkdir()
    [path] = source.write_corrected(CORRECTIONS, tmp_path / "out")
    assert path.name == name
    pd.testing.assert_frame_equal(read(path).reset_index(drop=True), corrected())
    assert source.fingerprint() == opened(tmp_path / name).fingerprint()


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-be", "utf-8-sig"])
def test_any_encoding_comes_back_byte_for_byte(tmp_path: Path, encoding: str) -> None:
    text = FRAME.to_csv(index=False, sep=";", lineterminator="\r\n")
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    (tmp_path / "t.csv").write_bytes((mark + text).encode(encoding))
    source = opened(tmp_path / "t.csv")
    assert source.class_names == ("sauer", "süß")
    (tmp_path / "out").mkdir()
    [path] = source.write_corrected(CORRECTIONS, tmp_path / "out")
    after = corrected().to_csv(index=False, sep=";", lineterminator="\r\n")
    assert path.read_bytes() == (mark + after).encode(encoding)


def test_a_label_that_the_encoding_cannot_write_is_refused(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "t.csv", index=False, encoding="latin-1")
    source = opened(tmp_path / "t.csv")
    source.require_class("bitter")
    with pytest.raises(SourceError, match="cannot write '苦い'"):
        source.require_class("苦い")


def test_other_alphabets(tmp_path: Path) -> None:
    russian = (
        "метка;слово\n" + "хорошо;это очень хорошая книга\nплохо;мне совсем не нравится\n" * 20
    )
    (tmp_path / "t.csv").write_bytes(russian.encode("cp1251"))
    assert find_encoding(tmp_path / "t.csv") == Encoding("cp1251")
    (tmp_path / "u.csv.gz").write_bytes(gzip.compress(russian.encode()))
    assert find_encoding(tmp_path / "u.csv.gz").is_usual


def test_a_workbook_keeps_its_other_sheets(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    with pd.ExcelWriter(path) as writer:
        pd.DataFrame({"a": [1]}).to_excel(writer, sheet_name="notes", index=False)
        FRAME.to_excel(writer, sheet_name="data", index=False, startrow=2)
    source = opened(path, query="data")
    (tmp_path / "out").mkdir()
    [written] = source.write_corrected(CORRECTIONS, tmp_path / "out")
    assert openpyxl.load_workbook(written).sheetnames == ["notes", "data"]
    again = pd.read_excel(written, sheet_name="data", skiprows=2)
    pd.testing.assert_frame_equal(again, corrected())
    with pytest.raises(SourceError, match="no sheet 'dat'"):
        opened(path, query="dat")


@pytest.mark.parametrize("form", ["t.db", "sqlite:///t.db"])
def test_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("t.db") as connection:
        FRAME.to_sql("taste", connection, index=False)
    connection.close()
    before = Path("t.db").read_bytes()
    source = opened(form)
    [path] = source.write_corrected(CORRECTIONS, tmp_path)
    assert path.name == "taste.csv"
    pd.testing.assert_frame_equal(pd.read_csv(path), corrected())
    assert source.note_on_corrected() == "The database itself does not change."
    few = opened(form, query="SELECT * FROM taste WHERE farbe != 'rot'")
    assert len(few) == (FRAME.farbe != "rot").sum()
    assert Path("t.db").read_bytes() == before
    with pytest.raises(SourceError, match=r"no table 'tast'.*'taste'"):
        opened(form, query="tast")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("postgresql://me:secret@host/db", "contains a password"),
        ("sqlite:///nowhere.db", "there is no file"),
        ("nosuch://host/db", "check the URL"),
    ],
)
def test_databases_that_cannot_be_read(url: str, sentence: str) -> None:
    with pytest.raises(SourceError, match=sentence) as caught:
        opened(url)
    assert "secret" not in str(caught.value)


def test_a_query_for_a_plain_file_is_refused(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(SourceError, match="--query does not fit"):
        opened(tmp_path / "t.csv", query="x")
