import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from discrimloss.auditing.settings import audit_model
from discrimloss.auditing.sources.base import AuditSource, Corrections, SourceError, SourceOptions
from discrimloss.auditing.sources.open_source import open_source

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(3.0, 2.0, (12, 4)).astype(np.float32)
LABELS = np.arange(12) % 3


def archive(path: Path, compressed: bool = False, **arrays: Any) -> Path:
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    return path


def opened(path: Path, **options: Any) -> AuditSource:
    return open_source(SourceOptions(str(path), **options))


def test_arrays_are_found_by_their_names(tmp_path: Path) -> None:
    names = np.array([f"sample {row}" for row in range(12)])
    other = np.zeros((12, 2))
    path = archive(tmp_path / "a.npz", other=other, X=FEATURES, y=LABELS, ids=names)
    source = opened(path)
    assert source.kind == "features"
    assert source.class_names == ("0", "1", "2")
    assert source.target.tolist() == LABELS.tolist()
    assert source.ids[3] == "sample 3"
    task = source.task(tmp_path)
    features = task.train.inputs.rows(torch.arange(12))
    spread = FEATURES.std(0)  # of one kind: the less varied half is not blown up
    expected = (FEATURES - FEATURES.mean(0)) / np.maximum(spread, np.median(spread))
    assert np.allclose(features, expected, atol=1e-5)
    assert (task.input_shape, task.num_classes, task.test) == ((4,), 3, None)
    assert audit_model(task).name == "mlp"
    assert source.fingerprint() == opened(path).fingerprint()


def test_features_of_different_units_are_each_scaled(tmp_path: Path) -> None:
    features = FEATURES * np.array([1.0, 1e4, 1.0, 1e-3])
    task = opened(archive(tmp_path / "a.npz", x=features, y=LABELS)).task(tmp_path)
    rows = task.train.inputs.rows(torch.arange(12))
    assert torch.allclose(rows.std(0, correction=0), torch.ones(4), atol=1e-4)


def test_arrays_are_found_by_their_shape(tmp_path: Path) -> None:
    source = opened(archive(tmp_path / "a.npz", first=FEATURES, second=LABELS, scale=np.ones(4)))
    assert source.target.tolist() == LABELS.tolist()
    assert source.ids == tuple(str(row) for row in range(12))
    assert source.notes[0] == "the labels are the array 'second'"


def test_what_cannot_be_judged_is_left_out(tmp_path: Path) -> None:
    features, labels = FEATURES.copy(), np.array(["a", "b", ""] * 4)
    features[0, 1], features[4, 0] = np.nan, np.inf
    source = opened(archive(tmp_path / "a.npz", x=features, y=labels))
    assert [(one.id, one.reason) for one in source.left_out] == [
        ("0", "a feature is NaN or infinite"),
        ("2", "no label"),
        ("4", "a feature is NaN or infinite"),
        *[(row, "no label") for row in ("5", "8", "11")],
    ]
    assert source.ids == ("1", "3", "6", "7", "9", "10")
    assert source.task(tmp_path).train.inputs.rows(torch.arange(6)).isfinite().all()


def test_numbers_are_regressed_on(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", x=FEATURES, y=FEATURES[:, 0])
    source = opened(path)
    assert source.is_regression
    assert torch.equal(source.target, torch.from_numpy(FEATURES[:, 0]))
    assert source.task(tmp_path).is_regression
    path = archive(tmp_path / "b.npz", x=FEATURES, y=LABELS.astype(float))
    assert opened(path).class_names == ("0", "1", "2")
    assert opened(path, regression=True).is_regression


def test_a_view_shows_features(tmp_path: Path) -> None:
    features = np.arange(120).reshape(12, 10) / 2
    view = opened(archive(tmp_path / "a.npz", x=features, y=LABELS)).view(1)
    assert view.fields == (("features", "5, 5.5, 6, 6.5, 7, 7.5, 8, 8.5 … (10 in all)"),)
    assert view.image is None


@pytest.mark.parametrize("shape", [(12, 10, 16), (12, 10, 16, 3), (12, 3, 10, 16), (12, 1, 10, 16)])
def test_bytes_in_rows_and_columns_are_images(tmp_path: Path, shape: tuple[int, ...]) -> None:
    pixels = RNG.integers(0, 255, shape).astype(np.uint8)
    source = opened(archive(tmp_path / "a.npz", x=pixels, y=LABELS))
    channels = 3 if 3 in shape else 1
    task = source.task(tmp_path / "cache")
    assert (source.kind, audit_model(task).name) == ("images", "compact_resnet")
    assert task.input_shape == (channels, 10, 10)
    view = source.view(2)
    assert view.image is not None
    shown = np.asarray(Image.open(io.BytesIO(view.image)))
    assert shown.shape[:2] == (60, 96)
    expected = pixels[2].transpose(1, 2, 0) if shape[1] in (1, 3) else pixels[2]
    assert np.array_equal(
        shown[::6, ::6], expected.squeeze(-1) if channels == 1 and expected.ndim == 3 else expected
    )
    assert view.fields == (("sample", "2"), ("size", "16 × 10"))


def test_square_images_reach_the_model_as_they_are(tmp_path: Path) -> None:
    pixels = RNG.integers(0, 255, (12, 16, 16)).astype(np.uint8)
    source = opened(archive(tmp_path / "a.npz", x=pixels, y=LABELS))
    inputs = source.task(tmp_path / "cache").train.inputs.rows(torch.arange(12))
    assert np.array_equal(inputs[:, 0], pixels)


@pytest.mark.parametrize(
    ("labels", "new", "expected"),
    [
        (LABELS, "2", np.int64),
        (LABELS.astype(np.uint8), "300", np.uint16),
        (LABELS.astype(float), "2", np.float64),
        (LABELS > 0, "True", np.bool_),
        (np.array(["a", "b", "c"] * 4), "longer", np.dtype("<U6")),
        (np.array([b"a", b"b", b"c"] * 4), "longer", np.dtype("S6")),
        (LABELS[:, None], "2", np.int64),
        (LABELS, "new class", np.dtype("<U9")),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_corrected_archives(
    tmp_path: Path, labels: np.ndarray, new: str, expected: Any, compressed: bool
) -> None:
    extra = {"rows": np.arange(12), "scale": np.ones(3)}
    path = archive(tmp_path / "a.npz", compressed, x=FEATURES, y=labels, **extra)
    source = opened(path, regression=False)
    before = path.read_bytes()
    written = source.write_corrected(Corrections({0: new, 5: new}, frozenset({1})), tmp_path / "o")
    assert written == [tmp_path / "o" / "a.npz"]
    assert [file.name for file in (tmp_path / "o").iterdir()] == ["a.npz"]
    keep = [row for row in range(12) if row != 1]
    with np.load(written[0]) as arrays, zipfile.ZipFile(written[0]) as members:
        assert list(arrays) == ["x", "y", "rows", "scale"]
        assert np.array_equal(arrays["x"], FEATURES[keep])
        assert arrays["rows"].tolist() == keep
        assert arrays["scale"].tolist() == [1.0, 1.0, 1.0]
        assert arrays["y"].dtype == expected
        as_texts = labels.astype(np.str_).astype(object)
        as_texts[[0, 5]] = new if labels.dtype != np.float64 else "2.0"
        assert arrays["y"].astype(np.str_).tolist() == as_texts[keep].tolist()
        kinds = {member.compress_type for member in members.infolist()}
        assert kinds == {zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED}
    assert path.read_bytes() == before


def test_what_was_left_out_stays_in_a_corrected_archive(tmp_path: Path) -> None:
    labels = LABELS.astype(float)
    labels[[0, 4]] = np.nan
    path = archive(tmp_path / "a.npz", x=FEATURES, y=labels)
    opened(path).write_corrected(Corrections({0: "2"}, frozenset({1})), tmp_path / "o")
    with np.load(tmp_path / "o" / "a.npz") as arrays:  # samples 0 and 1 are the rows 1 and 2
        expected = labels.copy()
        expected[1] = 2
        assert np.array_equal(arrays["y"], np.delete(expected, 2), equal_nan=True)


LABEL_FILES = {
    "y.txt": "a\nb\n\na\nb\nb\n",
    "y.csv": 'the class\r\n"a"\r\nb\r\n\r\na\r\nb\r\n"b"\r\n',
}


@pytest.mark.parametrize("name", LABEL_FILES)
def test_labels_in_a_file_of_text(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "x.npy", FEATURES[:6])
    (tmp_path / name).write_bytes(LABEL_FILES[name].encode())
    source = opened(tmp_path / "x.npy")
    assert source.notes[0] == f"the labels are in {name}"
    assert source.options.label == str(tmp_path / name)  # for opening it again
    assert (source.class_names, source.target.tolist()) == (("a", "b"), [0, 1, 0, 1, 1])
    assert [one.id for one in source.left_out] == ["2"]
    written = source.write_corrected(Corrections({2: "x, y"}, frozenset({1})), tmp_path / "o")
    assert [path.name for path in written] == ["x.npy", name]
    assert np.array_equal(np.load(written[0]), np.delete(FEATURES[:6], 1, axis=0))
    expected = LABEL_FILES[name]
    if name == "y.txt":
        expected = "a\n\nx, y\nb\nb\n"
    else:
        expected = 'the class\r\n"a"\r\n\r\n"x, y"\r\nb\r\n"b"\r\n'
    assert written[1].read_bytes().decode() == expected


def test_numbers_in_a_file_of_text(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", FEATURES)
    (tmp_path / "ages.txt").write_text("".join(f"{value}\n" for value in FEATURES[:, 1]))
    source = opened(tmp_path / "x.npy", label="ages.txt")
    assert source.is_regression
    assert torch.allclose(source.target, torch.from_numpy(FEATURES[:, 1]))


def test_labels_in_an_array_of_their_own(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", FEATURES)
    np.save(tmp_path / "other.npy", LABELS)
    source = opened(tmp_path / "x.npy", label=str(tmp_path / "other.npy"))
    written = source.write_corrected(Corrections({0: "1"}), tmp_path / "o")
    assert np.load(written[1]).tolist() == [1, *LABELS[1:].tolist()]
    assert np.array_equal(np.load(written[0]), FEATURES)


BAD: list[tuple[Mapping[str, Any], Mapping[str, Any], str]] = [
    ({"x": FEATURES, "y": LABELS}, {"label": "z"}, "no array 'z' [(]--label[)]: .*x, y"),
    ({"x": FEATURES, "y": LABELS}, {"text": "z"}, "--text does not fit"),
    ({"x": FEATURES, "y": LABELS}, {"encoder": "z"}, "--encoder does not fit"),
    ({"x": FEATURES, "y": LABELS[:5]}, {}, "12 samples, but 5 labels"),
    ({"x": FEATURES, "y": FEATURES}, {}, "one label per sample, but 'y' in .* shape [(]12, 4[)]"),
    ({"x": FEATURES}, {}, "pass the array of .* with the labels"),
    ({"x": FEATURES, "y": np.zeros(12)}, {}, "all labels are '0'"),
    ({"x": FEATURES, "y": np.full(12, np.nan)}, {}, "all 12 labels are missing"),
    ({"x": np.zeros((0, 3)), "y": np.zeros(0)}, {}, "nothing to audit"),
    ({"x": np.array(["a"] * 12), "y": LABELS}, {}, "not numbers: pass numbers"),
    ({"a": FEATURES, "b": FEATURES, "y": LABELS}, {}, "cannot tell which array"),
    ({"x": FEATURES, "y": LABELS.astype(object)}, {}, "never unpickled"),
    ({"x": FEATURES, "y": LABELS, "n": LABELS}, {"id": "n"}, "two samples have the id '0'"),
]


@pytest.mark.parametrize(("arrays", "options", "sentence"), BAD)
def test_archives_that_cannot_be_audited(
    tmp_path: Path, arrays: Mapping[str, Any], options: Mapping[str, Any], sentence: str
) -> None:
    with pytest.raises(SourceError, match=sentence):
        opened(archive(tmp_path / "a.npz", **arrays), **options)


@pytest.mark.parametrize("content", [b"", b"no array", b"PK\3\4 cut"])
@pytest.mark.parametrize("name", ["a.npz", "a.npy"])
def test_broken_files(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=r"cannot read .*a\.np"):
        opened(tmp_path / name)


def test_pickled_features_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", FEATURES.astype(object), allow_pickle=True)
    with pytest.raises(SourceError, match="never unpickled"):
        opened(tmp_path / "x.npy")


def test_files_of_labels_that_do_not_fit(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", FEATURES)
    for given, sentence in (
        (None, "needs a file with its labels"),
        ("missing.txt", "no file missing.txt"),
        ("x.npy", "one label per sample"),
    ):
        with pytest.raises(SourceError, match=sentence):
            opened(tmp_path / "x.npy", label=given)
    (tmp_path / "y.csv").write_text("a,b\n" * 12)
    with pytest.raises(SourceError, match="must have one column, but line 1 has 2"):
        opened(tmp_path / "x.npy")
    (tmp_path / "y.txt").write_text("a\n" * 12)
    with pytest.raises(SourceError, match=r"there are y\.txt, y\.csv"):
        opened(tmp_path / "x.npy")


def test_rows_of_an_array_that_is_never_unpickled_cannot_be_dropped(tmp_path: Path) -> None:
    extra = np.array([{}] * 12)
    path = archive(tmp_path / "a.npz", x=FEATURES, y=LABELS, extra=extra)
    source = opened(path)
    with pytest.raises(SourceError, match="'extra' in it cannot be read"):
        source.write_corrected(Corrections({}, frozenset({1})), tmp_path / "o")
    assert list((tmp_path / "o").iterdir()) == []
    source.write_corrected(Corrections({1: "2"}), tmp_path / "o")
    with np.load(tmp_path / "o" / "a.npz", allow_pickle=True) as arrays:
        assert arrays["extra"].tolist() == extra.tolist()
