import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_data import write_clothing1m

from discrimloss.data import DataError, datasets
from discrimloss.data.clothing1m import balanced_sample, load_clothing1m
from discrimloss.options import OptionError


def load(directory, **options):
    return load_clothing1m(directory, **{"per_class": 2, "resize": 16, "crop": 12, **options})


@pytest.fixture
def tree(tmp_path):
    return write_clothing1m(tmp_path)


def test_all_parts_are_read(tree):
    data = load(tree)
    assert data.train.target.bincount().tolist() == [2] * 14
    assert (len(data.validation), len(data.test)) == (14, 14)
    assert data.test.target.tolist() == list(range(14))
    assert data.num_classes == 14
    assert data.input_shape == (3, 12, 12)
    assert data.class_names[13] == "Garment 13"
    assert not data.train_labels_are_clean
    assert data.notes == ()


def test_images_are_read_from_files_with_their_labels(tree):
    data = load(tree)
    for part in (data.train, data.validation, data.test):
        assert not part.inputs.in_memory
        images = part.inputs.rows(torch.arange(len(part)))
        assert images.shape == (len(part), 3, 16, 16)
        # The brightness of a tiny image grows with its class.
        brightness = images.float().mean((1, 2, 3))
        expected = 63.5 + part.target * 127 / 13
        assert torch.allclose(brightness, expected, atol=6)


def test_images_are_prepared_by_a_window_on_the_device(tree):
    data = load(tree)
    images = data.train.inputs.rows(torch.arange(10))
    prepared = data.prepare(images, None)
    mean = torch.tensor([0.6959, 0.6537, 0.6371]).view(3, 1, 1)
    std = torch.tensor([0.3113, 0.3192, 0.3214]).view(3, 1, 1)
    assert torch.allclose(prepared, (images[:, :, 2:14, 2:14] / 255 - mean) / std, atol=1e-5)
    augmented = data.prepare(images, torch.Generator().manual_seed(0))
    assert augmented.shape == (10, 3, 12, 12)
    assert not torch.equal(augmented, prepared)
    plain = load(tree, augment=False)
    assert torch.equal(plain.prepare(images, torch.Generator().manual_seed(0)), prepared)


def test_windows_may_lie_anywhere_in_the_image(tree):
    data = load(tree, crop_from="image")
    images = data.train.inputs.rows(torch.arange(10))
    assert images["pixels"].shape == (10, 3, 21, 16)  # of 48 x 64 pixels
    assert data.prepare(images, None).shape == (10, 3, 12, 12)
    assert data.prepare(images, torch.Generator().manual_seed(0)).shape == (10, 3, 12, 12)


def test_the_seed_decides_which_images_are_drawn(tree):
    names = [load(tree, split_seed=seed).train.inputs.names for seed in (0, 0, 1)]
    assert names[0] == names[1]
    assert names[0] != names[2]
    assert all("noisy_train" in name for name in names[0])


def test_a_class_with_too_few_images_gives_all_and_a_note(tree):
    keys = tree / "clothing1m" / "noisy_train_key_list.txt"
    lines = keys.read_text().splitlines()
    keys.write_text("\n".join(lines[1:]))  # the first is of class 0
    data = load(tree, per_class=3)
    assert data.train.target.bincount().tolist() == [2] + [3] * 13
    assert data.notes == ("not balanced: fewer than 3 noisy images of Garment 0 2",)


@given(
    labels=st.lists(st.integers(0, 4), max_size=40),
    per_class=st.integers(1, 12),
    seed=st.integers(0, 5),
)
def test_a_balanced_sample_has_as_many_of_each_class_as_there_are(labels, per_class, seed):
    target = torch.tensor(labels, dtype=torch.int64)
    chosen = balanced_sample(target, per_class, torch.Generator().manual_seed(seed))
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    expected = target.bincount(minlength=5).clamp(max=per_class)
    assert torch.equal(target[chosen].bincount(minlength=5), expected)


def test_every_sample_is_as_likely():
    target = torch.tensor([0] * 10 + [1] * 4)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.cat([balanced_sample(target, 2, generator) for _ in range(2000)])
    counts = drawn.bincount(minlength=14)
    assert counts[:10].sub(400).abs().max() < 80
    assert counts[10:].sub(1000).abs().max() < 100


@pytest.mark.parametrize("folder", ["clothing1m", "Clothing1M", "."])
def test_the_tree_is_found_where_it_lies(tmp_path, folder):
    assert len(load(write_clothing1m(tmp_path, folder=folder)).train) == 28


def test_annotations_and_images_may_lie_apart(tree):
    root = tree / "clothing1m"
    (root / "annotations").mkdir()
    for file in root.glob("*.txt"):
        file.rename(root / "annotations" / file.name)
    expected = load(tree).train.inputs.rows(torch.arange(3))
    for folder in (root / "images").iterdir():
        folder.rename(root / folder.name)
    (root / "images").rmdir()
    assert torch.equal(load(tree).train.inputs.rows(torch.arange(3)), expected)


def test_missing_data_is_said(tmp_path):
    assert datasets.get("clothing1m") is load_clothing1m
    with pytest.raises(DataError) as caught:
        load(tmp_path)
    for part in (str(tmp_path), "noisy_train_key_list.txt", "clothing1m", "data fetch clothing1m"):
        assert part in str(caught.value)


def test_a_missing_list_is_named(tree):
    (tree / "clothing1m" / "clean_test_key_list.txt").unlink()
    with pytest.raises(DataError, match=r"incomplete, without clean_test_key_list\.txt: "):
        load(tree)


def test_missing_images_are_said_at_once(tree):
    (tree / "clothing1m" / "images").rename(tree / "elsewhere")
    with pytest.raises(DataError, match=r"no image .*0,noisy_train\.jpg.* unpack .*images"):
        load(tree)


def test_a_missing_image_is_named_when_it_is_read(tree):
    data = load(tree)
    name = data.test.inputs.names[5]
    (data.test.inputs.folder / name).unlink()
    with pytest.raises(DataError, match=f"there is no image .*{name}"):
        data.test.inputs.rows(torch.arange(14))


def test_an_image_without_a_label_is_named(tree):
    keys = tree / "clothing1m" / "clean_val_key_list.txt"
    keys.write_text(keys.read_text() + "images/0/0/stranger.jpg\n")
    with pytest.raises(DataError, match=r"lists images/0/0/stranger.jpg, .*clean_label_kv\.txt"):
        load(tree)
    keys.write_text("")
    with pytest.raises(DataError, match=r"clean_val_key_list\.txt lists no images"):
        load(tree)


@pytest.mark.parametrize("line", ["images/0/0/a.jpg 14", "images/0/0/a.jpg", "a.jpg x", "a.jpg -1"])
def test_a_malformed_label_is_named(tree, line):
    labels = tree / "clothing1m" / "noisy_label_kv.txt"
    labels.write_text(f"images/0/0/b.jpg 3\n{line}\n")
    with pytest.raises(DataError, match=r"line 2 of .*noisy_label_kv\.txt must be"):
        load(tree)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"crop": 17}, r"data\.crop must be from 1 to data\.resize"),
        ({"per_class": 0}, "at least 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(tree, options, message):
    with pytest.raises(OptionError, match=message):
        load(tree, **options)
