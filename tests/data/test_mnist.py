import gzip

import numpy as np
import pytest
import torch
from real_data import real_data
from tiny_data import classes, pictures, write_idx, write_mnist

from discrimloss.data import DataError, datasets
from discrimloss.data.mnist import load_mnist, read_idx

TRAIN_IMAGES = "train-images-idx3-ubyte"


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw", "."])
def test_mnist_is_read_where_it_lies(tmp_path, compressed, folder):
    data = load_mnist(write_mnist(tmp_path, 30, 20, compressed, folder))
    assert (len(data.train), len(data.test)) == (30, 20)
    assert data.num_classes == 10
    assert data.input_shape == (1, 28, 28)
    images = data.train.inputs.rows(torch.tensor([7, 2]))
    expected = pictures(classes(30, 10), 10, (28, 28), seed=0)[[7, 2]]
    assert images.dtype == torch.uint8
    assert np.array_equal(images[:, 0].numpy(), expected)
    assert data.train.target.tolist() == classes(30, 10).tolist()
    assert data.train.target.dtype == torch.int64


def test_mnist_is_normalised_and_not_augmented(tmp_path):
    data = load_mnist(write_mnist(tmp_path))
    images = data.train.inputs.rows(torch.arange(4))
    prepared = data.prepare(images, torch.Generator().manual_seed(0))
    assert torch.allclose(prepared, (images / 255 - 0.1307) / 0.3081, atol=1e-5)
    assert torch.equal(prepared, data.prepare(images, None))


def test_mnist_can_be_found_by_name():
    assert datasets.get("mnist") is load_mnist
    assert datasets.options("mnist") == {}


def test_missing_mnist_is_said(tmp_path):
    with pytest.raises(DataError) as caught:
        load_mnist(tmp_path)
    message = str(caught.value)
    assert str(tmp_path) in message
    for part in (TRAIN_IMAGES, "mnist", "MNIST/raw", "the directory itself", "data fetch mnist"):
        assert part in message
    with pytest.raises(DataError, match="there is no directory"):
        load_mnist(tmp_path / "absent")


def test_a_missing_file_is_named(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match="incomplete, without t10k-labels-idx1-ubyte: "):
        load_mnist(tmp_path)


def test_a_complete_folder_is_preferred_to_a_part(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "mnist" / f"{TRAIN_IMAGES}.gz").unlink()
    write_mnist(tmp_path, 10, 10, folder="MNIST/raw")
    assert len(load_mnist(tmp_path).train) == 10


def damage_truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def damage_magic(path):
    path.write_bytes(b"\0\0\x09" + path.read_bytes()[3:])


def damage_longer(path):
    path.write_bytes(path.read_bytes() + b"\0")


def damage_header(path):
    path.write_bytes(path.read_bytes()[:3])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_truncated, "has 23,436 bytes, but its header announces 23,536"),
        (damage_longer, "has 23,537 bytes, but its header announces 23,536"),
        (damage_magic, "begins with the bytes 00 00 09 03, not with the 00 00 08 03"),
        (damage_header, "begins with the bytes 00 00 08, not"),
    ],
)
def test_a_damaged_idx_file_is_named(tmp_path, damage, message):
    write_mnist(tmp_path, 30, 10, compressed=False)
    path = tmp_path / "mnist" / TRAIN_IMAGES
    damage(path)
    with pytest.raises(DataError, match=message) as caught:
        load_mnist(tmp_path)
    assert str(path) in str(caught.value)


def test_a_damaged_compressed_file_is_named(tmp_path):
    write_mnist(tmp_path)
    path = tmp_path / "mnist" / f"{TRAIN_IMAGES}.gz"
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"plain", whole[:200] + b"\0" * 50 + whole[250:]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"cannot read .*{path.name}"):
            load_mnist(tmp_path)


def test_files_that_do_not_belong_together_are_said(tmp_path):
    write_mnist(tmp_path, 30, 10, compressed=False)
    write_idx(tmp_path / "mnist" / "train-labels-idx1-ubyte", classes(29, 10))
    with pytest.raises(DataError, match=r"has 30 images, but .* 29 labels"):
        load_mnist(tmp_path)
    write_idx(tmp_path / "mnist" / "train-labels-idx1-ubyte", np.arange(30))
    with pytest.raises(DataError, match="above 9"):
        load_mnist(tmp_path)
    write_idx(tmp_path / "mnist" / TRAIN_IMAGES, np.zeros((30, 32, 32)))
    with pytest.raises(DataError, match="images of 32 x 32 pixels, not 28 x 28"):
        load_mnist(tmp_path)


def test_read_idx_reads_any_number_of_dimensions(tmp_path):
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    assert np.array_equal(read_idx(write_idx(tmp_path / "a", array), 3).numpy(), array)
    compressed = write_idx(tmp_path / "a", array, compressed=True)
    assert gzip.decompress(compressed.read_bytes())[:4] == b"\0\0\x08\x03"
    assert np.array_equal(read_idx(compressed, 3).numpy(), array)
    assert read_idx(write_idx(tmp_path / "b", np.empty((0, 28, 28))), 3).shape == (0, 28, 28)


def test_the_published_mnist():
    data = load_mnist(real_data("mnist"))
    assert (len(data.train), len(data.test)) == (60_000, 10_000)
    assert data.train.target[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert data.test.target[:5].tolist() == [7, 2, 1, 0, 4]
    prepared = data.prepare(data.train.inputs.rows(torch.arange(60_000)), None)
    assert abs(prepared.mean()) < 1e-3
    assert abs(prepared.std() - 1) < 1e-3
