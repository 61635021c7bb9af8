"""Label files: every format gives the same labels, and a broken file is one clear sentence."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from discrimloss.data import DataError
from discrimloss.data.noise import read_label_file

LABELS = [3, 0, 9, 9, 1]


def test_every_format_gives_the_same_labels(tmp_path: Path) -> None:
    array = np.array(LABELS)
    np.save(tmp_path / "labels.npy", array)
    np.savez(tmp_path / "labels.npz", only=array)
    (tmp_path / "labels.txt").write_text("3\n0\n9\n9\n1\n", encoding="utf-8")
    (tmp_path / "spaces.txt").write_bytes(b"\xef\xbb\xbf3\r\n 0\r\n9 \r\n9\r\n1")
    (tmp_path / "labels.csv").write_text("3\n0\n9\n9\n1", encoding="utf-8")
    (tmp_path / "heading.csv").write_text("label1\n3\n0\n9\n9\n1\n", encoding="utf-8")
    (tmp_path / "quoted.CSV").write_text('"label"\n3\n0\n9\n9\n1\n', encoding="utf-8")
    torch.save(torch.tensor(LABELS), tmp_path / "tensor.pt")
    torch.save(LABELS, tmp_path / "list.pt")
    torch.save({"only": torch.tensor(LABELS)}, tmp_path / "dict.pth")
    paths = list(tmp_path.iterdir())
    assert len(paths) == 10
    for path in paths:
        labels = read_label_file(path)
        assert labels.dtype == torch.int64, path
        assert labels.tolist() == LABELS, path
        assert read_label_file(str(path)).tolist() == LABELS


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "int64", ">i4"])
def test_whole_numbers_of_any_size_and_byte_order(tmp_path: Path, kind: str) -> None:
    np.save(tmp_path / "labels.npy", np.array(LABELS, dtype=kind))
    labels = read_label_file(tmp_path / "labels.npy")
    assert labels.dtype == torch.int64
    assert labels.tolist() == LABELS


def test_a_torch_file_of_numpy_arrays_as_cifar_n_is_published(tmp_path: Path) -> None:
    path = tmp_path / "CIFAR-10_human.pt"
    torch.save({"clean_label": np.zeros(5, int), "worse_label": np.array(LABELS)}, path)
    assert read_label_file(path, "worse_label").tolist() == LABELS
    assert read_label_file(path, key="clean_label").tolist() == [0] * 5


def test_a_torch_file_written_with_an_older_numpy(tmp_path: Path) -> None:
    new, old = tmp_path / "new.pt", tmp_path / "old.pt"
    torch.save({"worse_label": np.array(LABELS)}, new)
    # NumPy 1 had the same function in numpy.core, and NumPy 2 in numpy._core.
    with zipfile.ZipFile(new) as source, zipfile.ZipFile(old, "w") as copy:
        for name in source.namelist():
            content = source.read(name)
            for core in (b"numpy._core.", b"numpy.core."):
                content = content.replace(core, b"numpy.core.")
            copy.writestr(name, content)
        assert b"numpy.core.multiarray" in copy.read("new/data.pkl")
    assert read_label_file(old).tolist() == LABELS


def test_only_the_array_asked_for_is_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.npz"
    np.savez(path, good=np.array(LABELS), objects=np.array([None], dtype=object))
    assert read_label_file(path, "good").tolist() == LABELS
    with pytest.raises(DataError, match="pickle"):
        read_label_file(path, "objects")


@pytest.mark.parametrize("suffix", ["npz", "pt"])
def test_a_key_that_is_missing_or_unknown_lists_the_keys(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"labels.{suffix}"
    arrays: dict[str, Any] = {"aggre": np.array(LABELS), "worse": np.array(LABELS)}
    if suffix == "npz":
        np.savez(path, **arrays)
    else:
        torch.save(arrays, path)
    with pytest.raises(DataError, match=r"^choose the key to read of .*: it has aggre, worse$"):
        read_label_file(path)
    with pytest.raises(DataError, match=r"^there is no 'best' of .*: it has aggre, worse$"):
        read_label_file(path, "best")


@pytest.mark.parametrize("name", ["labels.npy", "labels.txt", "labels.csv", "labels.pt"])
def test_a_key_where_nothing_has_names_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith("npy"):
        np.save(path, np.array(LABELS))
    elif name.endswith("pt"):
        torch.save(torch.tensor(LABELS), path)
    else:
        path.write_text("1\n2\n", encoding="utf-8")
    with pytest.raises(DataError, match="without a key"):
        read_label_file(path, "worse")


def test_a_missing_file_and_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no label file .*labels\.npy"):
        read_label_file(tmp_path / "labels.npy")
    (tmp_path / "labels.xls").write_text("1\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"end in one of \.npy, \.npz, \.txt, \.csv, \.pt, \.pth"):
        read_label_file(tmp_path / "labels.xls")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("3\n\n9\n", "line 2 is ''"),
        ("3\n1.0\n", r"line 2 is '1\.0'"),
        ("3\n1,2\n", "line 2 is '1,2'"),
        ("3\n1_0\n", "line 2 is '1_0'"),
        ("3\nnan\n", "line 2 is 'nan'"),
        ("\n3\n", "line 1 is ''"),
    ],
)
@pytest.mark.parametrize("suffix", ["txt", "csv"])
def test_a_row_that_is_no_label_is_named(tmp_path: Path, text: str, line: str, suffix: str) -> None:
    path = tmp_path / f"labels.{suffix}"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=line):
        read_label_file(path)


def test_line_numbers_count_the_heading_which_only_a_csv_has(tmp_path: Path) -> None:
    for suffix, line in (("csv", "line 3 is 'x'"), ("txt", "line 1 is 'label'")):
        path = tmp_path / f"labels.{suffix}"
        path.write_text("label\n3\nx\n", encoding="utf-8")
        with pytest.raises(DataError, match=line):
            read_label_file(path)


def test_labels_of_another_type_or_shape_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.npy"
    for array, message in (
        (np.array([0.0, 1.0]), r"whole numbers, but .*labels\.npy holds torch\.float64"),
        (np.array([True, False]), "whole numbers"),
        (np.array(["cat", "dog"]), "cannot read labels"),
        (np.array([[0, 1], [1, 0]]), r"one label per sample, but .* has shape \(2, 2\)"),
    ):
        np.save(path, array)
        with pytest.raises(DataError, match=message):
            read_label_file(path)


@pytest.mark.parametrize("suffix", ["npy", "npz", "pt"])
@pytest.mark.parametrize("content", [b"", b"\x93\xff\x00 not what it says", b"PK\x03\x04"])
def test_a_broken_file_is_one_sentence(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"labels.{suffix}"
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot read labels from") as caught:
        read_label_file(path)
    assert "\n" not in str(caught.value)


def test_a_text_that_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    for content in (b"\x93\xff\x00", b"9" * 30):  # not UTF-8; more than 64 bits
        path.write_bytes(content)
        with pytest.raises(DataError, match="cannot read labels from"):
            read_label_file(path)


def test_a_truncated_file_is_one_sentence(tmp_path: Path) -> None:
    for name in ("labels.npy", "labels.npz", "labels.pt"):
        path = tmp_path / name
        if name.endswith("pt"):
            torch.save({"a": torch.arange(1000)}, path)
        elif name.endswith("npz"):
            np.savez(path, a=np.arange(1000))
        else:
            np.save(path, np.arange(1000))
        path.write_bytes(path.read_bytes()[:-500])
        with pytest.raises(DataError, match="cannot read labels from"):
            read_label_file(path)


class Malicious:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("suffix", ["npy", "npz", "pt"])
def test_nothing_in_a_file_is_executed(tmp_path: Path, suffix: str) -> None:
    path, proof = tmp_path / f"labels.{suffix}", tmp_path / "proof"
    evil = np.array([Malicious(proof)], dtype=object)
    if suffix == "npy":
        np.save(path, evil, allow_pickle=True)
    elif suffix == "npz":
        np.savez(path, evil=evil)
    else:
        torch.save({"evil": evil, "worse": torch.tensor(LABELS)}, path)
    pickle.loads(pickle.dumps(evil))
    assert proof.exists()  # it would work
    proof.unlink()
    with pytest.raises(DataError, match="cannot read labels from"):
        read_label_file(path, None if suffix == "npy" else "evil")
    assert not proof.exists()


def test_the_torch_files_that_are_safe_to_load_stay_those_they_were(tmp_path: Path) -> None:
    torch.save({"only": np.array(LABELS)}, tmp_path / "labels.pt")
    with torch.serialization.safe_globals([np.ndarray, np.dtype]):  # as Accelerate has it
        before = torch.serialization.get_safe_globals()
        read_label_file(tmp_path / "labels.pt")
        assert set(torch.serialization.get_safe_globals()) == set(before)
