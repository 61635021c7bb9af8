"""Data in memory: what is understood, what is left out, what comes back, what is refused."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas
import pyarrow
import pytest
import torch
from command_line import snapshot
from scipy import sparse
from tiny_images import COLOURS, picture, png, write_colours
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from discrimloss.auditing.sources.base import AuditSource, Corrections, SourceError, SourceOptions
from discrimloss.auditing.sources.open_source import in_python, open_data

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(12, 4)).astype(np.float32)
LABELS = np.arange(12) % 3
NAMES = np.array(["ant", "bee", "cow"])[LABELS]
TEXTS = [f"{name} number {row}" for row, name in enumerate(NAMES)]


def opened(data: Any, **options: Any) -> AuditSource:
    return open_data(data, SourceOptions(**options))


def frame() -> pandas.DataFrame:
    return pandas.DataFrame(
        {
            "size": RNG.normal(size=12),
            "colour": ["red", "blue"] * 6,
            "text": TEXTS,
            "kind": NAMES,
        }
    )


def names(source: AuditSource) -> list[str]:
    return [source.class_names[code] for code in source.target]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# Data frames.


def test_a_frame_is_a_table() -> None:
    data = frame().drop(columns="text")
    data.loc[2, "kind"] = None
    source = opened(data, label="kind")
    assert (source.kind, source.name) == ("table", "the DataFrame")
    assert source.ids == tuple(str(row) for row in range(12) if row != 2)
    assert [(one.id, one.reason) for one in source.left_out] == [("2", "no label")]
    assert names(source) == [*NAMES[:2], *NAMES[3:]]
    task = source.task()
    assert task.train.inputs.rows(torch.arange(11)).isfinite().all()
    assert task.input_shape == (2,)  # size, and which of two colours
    assert [name for name, _ in source.view(0).fields] == ["size", "colour"]


def test_columns_may_have_numbers_as_names() -> None:
    data = pandas.DataFrame({0: FEATURES[:, 0], 1: FEATURES[:, 1], 2: NAMES})
    source = open_data(data, SourceOptions(label=2))  # type: ignore[arg-type]
    assert (names(source), source.task().input_shape) == (NAMES.tolist(), (2,))
    assert source.corrected(Corrections({0: "cow"}))[2].tolist() == ["cow", *NAMES[1:]]


def test_the_index_names_the_samples() -> None:
    data = frame().drop(columns="text").set_axis([f"s{row}" for row in range(12)])
    source = opened(data, label="kind")
    assert source.ids[:2] == ("s0", "s1")
    twice = data.set_axis(["same"] * 12)
    assert opened(twice, label="kind").ids[:2] == ("0", "1")
    with_ids = frame().assign(name=[f"n{row}" for row in range(12)])
    assert opened(with_ids, label="kind", text="text", id="name").ids[3] == "n3"


def test_texts_of_a_frame() -> None:
    data = frame()
    data.loc[[1, 4], "text"] = [None, " "]
    source = opened(data, label="kind", text="text")
    assert source.kind == "text"
    assert [(one.id, one.reason) for one in source.left_out] == [("1", "no text"), ("4", "no text")]
    assert source.view(1).text == TEXTS[2]
    assert len(source.task().train) == 10


@pytest.mark.parametrize("kind", ["path", "image", "bytes", "pixels"])
def test_images_in_a_column(tmp_path: Path, kind: str) -> None:
    folder = write_colours(tmp_path / "colours", per_class=2)
    files = sorted(folder.rglob("*.png"))
    cells: list[Any] = {
        "path": [str(file.relative_to(tmp_path)) for file in files],
        "image": [picture(COLOURS[file.parent.name]) for file in files],
        "bytes": [file.read_bytes() for file in files],
        "pixels": [np.asarray(picture(COLOURS[file.parent.name])) for file in files],
    }[kind]
    data = pandas.DataFrame({"file": cells, "colour": [file.parent.name for file in files]})
    source = opened(data, label="colour", image="file")
    assert (source.kind, source.class_names) == ("images", ("blue", "green", "red"))
    pixels = source.task().train.inputs.rows(torch.arange(6))
    strongest = pixels.float().mean((2, 3)).argmax(1).tolist()
    assert [["red", "green", "blue"][channel] for channel in strongest] == names(source)
    assert source.view(0).image is not None
    if kind in ("path", "image"):  # also without a hint
        assert opened(data, label="colour").kind == "images"


def test_a_corrected_frame() -> None:
    data = frame()
    data.loc[2, "kind"] = None
    before = data.copy()
    source = opened(data, label="kind", text="text")
    # Sample 2 is row 3, as row 2 has no label.
    corrected = source.corrected(Corrections({0: "cow", 2: "dog"}, frozenset({1})))
    expected = data.copy()
    expected.loc[[0, 3], "kind"] = ["cow", "dog"]
    pandas.testing.assert_frame_equal(corrected, expected.drop(index=1))
    pandas.testing.assert_frame_equal(data, before)


@pytest.mark.parametrize(
    ("labels", "new", "expected", "dtype"),
    [
        (pandas.Series(LABELS), "2", 2, "int64"),
        (pandas.Series(LABELS, dtype="int8"), "7", 7, "int8"),
        (pandas.Series(LABELS, dtype="int8"), "300", 300, "int64"),
        (pandas.Series(LABELS, dtype="Int64"), "2", 2, "Int64"),
        (pandas.Series(LABELS.astype(float)), "2", 2.0, "float64"),
        (pandas.Series(LABELS > 0), "True", True, "bool"),
        (pandas.Series(NAMES, dtype="category"), "dog", "dog", "category"),
        (pandas.Series(NAMES, dtype="string"), "dog", "dog", "string"),
    ],
    ids=["int64", "int8", "larger", "Int64", "float64", "bool", "category", "string"],
)
def test_columns_keep_their_type(
    labels: pandas.Series, new: str, expected: Any, dtype: str
) -> None:
    data = pandas.DataFrame({"size": np.arange(12) ** 2, "kind": labels})
    source = opened(data, label="kind", regression=False)
    corrected = source.corrected(Corrections({0: new}))["kind"]
    assert (corrected.iloc[0], str(corrected.dtype)) == (expected, dtype)
    assert corrected.iloc[1:].tolist() == labels.iloc[1:].tolist()


def test_regression_targets_of_a_frame() -> None:
    data = pandas.DataFrame({"size": FEATURES[:, 0], "age": np.arange(12) * 7 + 3})
    source = opened(data, label="age", regression=True)
    assert source.is_regression
    corrected = source.corrected(Corrections({0: 2.5}, frozenset({11})))
    assert corrected["age"].tolist() == [2.5, *data["age"].tolist()[1:11]]
    assert opened(data, label="age", regression=True).fingerprint() == source.fingerprint()
    other = data.assign(size=0.0)
    other.loc[0, "size"] = 1.0
    assert opened(other, label="age", regression=True).fingerprint() != source.fingerprint()


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl", ".tsv"])
def test_a_frame_goes_to_the_file_that_is_named(tmp_path: Path, suffix: str) -> None:
    source = opened(frame(), label="kind", text="text")
    path = source.save_corrected(Corrections({0: "cow"}, frozenset({1})), tmp_path / f"a{suffix}")
    again = open_data(str(path), SourceOptions(label="kind", text="text"))
    assert names(again) == ["cow", *NAMES[2:]]
    with pytest.raises(SourceError, match=r"must end in \.csv"):
        source.save_corrected(Corrections(), tmp_path / "a.docx")
    assert source.write_corrected(Corrections(), tmp_path / "out") == [
        tmp_path / "out" / "corrected.csv"
    ]


@pytest.mark.parametrize(
    ("data", "options", "sentence"),
    [
        (frame(), {}, "label=: it has size, colour, text, kind"),
        (frame(), {"label": "kin"}, r"the DataFrame has no column 'kin' \(label=\): did you mean"),
        (frame(), {"label": "kind", "text": "txt"}, r"'txt' \(text=\): did you mean 'text'"),
        (frame(), {"label": "kind", "id": "colour"}, "same id 'red'"),
        (frame().iloc[:0], {"label": "kind"}, "the DataFrame has no rows"),
        (frame().assign(kind=None), {"label": "kind"}, "all 12 labels are missing"),
        (frame().assign(kind="x"), {"label": "kind"}, "all labels are 'x'"),
        (frame().assign(kind=[[1]] * 12), {"label": "kind"}, "a label is a list or an object"),
        (frame().drop(columns="text"), {"label": "kind", "encoder": "x"}, "encoder= does not fit"),
        (frame(), {"label": "kind", "text": "text", "image": "text"}, "exclude each other"),
        (frame().assign(i=[datetime.date(2020, 1, 1)] * 12), {"label": "kind", "image": "i"},
         "contains a date: it must be an image"),
        (pandas.concat([frame(), frame()[["kind"]]], axis=1), {"label": "kind"},
         "two columns named 'kind'"),
    ],
)  # fmt: skip
def test_frames_that_cannot_be_audited(data: Any, options: Any, sentence: str) -> None:
    with pytest.raises(SourceError, match=sentence):
        opened(data, **options)


# Pairs.


@pytest.mark.parametrize(
    "inputs",
    [
        FEATURES,
        torch.from_numpy(FEATURES),
        FEATURES.tolist(),
        list(FEATURES),
        list(torch.from_numpy(FEATURES)),
        sparse.csr_matrix(FEATURES),
        FEATURES.astype(object),
        torch.from_numpy(FEATURES).to_sparse(),
    ],
    ids=["array", "tensor", "lists", "rows", "tensors", "sparse", "objects", "sparse tensor"],
)
def test_features_of_any_container(inputs: Any) -> None:
    source = opened((inputs, LABELS))
    assert (source.kind, source.class_names) == ("features", ("0", "1", "2"))
    rows = source.task().train.inputs.rows(torch.arange(12))
    expected = opened((FEATURES, LABELS)).task().train.inputs.rows(torch.arange(12))
    assert torch.allclose(rows, expected, atol=1e-5)
    assert source.ids[11] == "11"
    assert source.view(0).fields[0][0] == "features"
    kept, labels = source.corrected(Corrections({0: "2"}, frozenset({1, 3})))
    assert type(kept) is type(inputs)
    kept = kept.to_dense() if isinstance(kept, torch.Tensor) else kept
    dense = kept.toarray() if sparse.issparse(kept) else [list(map(float, row)) for row in kept]
    assert np.allclose(dense, np.delete(FEATURES, [1, 3], axis=0))
    assert labels.tolist() == [2, 2, *LABELS[4:]]


@pytest.mark.parametrize(
    "labels",
    [
        LABELS,
        LABELS.tolist(),
        tuple(LABELS.tolist()),
        torch.from_numpy(LABELS),
        pandas.Series(LABELS),
        pandas.DataFrame({"y": LABELS}),
        LABELS.astype(object),
        LABELS[:, None],
    ],
    ids=["array", "list", "tuple", "tensor", "series", "frame", "objects", "column"],
)
def test_labels_of_any_container(labels: Any) -> None:
    source = opened((FEATURES, labels), regression=False)
    assert source.target.tolist() == LABELS.tolist()
    _, corrected = source.corrected(Corrections({0: "1"}, frozenset({2})))
    assert type(corrected) is type(labels)
    flat = np.asarray(corrected).reshape(-1)
    assert flat.tolist() == [1, *np.delete(LABELS, 2)[1:]]
    source.require_class("7")


def test_small_floats() -> None:
    targets = torch.arange(12, dtype=torch.bfloat16) / 8
    source = opened((torch.from_numpy(FEATURES).bfloat16(), targets))
    assert source.is_regression
    corrected = source.corrected(Corrections({0: 0.5}))[1]
    assert torch.equal(corrected, torch.cat([torch.tensor([0.5]).bfloat16(), targets[1:]]))


def test_names_and_regression_targets() -> None:
    source = opened((FEATURES, NAMES))
    assert source.class_names == ("ant", "bee", "cow")
    assert source.corrected(Corrections({0: "zebra"}))[1].tolist() == ["zebra", *NAMES[1:]]
    targets = FEATURES[:, 0].tolist()
    source = opened((FEATURES, targets))
    assert source.is_regression
    assert "regression=False reads them as classes" in source.notes[0]
    assert source.corrected(Corrections({1: 9.5}))[1] == [targets[0], 9.5, *targets[2:]]


def test_rows_that_cannot_be_audited_are_left_out_and_kept() -> None:
    features, labels = FEATURES.copy(), LABELS.astype(float)
    features[0, 1], labels[4] = np.nan, np.nan
    source = opened((features, labels))
    assert [(one.id, one.reason) for one in source.left_out] == [
        ("0", "a feature is NaN or infinite"),
        ("4", "no label"),
    ]
    kept, corrected = source.corrected(Corrections({0: "2"}, frozenset({1})))
    assert np.array_equal(kept, np.delete(features, 2, axis=0), equal_nan=True)
    expected = np.delete(labels, 2)
    expected[1] = 2.0
    assert np.array_equal(corrected, expected, equal_nan=True)


@pytest.mark.parametrize("shape", [(12, 16, 16, 3), (12, 3, 16, 16), (12, 1, 16, 16)])
@pytest.mark.parametrize("scale", ["bytes", "to one", "to 255", "normalised"])
def test_arrays_of_images(shape: tuple[int, ...], scale: str) -> None:
    pixels = RNG.integers(0, 256, shape).astype(np.uint8)
    pixels.reshape(-1)[:2] = (0, 255)
    inputs = {
        "bytes": pixels,
        "to one": pixels / 255,
        "to 255": pixels.astype(np.float32),
        "normalised": (pixels / 255 - 0.5) / 0.2,
    }[scale]
    source = opened((inputs, LABELS))
    assert source.kind == "images"
    rows = source.task().train.inputs.rows(torch.arange(12))
    expected = pixels.transpose(0, 3, 1, 2) if shape[3] == 3 else pixels
    assert np.array_equal(rows, expected)
    kept, _ = source.corrected(Corrections({}, frozenset({0})))
    assert np.array_equal(kept, inputs[1:])


def test_an_image_with_nan_is_left_out_and_does_not_set_the_scale() -> None:
    images = RNG.random((12, 3, 16, 16))
    expected = opened((images, LABELS)).task().train.inputs.rows(torch.arange(12))
    images[0, 0, 0, 0], images[1, 0, 0, 0] = np.nan, np.inf
    source = opened((images, LABELS))
    assert [one.id for one in source.left_out] == ["0", "1"]
    assert torch.equal(source.task().train.inputs.rows(torch.arange(10)), expected[2:])


def test_a_list_of_images() -> None:
    images = [picture(COLOURS[name]) for name in ("red", "blue") * 3]
    labels = ["red", "blue"] * 3
    source = opened((images, labels))
    assert (source.kind, len(source)) == ("images", 6)
    assert source.task().input_shape == (3, 36, 36)
    assert source.view(1).fields == (("sample", "1"), ("size", "40 × 36"))
    kept, corrected = source.corrected(Corrections({0: "blue"}, frozenset({1})))
    assert kept == [images[0], *images[2:]]
    assert corrected == ["blue", *labels[2:]]
    with pytest.raises(SourceError, match="use the returned data instead"):
        source.write_corrected(Corrections(), Path("out"))
    with_gap = opened(([None, *images[1:]], labels))
    assert with_gap.left_out[0].reason == "no image"


@pytest.mark.parametrize("kind", [list, tuple, np.array, pandas.Series])
def test_texts(tmp_path: Path, kind: Any) -> None:
    source = opened((kind(TEXTS), NAMES))
    assert source.kind == "text"
    assert source.view(3).text == TEXTS[3]
    assert len(source.task().train.inputs) == 12
    kept, labels = source.corrected(Corrections({0: "cow"}, frozenset({1})))
    assert list(kept) == [TEXTS[0], *TEXTS[2:]]
    assert labels.tolist() == ["cow", *NAMES[2:]]
    path = source.save_corrected(Corrections({0: "cow"}), tmp_path / "texts.csv")
    assert pandas.read_csv(path)["label"].tolist() == ["cow", *NAMES[1:]]


def test_a_frame_of_inputs_and_a_series_of_labels(tmp_path: Path) -> None:
    data = frame().set_axis([f"s{row}" for row in range(12)])
    inputs, labels = data[["size", "colour"]], data["kind"]
    source = opened((inputs, labels))
    assert (source.kind, source.ids[0]) == ("table", "s0")
    kept, corrected = source.corrected(Corrections({1: "ant"}, frozenset({0})))
    pandas.testing.assert_frame_equal(kept, inputs.iloc[1:])
    assert corrected.tolist() == ["ant", *NAMES[2:]]
    assert corrected.index[0] == "s1"
    assert opened((data[["text", "size"]], labels), text="text").kind == "text"
    [path] = source.write_corrected(Corrections({1: "ant"}), tmp_path / "out")
    assert pandas.read_csv(path, index_col=0)["label"].tolist() == ["ant", "ant", *NAMES[2:]]


def test_arrays_go_to_an_archive(tmp_path: Path) -> None:
    source = opened((FEATURES, NAMES))
    path = source.save_corrected(Corrections({0: "cow"}, frozenset({1})), tmp_path / "a.npz")
    again = open_data(path, SourceOptions())
    assert names(again) == ["cow", *NAMES[2:]]
    [path] = source.write_corrected(Corrections(), tmp_path / "out")
    assert path.name == "corrected.npz"
    with pytest.raises(SourceError, match=r"arrays go to an \.npz file"):
        source.save_corrected(Corrections(), tmp_path / "a.csv")


RAGGED = [[1.0, 2.0], [1.0]] * 6


@pytest.mark.parametrize(
    ("data", "options", "sentence"),
    [
        ((FEATURES, LABELS[:5]), {}, "12 samples, but 5 labels"),
        ((FEATURES[:0], LABELS[:0]), {}, "empty"),
        (([], []), {}, "empty"),
        ((RAGGED, LABELS), {}, "neither numbers of one shape, texts nor images"),
        (([{}] * 12, LABELS), {}, "neither numbers of one shape"),
        ((FEATURES.astype(complex), LABELS), {}, "contains complex.*pass numbers"),
        ((np.array(["2020-01-01"] * 12, dtype="M8[D]"), LABELS), {}, "pass numbers"),
        (([*TEXTS[:-1], 3], LABELS), {}, "texts and also a int"),
        (([picture(3), 3] * 6, LABELS), {}, "images and also a int"),
        ((FEATURES, FEATURES), {}, r"one label per sample.* shape \(12, 4\)"),
        ((FEATURES, np.full(12, np.nan)), {}, "all 12 labels are missing"),
        ((FEATURES, [None] * 12), {}, "all 12 labels are missing"),
        ((FEATURES, [[1]] * 12), {}, "a label is a list or an object"),
        ((FEATURES, "labels"), {}, "the labels are a str"),
        ((np.full((12, 4), np.nan), LABELS), {}, "'a feature is NaN or infinite' in all"),
        ((FEATURES, frame()), {}, "DataFrame of 4 columns: pass one"),
        ((FEATURES, LABELS), {"label": "y"}, "label= does not fit this data"),
        ((FEATURES, LABELS), {"encoder": "x"}, "already encoded"),
        ((FEATURES, LABELS, TEXTS), {}, "a tuple of 3: pass a pair"),
        (FEATURES, {}, "cannot audit a ndarray: pass a pandas DataFrame, a pair"),
        ({"x": FEATURES}, {}, "cannot audit a dict"),
        (TEXTS, {}, "cannot audit a list"),
        (pyarrow.table({"x": [1]}), {}, r"pass its DataFrame, \.to_pandas\(\)"),
        (3, {}, "cannot audit a int"),
        ("nowhere.csv", {}, "there is no file or folder .*nowhere.csv"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_audited(data: Any, options: Any, sentence: str) -> None:
    with pytest.raises(SourceError, match=sentence) as caught:
        opened(data, **options)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


@pytest.mark.parametrize("labels", [LABELS.tolist(), torch.from_numpy(LABELS), LABELS > 0])
def test_a_class_that_labels_cannot_hold_is_refused(labels: Any) -> None:
    source = opened((FEATURES, labels))
    with pytest.raises(SourceError, match=r"the labels are .* new label 'cat' is"):
        source.require_class("cat")


def test_the_fingerprint_follows_the_data() -> None:
    first = opened((FEATURES, LABELS)).fingerprint()
    assert opened((FEATURES.copy(), LABELS.copy())).fingerprint() == first
    assert opened((FEATURES, LABELS[::-1])).fingerprint() != first
    assert opened((FEATURES + 1, LABELS)).fingerprint() != first
    assert opened((TEXTS, NAMES)).fingerprint() != opened((TEXTS[::-1], NAMES)).fingerprint()


# Datasets of Hugging Face.


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def test_a_dataset_in_memory() -> None:
    data = datasets.Dataset.from_dict({"text": TEXTS, "label": LABELS.tolist()})
    data = data.cast_column("label", datasets.ClassLabel(names=["ant", "bee", "cow"]))
    source = opened(data)
    assert (source.kind, source.class_names) == ("text", ("ant", "bee", "cow"))
    corrected = source.corrected(Corrections({0: "dog"}, frozenset({1})))
    assert isinstance(corrected, datasets.Dataset)
    assert corrected.features["label"].names == ["ant", "bee", "cow", "dog"]
    assert corrected["label"][:] == [3, *LABELS[2:]]
    assert corrected["text"][:] == [TEXTS[0], *TEXTS[2:]]
    assert data["label"][:] == LABELS.tolist()


def test_a_selection_of_a_dataset_keeps_its_order(tmp_path: Path) -> None:
    data = datasets.Dataset.from_dict({"text": TEXTS, "label": NAMES.tolist()})
    chosen = data.select([11, 3, 7, 1, 0, 2])
    source = opened(chosen)
    assert names(source) == [NAMES[row] for row in (11, 3, 7, 1, 0, 2)]
    assert source.view(1).text == TEXTS[3]
    corrected = source.corrected(Corrections({}, frozenset({0})))
    assert corrected["text"][:] == [TEXTS[row] for row in (3, 7, 1, 0, 2)]
    path = source.save_corrected(Corrections({0: "cow"}), tmp_path / "saved")
    assert datasets.load_from_disk(path)["label"][0] == "cow"
    with pytest.raises(SourceError, match="saved to a folder"):
        source.save_corrected(Corrections(), tmp_path / "saved.csv")


def test_a_dataset_from_disk_is_not_touched(tmp_path: Path) -> None:
    data = datasets.Dataset.from_dict({"text": TEXTS, "label": LABELS.tolist()})
    data = data.cast_column("label", datasets.ClassLabel(names=["ant", "bee", "cow"]))
    data.save_to_disk(tmp_path / "saved")
    before = snapshot(tmp_path)
    source = opened(datasets.load_from_disk(tmp_path / "saved").select([5, 3, 1, 0]))
    corrected = source.corrected(Corrections({0: "dog"}, frozenset({1})))
    assert corrected["label"][:] == [3, 1, 0]
    assert corrected.features["label"].names[3] == "dog"
    assert snapshot(tmp_path) == before


def test_images_and_splits_of_a_dataset_in_memory() -> None:
    cells = [{"bytes": png(picture(COLOURS[name])), "path": None} for name in ("red", "blue") * 2]
    one = datasets.Dataset.from_dict({"image": cells, "label": ["red", "blue"] * 2})
    one = one.cast_column("image", datasets.Image())
    source = opened(datasets.DatasetDict({"train": one, "test": one}))
    assert (source.kind, source.notes[0]) == ("images", "the split 'train' is audited")
    corrected = source.corrected(Corrections({0: "blue"}))
    assert corrected["train"]["label"][:] == ["blue", "blue", "red", "blue"]
    assert corrected["test"]["label"][:] == ["red", "blue"] * 2
    with pytest.raises(SourceError, match=r"splits a, b: audit one of them, e.g. data\['a'\]"):
        opened(datasets.DatasetDict({"a": one, "b": one}))
    with pytest.raises(SourceError, match=r"no column 'lable' \(label=\)"):
        opened(one, label="lable")


# Torch datasets.


class Items(Dataset[Any]):
    """Any items, perhaps with names of classes."""

    def __init__(self, items: list[Any], classes: list[str] | None = None) -> None:
        self.items = items
        if classes is not None:
            self.classes = classes

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


def test_tensors_of_features() -> None:
    data = TensorDataset(torch.from_numpy(FEATURES), torch.from_numpy(LABELS))
    source = opened(data)
    assert (source.kind, source.class_names) == ("features", ("0", "1", "2"))
    corrected = source.corrected(Corrections({0: "2"}, frozenset({1})))
    assert len(corrected) == 11
    inputs, label = corrected[0]
    assert torch.equal(inputs, torch.from_numpy(FEATURES[0]))
    assert torch.equal(label, torch.tensor(2))
    assert [int(label) for _, label in (corrected[i] for i in range(1, 11))] == LABELS[2:].tolist()
    assert source.fingerprint() == opened(data).fingerprint()


@pytest.mark.parametrize("kind", ["pillow", "tensor"])
def test_images_with_names_of_classes(kind: str) -> None:
    images: list[Any] = [picture(COLOURS[name]) for name in ("red", "blue") * 3]
    if kind == "tensor":
        images = [torch.from_numpy(np.array(i).transpose(2, 0, 1)) / 255 for i in images]
    source = opened(Items([(image, row % 2) for row, image in enumerate(images)], ["red", "blue"]))
    assert (source.kind, names(source)) == ("images", ["red", "blue"] * 3)
    pixels = source.task().train.inputs.rows(torch.arange(6))
    assert pixels.float().mean((2, 3)).argmax(1).tolist() == [0, 2] * 3
    assert source.view(0).image is not None
    assert source.corrected(Corrections({0: "blue"}))[0][1] == 1
    with pytest.raises(SourceError, match="no class 'green': choose one of red, blue"):
        source.require_class("green")
    with pytest.raises(SourceError, match="has no file format"):
        source.write_corrected(Corrections(), Path("out"))


def test_dictionaries_of_texts() -> None:
    items = [
        {"text": text, "labels": name} for text, name in zip(TEXTS, NAMES.tolist(), strict=True)
    ]
    source = opened(Items(items))
    assert (source.kind, names(source)) == ("text", NAMES.tolist())
    corrected = source.corrected(Corrections({1: "dog"}, frozenset({0})))
    assert corrected[0] == {"text": TEXTS[1], "labels": "dog"}
    assert items[1]["labels"] == "bee"
    renamed = [{"words": one["text"], "other": 1, "topic": one["labels"]} for one in items]
    assert opened(Items(renamed), label="topic", text="words").kind == "text"


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([])


@pytest.mark.parametrize(
    ("data", "options", "sentence"),
    [
        (Items([]), {}, "the dataset is empty"),
        (Stream(), {}, "a Stream has no fixed order"),
        (Items([torch.zeros(3)] * 4), {}, "item 0 of the dataset is a Tensor: items must be"),
        (Items([(torch.zeros(3), 0), (torch.zeros(2), 1)]), {}, r"item 1 \(2,\)"),
        (Items([("a", 0), (torch.zeros(2), 1)]), {}, "item 0 of the dataset is a str, and item 1"),
        (Items([({}, 0)]), {}, "the input of item 0 is a dict"),
        (Items([("a", torch.zeros(2))]), {}, r"the label of item 0 has the shape \(2,\)"),
        (Items([{"text": "a", "topic": 1}]), {}, r"no label \(label=\): they have text, topic"),
        (Items([{"a": "a", "b": "b", "label": 1}]), {}, "text= or image=: a, b, label"),
        (Items([{"text": "a", "label": 1}]), {"text": "words"}, "no key 'words'"),
        (Items([("a", 0)] * 3), {"id": "x"}, "id= does not fit"),
        (Items([("a", None)] * 3), {}, "all 3 labels are missing"),
    ],
)  # fmt: skip
def test_datasets_that_cannot_be_audited(data: Any, options: Any, sentence: str) -> None:
    with pytest.raises(SourceError, match=sentence):
        opened(data, **options)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (frame(), {"label": "kind"}),
        (frame(), {"label": "kind", "text": "text"}),
        ((FEATURES, LABELS), {}),
        ((RNG.random((12, 3, 16, 16)), LABELS), {}),
        (([picture(row) for row in range(12)], NAMES), {}),
        (datasets.Dataset.from_dict({"text": TEXTS, "label": NAMES.tolist()}), {}),
        (TensorDataset(torch.from_numpy(FEATURES), torch.from_numpy(LABELS)), {}),
    ],
    ids=["table", "texts", "features", "pixels", "pillow", "dataset", "torch"],
)
def test_nothing_is_written_to_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Any, options: Any
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = opened(data, **options)
    source.task()
    source.view(0)
    source.corrected(Corrections({0: source.class_names[1]}, frozenset({1})))
    assert list(tmp_path.iterdir()) == []
    cached = open_data(data, SourceOptions(**options), tmp_path / "cache")
    cached.task(tmp_path / "cache")
    assert [path.name for path in tmp_path.iterdir()] in ([], ["cache"])


def test_a_list_of_items_is_a_dataset() -> None:
    source = opened(list(zip(TEXTS, NAMES.tolist(), strict=True)))
    assert (source.kind, names(source)) == ("text", NAMES.tolist())


def test_sentences_name_arguments_of_python() -> None:
    for sentence, expected in (
        ("pass --text 'a--b' or --image", "pass text='a--b' or image="),
        ("the labels, --label COLUMN: a", "the labels, label=: a"),
        ("no column 'x--label' (--id)", "no column 'x--label' (id=)"),
        ("--no-regression makes", "regression=False makes"),
    ):
        assert in_python(sentence) == expected


def test_a_path_is_opened_as_before(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "a.csv", index=False)
    source = opened("a.csv", label="kind", text="text")
    assert source.options.path == str(tmp_path / "a.csv")
    assert (source.name, source.kind) == ("a.csv", "text")
    with pytest.raises(SourceError, match="not in memory"):
        source.corrected(Corrections())
    written = source.save_corrected(Corrections({0: "cow"}), tmp_path / "fixed.csv")
    assert pandas.read_csv(written)["kind"][0] == "cow"
    with pytest.raises(SourceError, match=r"of a\.csv is a \.csv file"):
        source.save_corrected(Corrections(), tmp_path / "fixed.parquet")
