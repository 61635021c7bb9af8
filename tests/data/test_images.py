"""Batches of images: augmentation against a loop over images, preparation, files."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader

from discrimloss.data import DataError
from discrimloss.data.images import (
    CACHE_VARIABLE,
    ImageFiles,
    ImagePreparation,
    SharedRows,
    crop_each,
    decode_all,
    decode_square,
    normalise,
)

MEAN, STD = (0.5, 0.4, 0.3), (0.25, 0.2, 0.1)


def random_images(batch: int = 16, channels: int = 3, height: int = 12, width: int = 10):
    generator = torch.Generator().manual_seed(batch)
    shape = (batch, channels, height, width)
    return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)


def naive_windows(images, top, left, mirrored, height, width):
    windows = []
    for image, y, x, flip in zip(images, top.tolist(), left.tolist(), mirrored, strict=True):
        window = image[:, y : y + height, x : x + width]
        windows.append(window.flip(-1) if flip else window)
    return torch.stack(windows)


def naive_padded(images, padding):
    batch, channels, height, width = images.shape
    padded = torch.zeros(
        (batch, channels, height + 2 * padding, width + 2 * padding), dtype=torch.uint8
    )
    padded[:, :, padding : padding + height, padding : padding + width] = images
    return padded


@given(
    seed=st.integers(0, 1000),
    batch=st.integers(1, 9),
    channels=st.sampled_from([1, 3]),
    height=st.integers(1, 9),
    width=st.integers(1, 7),
)
def test_crop_each_cuts_the_windows_that_a_loop_cuts(seed, batch, channels, height, width):
    generator = torch.Generator().manual_seed(seed)
    images = random_images(batch, channels, 9, 7)
    top = torch.randint(9 - height + 1, (batch,), generator=generator)
    left = torch.randint(7 - width + 1, (batch,), generator=generator)
    mirrored = torch.randint(2, (batch,), generator=generator).bool()
    windows = crop_each(images, top, left, mirrored, height, width)
    assert torch.equal(windows, naive_windows(images, top, left, mirrored, height, width))


@pytest.mark.parametrize(("size", "padding"), [(None, 4), (8, 0), (8, 1), (10, 2)])
def test_training_images_are_random_windows_of_the_padded_images(size, padding):
    images = random_images()
    prepare = ImagePreparation(MEAN, STD, size=size, padding=padding, flip=True)
    height, width = (12, 10) if size is None else (size, size)
    generator = torch.Generator().manual_seed(3)
    top = torch.randint(12 + 2 * padding - height + 1, (16,), generator=generator)
    left = torch.randint(10 + 2 * padding - width + 1, (16,), generator=generator)
    mirrored = torch.randint(2, (16,), generator=generator).bool()
    windows = naive_windows(naive_padded(images, padding), top, left, mirrored, height, width)
    assert torch.equal(
        prepare(images, torch.Generator().manual_seed(3)), normalise(windows, MEAN, STD)
    )
    assert len(top.unique()) > 1
    assert 0 < mirrored.sum() < 16


def test_every_image_is_augmented_by_itself_and_every_place_occurs():
    image = torch.arange(25, dtype=torch.uint8).view(1, 1, 5, 5)
    images = image.expand(4000, -1, -1, -1)
    prepare = ImagePreparation((0.0,), (1 / 255,), padding=1, flip=True)
    prepared = prepare(images, torch.Generator().manual_seed(0))
    seen, counts = prepared.flatten(1).unique(dim=0, return_counts=True)
    assert len(seen) == 3 * 3 * 2
    assert counts.min() > 150  # 222 expected
    assert counts.max() < 300


def test_the_generator_alone_decides():
    images = random_images()
    prepare = ImagePreparation(MEAN, STD, padding=2, flip=True)
    generator = torch.Generator().manual_seed(1)
    first, second = prepare(images, generator), prepare(images, generator)
    assert torch.equal(first, prepare(images, torch.Generator().manual_seed(1)))
    assert not torch.equal(first, second)


def test_for_evaluation_the_middle_is_normalised():
    images = random_images()
    expected = (images.double() / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(
        3, 1, 1
    )
    whole = ImagePreparation(MEAN, STD, padding=2, flip=True)(images, None)
    assert whole.dtype == torch.float32
    assert torch.allclose(whole.double(), expected, atol=1e-5)
    middle = ImagePreparation(MEAN, STD, size=6, flip=True)(images, None)
    assert torch.allclose(middle.double(), expected[:, :, 3:9, 2:8], atol=1e-5)


def test_without_augmentation_training_images_equal_those_for_evaluation():
    images = random_images()
    prepare = ImagePreparation(MEAN, STD, size=6, padding=2, flip=True, augment=False)
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    assert torch.equal(prepare(images, generator), prepare(images, None))
    assert torch.equal(generator.get_state(), before)
    plain = ImagePreparation(MEAN, STD)
    assert torch.equal(plain(images, generator), plain(images, None))


@pytest.mark.parametrize("channels", [1, 3])
def test_prepared_images_have_their_channels_last_and_leave_the_input_alone(channels):
    images = random_images(channels=channels)
    before = images.clone()
    prepare = ImagePreparation(MEAN[:channels], STD[:channels], padding=2, flip=True)
    for generator in (None, torch.Generator().manual_seed(0)):
        prepared = prepare(images, generator)
        assert prepared.stride()[1] == 1
        assert prepared.shape == images.shape
    assert torch.equal(images, before)


def test_preparation_survives_pickling():
    prepare = ImagePreparation(MEAN, STD, size=8, padding=2, flip=True)
    assert pickle.loads(pickle.dumps(prepare)) == prepare


def test_shared_rows_are_read_and_selected_without_copying():
    tensor = random_images(batch=6)
    shared = SharedRows(tensor, torch.tensor([5, 0, 3]))
    assert len(shared) == 3
    assert torch.equal(shared.rows(torch.tensor([2, 0])), tensor[[3, 5]])
    part = shared.select(torch.tensor([1, 2]))
    assert torch.equal(part.rows(torch.tensor([0, 1])), tensor[[0, 3]])
    assert part.tensor.data_ptr() == tensor.data_ptr()


def save(path, array):
    Image.fromarray(array).save(path)
    return path


def test_decoding_takes_the_middle_square_of_an_image(tmp_path):
    wide = np.zeros((4, 10, 3), dtype=np.uint8)
    wide[:, 3:7] = (10, 20, 30)
    decoded = decode_square(save(tmp_path / "wide.png", wide), 4)
    assert decoded.shape == (3, 4, 4)
    assert decoded.dtype == torch.uint8
    assert decoded[:, 0, 0].tolist() == [10, 20, 30]
    assert torch.equal(decoded, decoded[:, :1, :1].expand(3, 4, 4))


def test_decoding_scales_and_turns_grey_into_three_channels(tmp_path):
    grey = np.repeat(np.arange(0, 240, 10, dtype=np.uint8)[:, None], 12, axis=1)
    decoded = decode_square(save(tmp_path / "grey.png", grey), 6)
    assert torch.equal(decoded[0], decoded[2])
    middle = torch.tensor([65, 85, 105, 125, 145, 165], dtype=torch.float)
    assert torch.allclose(decoded[0, :, 0].float(), middle, atol=3)


def test_image_files_are_read_by_rows(tmp_path):
    for shade in range(5):
        save(tmp_path / f"{shade}.png", np.full((6, 8, 3), shade, dtype=np.uint8))
    files = ImageFiles(tmp_path, tuple(f"{shade}.png" for shade in range(5)), size=4)
    assert not files.in_memory
    assert len(files) == 5
    batch = files.rows(torch.tensor([4, 0, 4]))
    assert batch.shape == (3, 3, 4, 4)
    assert batch[:, 0, 0, 0].tolist() == [4, 0, 4]
    part = pickle.loads(pickle.dumps(files)).select(torch.tensor([3, 1]))
    assert part.rows(torch.tensor([0, 1]))[:, 0, 0, 0].tolist() == [3, 1]


def test_a_bad_image_file_is_named(tmp_path):
    (tmp_path / "text.jpg").write_text("not an image")
    whole = save(tmp_path / "whole.jpg", np.zeros((64, 64, 3), dtype=np.uint8))
    (tmp_path / "cut.jpg").write_bytes(whole.read_bytes()[:500])
    files = ImageFiles(tmp_path, ("text.jpg", "cut.jpg", "absent.jpg"), size=4)
    for row, name in enumerate(files.names):
        with pytest.raises(DataError) as caught:
            files.rows(torch.tensor([row]))
        assert str(tmp_path / name) in str(caught.value)
        again = pickle.loads(pickle.dumps(caught.value))
        assert str(again) == str(caught.value)


class Batches(torch.utils.data.Dataset):
    def __init__(self, inputs, batches):
        self.inputs, self.batches = inputs, batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, number):
        return self.inputs.rows(self.batches[number])


def test_a_worker_process_reads_files_and_names_a_bad_one(tmp_path):
    save(tmp_path / "good.png", np.full((6, 8, 3), 7, dtype=np.uint8))
    files = ImageFiles(tmp_path, ("good.png", "absent.png"), size=4)
    batches = Batches(files, [torch.tensor([0, 0]), torch.tensor([0, 1])])
    read = iter(DataLoader(batches, batch_size=None, num_workers=1))
    assert next(read).unique().tolist() == [7]
    with pytest.raises(DataError, match=r"there is no image .*absent.png"):
        next(read)


@pytest.fixture
def six_images(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    return [
        save(folder / f"{shade}.png", np.full((4, 4, 3), shade, dtype=np.uint8))
        for shade in range(6)
    ]


def test_all_images_are_decoded_in_order_and_bad_ones_left_out(six_images):
    six_images[2].write_bytes(b"broken")
    decoded = decode_all(six_images, 4)
    assert decoded.readable.tolist() == [True, True, False, True, True, True]
    assert decoded.pixels[:, 0, 0, 0].tolist() == [0, 1, 3, 4, 5]


def test_nothing_is_written_without_a_cache_directory(six_images, tmp_path, monkeypatch):
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    before = sorted(tmp_path.rglob("*"))
    decode_all(six_images, 4)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_cache_is_used_for_the_same_files_and_size_only(six_images, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv(CACHE_VARIABLE, str(cache))
    first = decode_all(six_images, 4).pixels.clone()
    (kept,) = cache.iterdir()
    kept.unlink()  # it may still be mapped into memory
    # Something else in the kept file shows that it is read.
    np.save(kept, np.full((6, 3, 4, 4), 99, dtype=np.uint8))
    again = decode_all(six_images, 4)
    assert first[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert again.pixels.unique().tolist() == [99]
    assert again.readable.all()
    assert decode_all(six_images, 2).pixels.shape == (6, 3, 2, 2)
    assert decode_all(six_images[:5], 4).pixels[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert len(list(cache.iterdir())) == 3
    kept.unlink()
    kept.write_bytes(b"broken")
    assert torch.equal(decode_all(six_images, 4).pixels, first)


def test_images_with_a_bad_one_among_them_are_not_kept(six_images, tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    six_images[0].write_bytes(b"broken")
    decode_all(six_images, 4)
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written_is_said(six_images, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"cannot keep decoded images in .*DISCRIMLOSS_CACHE"):
        decode_all(six_images, 4)
