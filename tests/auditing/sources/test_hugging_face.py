from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from command_line import snapshot
from tiny_images import COLOURS, picture, png

from discrimloss.auditing.sources.base import AuditSource, Corrections, SourceError, SourceOptions
from discrimloss.auditing.sources.contents import LearnedColumn
from discrimloss.auditing.sources.open_source import open_source

NAMES = ["blue", "red"]
TEXTS = ["what a nice film", "what a sad film", "nice and nice again", "sad, so sad it is", ""]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def saved(path: Path, columns: dict[str, Any], **features: Any) -> Path:
    dataset = datasets.Dataset.from_dict(columns)
    for name, feature in features.items():
        dataset = dataset.cast_column(name, feature)
    dataset.save_to_disk(path)
    return path


def opened(path: Path, **options: Any) -> AuditSource:
    return open_source(SourceOptions(str(path), **options))


def images(path: Path) -> Path:
    encoded = [png(picture(COLOURS[name])) for name in ("blue", "red", "blue", "red")]
    cells = [{"bytes": data, "path": None} for data in (*encoded, b"broken")]
    columns = {"image": [*cells, None], "label": [0, 1, 0, -1, 1, 1], "n": list(range(6))}
    return saved(path, columns, image=datasets.Image(), label=datasets.ClassLabel(names=NAMES))


def test_images_with_named_classes(tmp_path: Path) -> None:
    source = opened(images(tmp_path / "set"))
    assert (source.kind, source.class_names) == ("images", ("blue", "red"))
    assert source.ids == ("0", "1", "2")
    assert source.target.tolist() == [0, 1, 0]
    assert [(one.id, one.reason) for one in source.left_out] == [
        ("3", "no label"),
        ("4", "cannot be decoded (cannot identify image file)"),
        ("5", "no image"),
    ]
    assert source.notes[0] == "the labels are the column 'label'"
    pixels = source.task(tmp_path / "cache").train.inputs.rows(torch.arange(3))
    assert pixels.float().mean((2, 3)).argmax(1).tolist() == [2, 0, 2]
    view = source.view(1)
    assert view.image is not None
    assert view.fields == (("n", "1"), ("size", "40 × 36"))


def test_a_corrected_dataset_keeps_its_features(tmp_path: Path) -> None:
    path = images(tmp_path / "set")
    before = datasets.load_from_disk(path)
    corrections = Corrections({0: "red", 2: "green"}, frozenset({1}))
    written = opened(path).write_corrected(corrections, tmp_path / "out")
    assert written == [tmp_path / "out" / "set"]
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["set"]
    after = datasets.load_from_disk(written[0])
    assert after.features["label"].names == ["blue", "red", "green"]
    assert after["n"][:] == [0, 2, 3, 4, 5]
    assert after["label"][:] == [1, 2, -1, 1, 1]
    assert after.features["image"] == before.features["image"]
    assert after.data["image"][0] == before.data["image"][0]
    assert after.data["image"][4].as_py() is None
    assert datasets.load_from_disk(path)["label"][:] == [0, 1, 0, -1, 1, 1]


def test_the_training_split_is_audited_and_the_others_are_kept(tmp_path: Path) -> None:
    one = datasets.load_from_disk(images(tmp_path / "one"))
    splits = datasets.DatasetDict({"train": one, "test": one.select([3, 1])})
    splits.save_to_disk(tmp_path / "set")
    before = snapshot(tmp_path / "set")
    source = opened(tmp_path / "set")
    assert source.notes[0] == "the split 'train' is audited"
    written = source.write_corrected(Corrections({0: "green"}), tmp_path / "out")
    after = datasets.load_from_disk(written[0])
    assert list(after) == ["train", "test"]
    assert after["train"]["label"][:] == [2, 1, 0, -1, 1, 1]
    assert after["test"]["label"][:] == [-1, 1]
    assert after["test"].features == after["train"].features
    assert snapshot(tmp_path / "set") == before
    assert opened(tmp_path / "set" / "test", label="n", regression=True).ids == ("0", "1")


def test_which_split_must_be_clear(tmp_path: Path) -> None:
    one = datasets.load_from_disk(images(tmp_path / "one"))
    datasets.DatasetDict({"a": one, "b": one}).save_to_disk(tmp_path / "set")
    with pytest.raises(SourceError, match=r"has the splits a, b: audit one of them, e.g. .*/set/a"):
        opened(tmp_path / "set")


def test_texts(tmp_path: Path) -> None:
    columns = {"text": TEXTS, "label": ["good", "bad", "good", "bad", "bad"]}
    source = opened(saved(tmp_path / "set", columns))
    assert (source.kind, source.class_names) == ("text", ("bad", "good"))
    assert source.notes[0] == "the labels are the column 'label'"
    assert source.contents.learned_from == (LearnedColumn("text", "texts"),)
    assert [(one.id, one.reason) for one in source.left_out] == [("4", "no text")]
    assert source.view(1).text == "what a sad film"
    assert source.fingerprint() == opened(tmp_path / "set").fingerprint()
    written = source.write_corrected(Corrections({1: "good"}, frozenset({0})), tmp_path / "out")
    after = datasets.load_from_disk(written[0])
    assert after["label"][:] == ["good", "good", "bad", "bad"]
    assert after["text"][:] == TEXTS[1:]


def test_tables(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=12)
    columns = {
        "width": numbers.tolist(),
        "shape": ["round", "long", "flat"] * 4,
        "kind": [0, 1] * 6,
        "price": (3 * numbers).tolist(),
    }
    path = saved(tmp_path / "set", columns, kind=datasets.ClassLabel(names=["old", "new"]))
    source = opened(path)
    assert (source.kind, source.class_names) == ("table", ("new", "old"))
    assert source.target.tolist() == [1, 0] * 6
    assert dict(source.view(0).fields)["shape"] == "round"
    source = opened(path, label="price")
    assert source.is_regression
    assert dict(source.view(0).fields)["kind"] == "old"
    assert source.task(tmp_path / "cache").train.inputs.rows(torch.arange(12)).isfinite().all()
    written = source.write_corrected(Corrections({0: 7.5}), tmp_path / "out")
    assert datasets.load_from_disk(written[0])["price"][:] == [7.5, *columns["price"][1:]]


def test_datasets_that_cannot_be_audited(tmp_path: Path) -> None:
    path = images(tmp_path / "set")
    for options, sentence in (
        ({"label": "lable"}, "no column 'lable'"),
        ({"image": "n"}, "'n' of set contains no images"),
        ({"text": "n", "image": "image"}, "exclude each other"),
    ):
        with pytest.raises(SourceError, match=sentence):
            opened(path, **options)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "state.json").write_text("{")
    with pytest.raises(SourceError, match=r"cannot read .* as a saved dataset"):
        opened(tmp_path / "broken")


def test_a_failed_save_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = opened(images(tmp_path / "set"))

    def full(self: Any, path: str, **_: object) -> None:
        Path(path).mkdir(parents=True)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(datasets.Dataset, "save_to_disk", full)
    with pytest.raises(SourceError, match=r"cannot write .*No space left"):
        source.write_corrected(Corrections({0: "red"}), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
