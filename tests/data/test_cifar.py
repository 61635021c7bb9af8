"""CIFAR-10 and CIFAR-100 in both versions."""

import os
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from real_data import real_data
from tiny_data import classes, pictures, write_cifar10, write_cifar100, write_pickle

from discrimloss.data import DataError, datasets
from discrimloss.data.cifar import CIFAR10, load_cifar10, load_cifar100
from discrimloss.data.restricted_pickle import read_pickled_dict

TEN = SimpleNamespace(
    name="cifar10",
    load=load_cifar10,
    write=write_cifar10,
    num_classes=10,
    first={
        "bin": "cifar-10-batches-bin/data_batch_1.bin",
        "py": "cifar-10-batches-py/data_batch_1",
    },
    names={
        "bin": "cifar-10-batches-bin/batches.meta.txt",
        "py": "cifar-10-batches-py/batches.meta",
    },
    label_key=b"labels",
)
HUNDRED = SimpleNamespace(
    name="cifar100",
    load=load_cifar100,
    write=write_cifar100,
    num_classes=100,
    first={"bin": "cifar-100-binary/train.bin", "py": "cifar-100-python/train"},
    names={"bin": "cifar-100-binary/fine_label_names.txt", "py": "cifar-100-python/meta"},
    label_key=b"fine_labels",
)
both_sets = pytest.mark.parametrize("cifar", [TEN, HUNDRED], ids=lambda cifar: cifar.name)
both_versions = pytest.mark.parametrize("version", ["bin", "py"])


@both_sets
@both_versions
def test_all_images_are_read_in_the_published_order(tmp_path, cifar, version):
    data = cifar.load(cifar.write(tmp_path, train=250, test=120, version=version))
    for part, count, seed in ((data.train, 250, 0), (data.test, 120, 1)):
        labels = classes(count, cifar.num_classes)
        images = part.inputs.rows(torch.arange(count))
        assert part.target.tolist() == labels.tolist()
        assert part.target.dtype == torch.int64
        assert images.dtype == torch.uint8
        expected = pictures(labels, cifar.num_classes, (3, 32, 32), seed)
        assert np.array_equal(images.numpy(), expected)
    assert data.num_classes == cifar.num_classes
    assert data.input_shape == (3, 32, 32)
    assert data.class_names == tuple(f"class{number}" for number in range(cifar.num_classes))
    assert data.train_labels_are_clean
    assert data.validation is None


@both_sets
@both_versions
def test_class_names_are_not_needed(tmp_path, cifar, version):
    cifar.write(tmp_path, version=version)
    (tmp_path / cifar.names[version]).unlink()
    assert cifar.load(tmp_path).class_names == ()


@both_sets
def test_files_may_lie_in_the_data_directory_itself(tmp_path, cifar):
    cifar.write(tmp_path)
    folder = (tmp_path / cifar.first["bin"]).parent
    assert len(cifar.load(folder).train) == len(cifar.load(tmp_path).train)


@both_sets
def test_a_complete_version_is_preferred_to_a_part_of_the_other(tmp_path, cifar):
    cifar.write(tmp_path, version="bin")
    cifar.write(tmp_path, train=300, version="py")
    (tmp_path / cifar.first["bin"]).unlink()
    assert len(cifar.load(tmp_path).train) == 300


@both_sets
def test_augmentation_can_be_turned_off(tmp_path, cifar):
    cifar.write(tmp_path)
    images = cifar.load(tmp_path).train.inputs.rows(torch.arange(20))
    augmented, plain = cifar.load(tmp_path).prepare, cifar.load(tmp_path, augment=False).prepare
    generator = torch.Generator().manual_seed(0)
    assert augmented.padding == 4
    assert augmented.flip
    assert not torch.equal(augmented(images, generator), augmented(images, None))
    assert torch.equal(plain(images, generator), augmented(images, None))


@both_sets
def test_missing_files_are_said(tmp_path, cifar):
    assert datasets.get(cifar.name) is cifar.load
    with pytest.raises(DataError) as caught:
        cifar.load(tmp_path)
    for version in ("bin", "py"):
        folder, _, file = cifar.first[version].partition("/")
        assert f"for {file} in {folder}" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@both_versions
def test_a_missing_batch_is_named(tmp_path, version):
    write_cifar10(tmp_path, version=version)
    ending = ".bin" if version == "bin" else ""
    (tmp_path / f"cifar-10-batches-{version}" / f"data_batch_3{ending}").unlink()
    with pytest.raises(DataError, match=f"incomplete, without data_batch_3{ending}: "):
        load_cifar10(tmp_path)


@both_sets
def test_a_truncated_binary_file_is_named(tmp_path, cifar):
    cifar.write(tmp_path)
    path = tmp_path / cifar.first["bin"]
    for content in (path.read_bytes()[:-1], b""):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"not a multiple of the 3,07[34] of") as caught:
            cifar.load(tmp_path)
        assert str(path) in str(caught.value)


@both_sets
def test_labels_out_of_range_are_said(tmp_path, cifar):
    cifar.write(tmp_path)
    path = tmp_path / cifar.first["bin"]
    content = bytearray(path.read_bytes())
    content[0 if cifar is TEN else 1] = 200
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"labels from .* to 200, .* is it {cifar.name}"):
        cifar.load(tmp_path)


@both_sets
def test_damaged_pickles_are_named(tmp_path, cifar):
    cifar.write(tmp_path, version="py")
    path = tmp_path / cifar.first["py"]
    whole = path.read_bytes()
    rows = np.zeros((4, 3072), dtype=np.uint8)
    damages = {
        whole[: len(whole) // 2]: "cannot read",
        b"": "cannot read",
        pickle.dumps([1, 2], protocol=2): "does not hold a dict",
        pickle.dumps({b"data": rows}, protocol=2): f"has no '{cifar.label_key.decode()}'",
        pickle.dumps({b"data": rows, cifar.label_key: [1, 2]}, protocol=2): "for 2 labels",
    }
    for content, message in damages.items():
        path.write_bytes(content)
        with pytest.raises(DataError, match=message) as caught:
            cifar.load(tmp_path)
        assert str(path) in str(caught.value)


class Attack:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def test_a_pickle_cannot_run_anything(tmp_path):
    write_cifar10(tmp_path, version="py")
    path = tmp_path / TEN.first["py"]
    write_pickle(path, {b"labels": [0], b"data": Attack(tmp_path / "marker")})
    with pytest.raises(DataError, match="mkdir, which is not data"):
        load_cifar10(tmp_path)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_of_every_protocol_can_be_read(tmp_path, protocol):
    content = {"data": np.arange(6, dtype=np.uint8).reshape(2, 3), b"labels": [1, 2], "text": "x"}
    (tmp_path / "file").write_bytes(pickle.dumps(content, protocol=protocol))
    read = read_pickled_dict(tmp_path / "file")
    assert np.array_equal(read["data"], content["data"])
    assert read["labels"] == [1, 2]


def test_arrays_that_old_numpy_wrote_can_be_read(tmp_path):
    content = pickle.dumps({"data": np.arange(6)}, protocol=2)
    old = content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    (tmp_path / "file").write_bytes(old)
    assert read_pickled_dict(tmp_path / "file")["data"].tolist() == [0, 1, 2, 3, 4, 5]


def test_the_published_cifar10():
    data = load_cifar10(real_data("cifar-10-batches-bin"))
    assert (len(data.train), len(data.test)) == (50_000, 10_000)
    assert data.train.target[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert data.test.target[:5].tolist() == [3, 8, 8, 0, 6]
    assert data.train.target.bincount().tolist() == [5000] * 10
    assert data.class_names[:2] == ("airplane", "automobile")
    images = data.train.inputs.rows(torch.arange(0, 50_000, 5)) / 255.0
    assert torch.allclose(images.mean((0, 2, 3)), torch.tensor(CIFAR10.mean), atol=2e-3)
    assert torch.allclose(images.std((0, 2, 3)), torch.tensor(CIFAR10.std), atol=2e-3)
