from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_images import COLOURS, picture, write_colours

from discrimloss.auditing.sources.base import AuditSource, Corrections, SourceError, SourceOptions
from discrimloss.auditing.sources.open_source import open_source

TABLE = """file,colour,taken
colours/blue/0.png,blue,Monday
colours/red/0.png,red,Tuesday
colours/blue/1.png,blue,
colours/red/1.png,,Monday
colours/red/2.png,blue,Monday
"""


def opened(path: Path, **options: Any) -> AuditSource:
    return open_source(SourceOptions(str(path), **options))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_colours(tmp_path / "colours")
    path = tmp_path / "labels.csv"
    path.write_text(TABLE)
    return path


def test_a_column_of_paths_is_found(table: Path, tmp_path: Path) -> None:
    source = opened(table, label="colour")
    assert source.kind == "images"
    assert source.class_names == ("blue", "red")
    assert source.ids == tuple(
        f"colours/{name}.png" for name in ("blue/0", "red/0", "blue/1", "red/2")
    )
    assert [(one.id, one.reason) for one in source.left_out] == [("colours/red/1.png", "no label")]
    task = source.task(tmp_path / "cache")
    assert task.input_shape == (3, 36, 36)
    means = task.train.inputs.rows(torch.arange(4)).float().mean((2, 3))
    assert means.argmax(1).tolist() == [2, 0, 2, 0]
    view = source.view(1)
    assert view.image is not None
    assert view.fields == (
        ("file", "colours/red/0.png"),
        ("taken", "Tuesday"),
        ("size", "40 × 36"),
    )


def test_rows_without_a_picture_are_left_out(table: Path) -> None:
    (table.parent / "broken.png").write_text("x")
    more = f"missing.png,red,\n,red,\nbroken.png,red,\n{table.parent / 'colours/red/1.png'},red,\n"
    table.write_text(TABLE + more)
    source = opened(table, label="colour", image="file")
    assert [(one.id, one.reason) for one in source.left_out] == [
        ("3", "no label"),
        ("5", "cannot be read (No such file or directory)"),
        ("6", "no image"),
        ("7", "cannot be decoded (cannot identify image file)"),
    ]
    assert source.ids == ("0", "1", "2", "4", "8")  # paths are no names here: one is missing
    assert dict(source.view(4).fields)["file"] == str(table.parent / "colours/red/1.png")


def test_a_corrected_table(table: Path, tmp_path: Path) -> None:
    source = opened(table, label="colour")
    out = tmp_path / "out"
    out.mkdir()
    written = source.write_corrected(Corrections({3: "red"}, frozenset({0})), out)
    lines = TABLE.splitlines(keepends=True)
    expected = [lines[0], *lines[2:5], lines[5].replace("blue", "red")]
    assert written == [out / "labels.csv"]
    assert written[0].read_text() == "".join(expected)
    note = source.note_on_corrected()
    assert note is not None
    assert f"relative to {table.parent}" in note


def test_absolute_paths_need_no_note(table: Path) -> None:
    table.write_text(TABLE.replace("colours/", f"{table.parent}/colours/"))
    assert opened(table, label="colour").note_on_corrected() is None


def test_another_picture_is_another_fingerprint(table: Path) -> None:
    first = opened(table, label="colour").fingerprint()
    assert opened(table, label="colour").fingerprint() == first
    picture(COLOURS["red"], (9, 9)).save(table.parent / "colours" / "red" / "0.png")
    assert opened(table, label="colour").fingerprint() != first


def test_no_picture_at_all_is_a_sentence(table: Path) -> None:
    with pytest.raises(SourceError, match=r"no row of labels.csv can be audited: 'cannot be read"):
        opened(table, label="colour", image="taken")
