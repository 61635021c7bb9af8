import numpy as np
import pytest
import torch
from PIL import Image
from real_data import real_data
from tiny_data import MALFORMED_FACES, write_utkface

from discrimloss.data import DataError, datasets
from discrimloss.data.utkface import find_faces, load_utkface, split_by_name
from discrimloss.options import OptionError


def all_rows(part):
    return part.inputs.rows(torch.arange(len(part)))


def test_ages_come_from_the_names(tmp_path):
    data = load_utkface(write_utkface(tmp_path, count=40), size=16)
    assert (len(data.train), len(data.test)) == (36, 4)
    assert data.is_regression
    assert data.input_shape == (3, 16, 16)
    ages = torch.cat([data.train.target, data.test.target])
    assert ages.dtype == torch.float32
    assert sorted(ages.tolist()) == sorted(1 + row * 7 % 100 for row in range(40))


def test_each_face_keeps_its_age(tmp_path):
    folder = tmp_path / "UTKFace"
    folder.mkdir()
    for age in range(1, 31):
        face = Image.fromarray(np.full((8, 8, 3), 8 * age, dtype=np.uint8))
        face.save(folder / f"{age}_0_0_20170109142408075.jpg.chip.jpg", quality=100)
    data = load_utkface(tmp_path, size=8, split_seed=5)
    for part in (data.train, data.test):
        shades = all_rows(part).float().mean((1, 2, 3))
        assert torch.allclose(shades, 8 * part.target, atol=2)


def test_malformed_names_are_left_out_and_noted(tmp_path):
    data = load_utkface(write_utkface(tmp_path, count=20), size=8)
    assert len(data.train) + len(data.test) == 20
    (note,) = data.notes
    assert note.startswith("3 files left out, not named age_gender_race_date")
    for name in MALFORMED_FACES:
        assert repr(name) in note


def test_unreadable_images_are_left_out_and_noted(tmp_path):
    write_utkface(tmp_path, count=20, malformed=())
    bad = tmp_path / "UTKFace" / "7_0_0_20170109142408075.jpg.chip.jpg"
    bad.write_bytes(b"not an image")
    data = load_utkface(tmp_path, size=8)
    assert len(data.train) + len(data.test) == 20
    assert data.notes == (f"1 file left out, not readable as an image: {bad.name!r}",)


def test_long_notes_are_cut(tmp_path):
    malformed = [f"{number}.jpg" for number in range(9)]
    data = load_utkface(write_utkface(tmp_path, count=20, malformed=malformed), size=8)
    assert data.notes[0].endswith("'4.jpg' and 4 more")


@pytest.mark.parametrize("folder", ["UTKFace", "utkface", "UTKFace/UTKFace", ".", "UTKFace/part1"])
def test_faces_are_read_where_they_lie(tmp_path, folder):
    data = load_utkface(write_utkface(tmp_path, 20, folder=folder), size=8)
    assert len(data.train) + len(data.test) == 20


def test_all_parts_of_the_uncropped_release_are_read(tmp_path):
    for number in (1, 2, 3):
        folder = tmp_path / "UTKFace" / f"part{number}"
        folder.mkdir(parents=True)
        for age in range(10):
            face = Image.fromarray(np.zeros((8, 8, 3), dtype=np.uint8))
            face.save(folder / f"{10 * number + age}_1_4_20170109142408075.jpg")
    data = load_utkface(tmp_path, size=8)
    ages = torch.cat([data.train.target, data.test.target])
    assert sorted(ages.tolist()) == list(range(10, 40))


def test_the_seed_decides_the_split(tmp_path):
    write_utkface(tmp_path)
    first, again = load_utkface(tmp_path, size=8), load_utkface(tmp_path, size=8)
    other = load_utkface(tmp_path, size=8, split_seed=1)
    assert torch.equal(first.train.target, again.train.target)
    assert torch.equal(all_rows(first.train), all_rows(again.train))
    assert not torch.equal(first.train.target, other.train.target)


def test_faces_are_prepared(tmp_path):
    data = load_utkface(write_utkface(tmp_path), size=32)
    faces = all_rows(data.train)
    prepared = data.prepare(faces, None)
    assert torch.allclose(prepared, faces / 127.5 - 1, atol=1e-5)
    assert data.prepare.padding == 2
    generator = torch.Generator().manual_seed(0)
    assert not torch.equal(data.prepare(faces, generator), prepared)
    plain = load_utkface(tmp_path, size=32, augment=False)
    assert torch.equal(plain.prepare(faces, generator), prepared)


def test_a_limited_dataset_keeps_faces_and_ages_together(tmp_path):
    data = load_utkface(write_utkface(tmp_path), size=8)
    limited = data.limited(10, torch.Generator().manual_seed(0))
    faces, ages = all_rows(data.train), data.train.target
    for face, age in zip(all_rows(limited.train), limited.train.target, strict=True):
        assert any(torch.equal(face, faces[row]) for row in (ages == age).nonzero().flatten())


def test_missing_faces_are_said(tmp_path):
    assert datasets.get("utkface") is load_utkface
    with pytest.raises(DataError) as caught:
        load_utkface(tmp_path)
    for part in (str(tmp_path), "*.jpg", "UTKFace", "part1", "data fetch utkface"):
        assert part in str(caught.value)
    write_utkface(tmp_path, count=0)
    with pytest.raises(DataError, match="of 3 files 3 are not named"):
        load_utkface(tmp_path)


def test_a_size_of_nothing_is_refused(tmp_path):
    with pytest.raises(OptionError, match=r"data\.size must be at least 1, not 0"):
        load_utkface(tmp_path, size=0)


def test_the_published_faces(tmp_path):
    faces = find_faces(real_data("UTKFace"))
    named, malformed = split_by_name(faces)
    assert (len(faces), len(malformed)) == (23_708, 5)
    ages = torch.tensor([float(path.name.split("_")[0]) for path in named])
    assert (ages.min(), ages.max()) == (1, 116)
    assert 33 < ages.mean() < 34
    # All of them take half a minute to decode.
    for path in [*named[::400], *malformed]:
        (tmp_path / path.name).symlink_to(path.absolute())
    data = load_utkface(tmp_path, size=64)
    assert len(data.train) + len(data.test) == len(named[::400])
    assert data.notes[0].startswith("5 files left out")
    assert data.train.inputs.rows(torch.arange(10)).float().std() > 20
