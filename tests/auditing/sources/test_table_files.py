"""Tables in files: what is read, what is written back, and what is said about broken ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet as parquet
import pytest

from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.table_files import open_table_file
from discrimloss.auditing.sources.tables import FileRows


def table(folder: Path, name: str, content: str | bytes) -> FileRows:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return open_table_file(path)


def complaint(folder: Path, name: str, content: str | bytes) -> str:
    with pytest.raises(SourceError) as caught:
        len(table(folder, name, content))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Reading.


def test_types_of_a_csv_file(tmp_path):
    rows = table(
        tmp_path,
        "t.csv",
        "whole,real,gaps,truth,name,code\n1,0.5,1,true,NA,007\n-2,1e3,na,False,,012\n+3,2,,,x,1\n",
    )
    frame = rows.frame()
    assert len(rows) == 3
    assert frame["whole"].tolist() == [1, -2, 3]
    assert frame["whole"].dtype == np.int64
    assert frame["real"].tolist() == [0.5, 1000.0, 2.0]
    assert frame["gaps"].isna().tolist() == [False, True, True]
    assert frame["truth"].tolist() == [True, False, pandas.NA]
    assert frame["name"].tolist() == ["NA", None, "x"]  # a text may be called NA
    assert frame["code"].tolist() == ["007", "012", "1"]  # leading zeros: no numbers
    assert rows.texts("gaps") == ["1", "na", None]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_delimiters_marks_and_quoted_newlines(tmp_path, delimiter, mark):
    text = 'a;"b, c";d\r\n1;"x;y\r\n""z""";2\r\n\r\n3;";";4\r\n'
    if delimiter != ";":
        text = text.replace(";", delimiter)
    rows = table(tmp_path, "t.csv", mark + text)
    assert rows.columns == ("a", "b, c", "d")
    assert rows.frame()["b, c"].tolist() == [f'x{delimiter}y\r\n"z"', delimiter]
    assert rows.frame()["d"].tolist() == [2, 4]
    assert rows.row(1) == (("a", "3"), ("b, c", delimiter), ("d", "4"))


def test_a_quote_behind_another_delimiter_opens_nothing(tmp_path):
    rows = table(tmp_path, "t.csv", 'a,b\n1,"x;""y"""\n')
    assert rows.texts("b") == ['x;"y"']


@pytest.mark.parametrize("last", ["x", '"x"', '""', "", '"a""b"', 'a"b', '"a\nb"', '"x"y'])
@pytest.mark.parametrize("ending", ["", "\n", "\r\n\r\n"])
def test_any_last_cell_is_read(tmp_path, last, ending):
    rows = table(tmp_path, "t.csv", f"a,b\n1,2\n3,{last}{ending}")
    expected = {'""': None, "": None, '"a""b"': 'a"b', 'a"b': 'a"b', '"x"y': "xy"}
    assert rows.texts("b") == ["2", expected.get(last, last.strip('"'))]


def test_commas_are_decimal_between_semicolons(tmp_path):
    rows = table(tmp_path, "t.csv", "x;label\n1,5;2,5\n2;3\n")
    assert rows.frame()["x"].tolist() == [1.5, 2.0]
    rows.write(tmp_path / "new.csv", {1: 3.25}, "label", ())
    assert (tmp_path / "new.csv").read_text() == "x;label\n1,5;2,5\n2;3,25\n"


def test_keys_of_json_lines_may_be_missing(tmp_path):
    rows = table(tmp_path, "t.jsonl", '{"a": 1}\n\n{"b": "x", "a": null}\n{"a": 2.5, "b": "None"}')
    assert rows.columns == ("a", "b")
    assert rows.frame()["a"].isna().tolist() == [False, True, False]
    assert rows.raw_labels("b").tolist() == [None, "x", "None"]
    assert rows.row(1) == (("a", ""), ("b", "x"))


def test_rows_of_parquet_come_from_their_row_group(tmp_path):
    frame = pandas.DataFrame({"a": range(10), "b": [f"t{i}" for i in range(10)]})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=3)
    rows = open_table_file(tmp_path / "t.parquet")
    assert [rows.row(i) for i in (9, 0, 3)] == [(("a", str(i)), ("b", f"t{i}")) for i in (9, 0, 3)]


def test_the_checksum_notices_any_other_byte(tmp_path):
    before = table(tmp_path, "t.csv", "a,b\n1,2\n").checksum()
    assert table(tmp_path, "t.csv", "a,b\n1,2\n").checksum() == before
    assert table(tmp_path, "t.csv", "a,b\n1,3\n").checksum() != before


# Writing.


def test_a_csv_file_changes_in_corrected_cells_only(tmp_path):
    text = (
        '\ufeff"id";"note";"label"\r\n'
        '"1";"a;b\r\nc";"cat"\r\n'
        "2; 1.50 ;cat\r\n"
        "\r\n"
        '3;"q""q";dog\r\n'
        "4;;\r\n"
        "5;last;dog"
    )
    rows = table(tmp_path, "t.csv", text)
    rows.write(tmp_path / "new.csv", {0: "dog", 1: 'a "new"; one', 4: "cat"}, "label", {2})
    expected = (
        '\ufeff"id";"note";"label"\r\n'
        '"1";"a;b\r\nc";"dog"\r\n'
        '2; 1.50 ;"a ""new""; one"\r\n'
        "\r\n"
        "4;;\r\n"
        "5;last;cat"
    )
    assert (tmp_path / "new.csv").read_bytes().decode() == expected
    again = open_table_file(tmp_path / "new.csv")
    assert again.texts("label") == ["dog", 'a "new"; one', None, "cat"]


def test_a_class_is_spelt_as_in_the_file(tmp_path):
    rows = table(tmp_path, "t.csv", "x,label\n1,1.0\n2,2.0\n")
    rows.write(tmp_path / "new.csv", {0: "2"}, "label", ())
    assert (tmp_path / "new.csv").read_text() == "x,label\n1,2.0\n2,2.0\n"


def test_json_lines_stay_as_they_are(tmp_path):
    lines = [
        '{"x":1.50,"label":"cät"}\r\n',
        "\n",
        '{"label": "dog", "x": [1, {"y": null}]}\n',
        '{"x": 3}\n',
        '{"x":  4, "label": "dog"}',
    ]
    rows = table(tmp_path, "t.jsonl", "".join(lines))
    rows.write(tmp_path / "new.jsonl", {0: "dög", 1: "cät"}, "label", {2})
    assert (tmp_path / "new.jsonl").read_bytes().decode() == "".join(
        [
            '{"x":1.5,"label":"dög"}\r\n',
            "\n",
            '{"label": "cät", "x": [1, {"y": null}]}\n',
            '{"x":  4, "label": "dog"}',
        ]
    )


@pytest.mark.parametrize(
    ("labels", "new", "expected"),
    [
        ([1, 2, 1], "2", 2),
        ([1.0, 2.0, 1.0], "2", 2.0),
        ([True, False, True], "False", False),
        (["1", "2", "1"], "2", "2"),
        ([0.5, 1.5, 2.5], 3.0, 3.0),
        ([1, 2, 1], "new", "new"),
    ],
)
def test_labels_of_json_lines_keep_their_type(tmp_path, labels, new, expected):
    content = "".join(json.dumps({"label": label}) + "\n" for label in labels)
    rows = table(tmp_path, "t.jsonl", content)
    rows.write(tmp_path / "new.jsonl", {0: new}, "label", ())
    written = json.loads((tmp_path / "new.jsonl").read_text().splitlines()[0])["label"]
    assert (written, type(written)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("kind", "values", "new", "expected"),
    [
        (pyarrow.string(), ["a", None, "b", "a"], "c", "c"),
        (pyarrow.large_string(), ["a", None, "b", "a"], "b", "b"),
        (pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), ["a", None, "b", "a"], "c", "c"),
        (pyarrow.int16(), [1, None, 2, 1], "2", 2),
        (pyarrow.int64(), [1, None, 2, 1], 7.0, 7),
        (pyarrow.float32(), [1.5, None, 2.5, 1.0], 0.5, 0.5),
        (pyarrow.bool_(), [True, None, False, True], "False", False),
    ],
    ids=str,
)
def test_parquet_keeps_schema_metadata_and_row_groups(tmp_path, kind, values, new, expected):
    schema = pyarrow.schema(
        [
            pyarrow.field("x", pyarrow.list_(pyarrow.int32())),
            pyarrow.field("label", kind, metadata={"unit": "none"}),
        ],
        metadata={"made by": "hand"},
    )
    content = pyarrow.table([[[1], [], None, [2, 3]], pyarrow.array(values, kind)], schema=schema)
    parquet.write_table(content, tmp_path / "t.parquet", row_group_size=2, compression="gzip")
    rows = open_table_file(tmp_path / "t.parquet")
    rows.write(tmp_path / "new.parquet", {3: new}, "label", {0})
    schema = parquet.read_schema(tmp_path / "t.parquet")
    assert schema.metadata == {b"made by": b"hand"}
    with parquet.ParquetFile(tmp_path / "new.parquet") as file:
        written = file.read()
        assert file.schema_arrow.equals(schema, check_metadata=True)
        assert [file.metadata.row_group(i).num_rows for i in range(2)] == [1, 2]
        assert file.metadata.row_group(0).column(0).compression == "GZIP"
    assert written["x"].to_pylist() == [[], None, [2, 3]]
    assert written["label"].to_pylist() == [None, values[2], expected]


def test_a_label_that_a_column_cannot_hold_is_refused(tmp_path):
    frame = pandas.DataFrame({"label": [1, 2, 1], "truth": [True, False, True]})
    frame.to_parquet(tmp_path / "t.parquet")
    rows = open_table_file(tmp_path / "t.parquet")
    for column, label in (("label", "cat"), ("label", 1.5), ("truth", "cat")):
        with pytest.raises(SourceError, match=f"column '{column}' holds .* {label!r}"):
            rows.write(tmp_path / "new.parquet", {0: label}, column, ())
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


# Broken files.


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("t.csv", "", "is empty"),
        ("t.csv", "\n\n", "is empty"),
        ("t.csv", "a,b\n", "has no rows"),
        ("t.csv", 'a,b\n1,"2\n3"\n4,5,6\n', r"line 4 of .* has 3 cells and the header has 2"),
        ("t.csv", "a,b\n1,2\n3\n", r"line 3 of .* has 1 cells"),
        ("t.csv", 'a,b\n1,2\n3,"4\n5,6\n', "quote that opens in line 3 is never closed"),
        ("t.csv", "a,b\n" + 200 * "1,2\n" + '3,"4\n5,6\n', "opens in line 202 is never closed"),
        ("t.csv", 'a,b\n1,2\n3,"', "quote that opens in line 3 is never closed"),
        ("t.csv", 'a,b\n1,2\n"3,4\n5,6\n', "line 3"),
        ("t.csv", "a,b\n1,éé\n".encode() + b"2,\xe9\n", r"line 3 of .* is not in UTF-8, though"),
        ("t.csv.gz", b"no archive", "cannot read .*: pack it again"),
        ("t.json", "3", "contains no table"),
        ("t.json", '{"a": 1}', "contains no table"),
        ("t.json", '{"a": ', "cannot read .* as JSON"),
        ("t.feather", "x", "cannot read .* as a Feather file"),
        ("t.db", "x" * 100, "cannot read .*check the URL"),
        ("t.csv", "a,b,a\n1,2,3\n", "two columns named 'a'"),
        ("t.jsonl", "", "is empty"),
        ("t.jsonl", "\n", "has no rows"),
        ("t.jsonl", '{"a": 1}\n{"a": \n', r"line 2 of .* is not JSON"),
        ("t.jsonl", '{"a": 1}\n\n[1]\n', r"line 3 of .* is no JSON object"),
        ("t.jsonl", b'{"a": 1}\n{"a": "\xff"}\n', r"line 2 of .* is not in UTF-8"),
        ("t.parquet", "PAR1", "cannot read .* as a Parquet file"),
        ("t.xlsx", "x", "cannot read .* as an Excel workbook"),
        ("t.xls", "x", "must end in"),
        ("t.parquet.gz", "x", "may be compressed"),
    ],
)
def test_a_broken_file_gets_a_sentence(tmp_path, name, content, sentence):
    assert re.search(sentence, complaint(tmp_path, name, content))


def test_a_table_that_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("discrimloss.auditing.sources.features.free_memory", lambda: 10)
    assert "GB of memory" in complaint(tmp_path, "t.csv", "a,b\n1,2\n3,4\n")
