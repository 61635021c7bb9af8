import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_images import COLOURS, picture, write_colours

from discrimloss.auditing.settings import audit_model
from discrimloss.auditing.sources import pictures
from discrimloss.auditing.sources.base import AuditSource, Corrections, SourceError, SourceOptions
from discrimloss.auditing.sources.open_source import open_source
from discrimloss.data.images import ImagePreparation
from discrimloss.training.config import ComponentConfig


def opened(folder: Path, **options: object) -> AuditSource:
    return open_source(SourceOptions(str(folder), **options))  # type: ignore[arg-type]


def files_in(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_subfolders_are_classes(tmp_path: Path) -> None:
    folder = write_colours(tmp_path / "colours", per_class=2)
    (folder / "red" / "deeper").mkdir()
    picture(COLOURS["red"]).save(folder / "red" / "deeper" / "x.jpeg")
    (folder / ".hidden").mkdir()
    (folder / "red" / ".thumbnail.png").write_bytes(b"no sample")
    source = opened(folder)
    assert source.class_names == ("blue", "green", "red")
    assert source.ids == (
        *("blue/0.png", "blue/1.png", "green/0.png", "green/1.png"),
        *("red/0.png", "red/1.png", "red/deeper/x.jpeg"),
    )
    assert source.target.tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert (source.left_out, source.notes, source.kind) == ((), (), "images")


def test_what_is_no_sample_is_told(tmp_path: Path) -> None:
    folder = write_colours(tmp_path / "colours")
    whole = (folder / "red" / "0.png").read_bytes()
    (folder / "red" / "cut.png").write_bytes(whole[: len(whole) // 2])
    (folder / "red" / "empty.png").write_bytes(b"")
    (folder / "red" / "page.jpg").write_text("<html>404</html>")
    (folder / "red" / "nowhere.png").symlink_to("missing.png")
    (folder / "stray.png").write_bytes(whole)
    (folder / "red" / "readme.txt").write_text("red things")
    (folder / "yellow").mkdir()
    source = opened(folder)
    reasons = {one.id: one.reason for one in source.left_out}
    assert set(reasons) == {
        *("red/cut.png", "red/empty.png", "red/page.jpg", "red/nowhere.png", "stray.png"),
    }
    assert "the file is empty" in reasons["red/empty.png"]
    assert reasons["red/page.jpg"] == "cannot be decoded (cannot identify image file)"
    assert "No such file" in reasons["red/nowhere.png"]
    assert reasons["stray.png"] == "not in a class folder"
    assert source.notes == (
        "files without the suffix of an image: 1 .txt",
        "folders without an image: 'yellow'",
    )
    assert len(source) == 9
    assert source.class_names == ("blue", "green", "red")


def test_a_class_of_one_image_is_noted(tmp_path: Path) -> None:
    folder = write_colours(tmp_path / "colours")
    (folder / "lone").mkdir()
    picture(100).save(folder / "lone" / "0.png")
    assert opened(folder).notes[0].startswith("'lone' has only one sample")


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ([], "there are no images in .*subfolder with the name of the class"),
        (["a.png", "b.png"], "are not in class folders: put the images"),
        (["cat/a.png", "cat/b.png"], "are in one folder, 'cat'"),
        (
            ["train/cat/a.png", "test/cat/b.png"],
            r"splits of a dataset, not classes .*audit one of them, .*/test",
        ),
        (["cat/a.png", "dog/broken.png"], "only 1 of 2 images .*dog/broken.png cannot be decoded"),
    ],
)
def test_folders_that_cannot_be_audited(tmp_path: Path, files: list[str], sentence: str) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        broken = "broken" in name
        (tmp_path / name).write_text("") if broken else picture(9).save(tmp_path / name)
    with pytest.raises(SourceError, match=sentence):
        opened(tmp_path)


def test_options_of_tables_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"--label does not fit .* the subfolders are the labels"):
        opened(write_colours(tmp_path / "colours"), label="class")


def test_colour_images_become_squares_that_may_be_mirrored(tmp_path: Path) -> None:
    source = opened(write_colours(tmp_path / "colours"))
    task = source.task(tmp_path / "cache")
    assert task.input_shape == (3, 36, 36)  # the shorter side
    assert task.test is None
    assert task.train.target.tolist() == source.target.tolist()
    pixels = task.train.inputs.rows(torch.arange(9))
    strongest = pixels.float().mean((2, 3)).argmax(1)
    assert [["red", "green", "blue"][channel] for channel in strongest] == [
        source.class_names[label] for label in source.target
    ]
    prepare = task.prepare
    assert isinstance(prepare, ImagePreparation)
    assert (prepare.flip, prepare.padding) == (True, 4)
    ready = prepare(pixels, None)
    assert torch.allclose(ready.mean((0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(ready.std((0, 2, 3)), torch.ones(3), atol=1e-3)
    assert audit_model(task) == ComponentConfig("compact_resnet", {"width": 16})


@pytest.mark.parametrize(
    ("sides", "expected"), [((28, 28), 28), ((5, 6), 8), ((20, 40), 40), ((300, 500), 64)]
)
def test_grey_images_have_one_channel_and_are_not_mirrored(
    tmp_path: Path, sides: tuple[int, int], expected: int
) -> None:
    for name, side in zip("ab", sides, strict=True):
        (tmp_path / "grey" / name).mkdir(parents=True)
        # A JPEG with three channels that are all the same is grey as well.
        picture(90, (side, side)).convert("RGB").save(tmp_path / "grey" / name / "0.jpg")
    task = opened(tmp_path / "grey").task(tmp_path / "cache")
    assert task.input_shape == (1, expected, expected)
    assert isinstance(task.prepare, ImagePreparation)
    assert not task.prepare.flip


def test_pixels_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = opened(write_colours(tmp_path / "colours"))
    first = source.task(tmp_path / "cache").train.inputs.rows(torch.arange(9))
    monkeypatch.setattr(source.contents, "read", None)
    assert source.task(tmp_path / "cache").train.inputs.rows(torch.arange(9)).equal(first)


def test_opening_again_looks_only_at_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_colours(tmp_path / "colours")
    (folder / "red" / "broken.png").write_bytes(b"x")
    options = SourceOptions(str(folder))
    first = open_source(options, tmp_path / "cache")
    looked = []
    look_at = pictures.look_at

    def count(encoded: bytes) -> object:
        looked.append(encoded)
        return look_at(encoded)

    monkeypatch.setattr(pictures, "look_at", count)
    again = open_source(options, tmp_path / "cache")
    assert looked == []
    assert (again.left_out, again.fingerprint()) == (first.left_out, first.fingerprint())
    picture(COLOURS["red"], (50, 50)).save(folder / "red" / "broken.png")
    mended = open_source(options, tmp_path / "cache")
    assert len(looked) == 1
    assert mended.left_out == ()
    assert mended.fingerprint() != first.fingerprint()


def test_views_are_upright_small_pictures(tmp_path: Path) -> None:
    folder = write_colours(tmp_path / "colours", per_class=1)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    lying = Image.fromarray(np.zeros((200, 400, 3), np.uint8))
    lying.paste("white", (0, 0, 200, 200))  # its left half comes up when it stands upright
    lying.save(folder / "red" / "turned.jpg", exif=exif)
    Image.new("L", (8, 8), 77).save(folder / "red" / "tiny.png")
    source = opened(folder)
    view = source.view(source.ids.index("red/turned.jpg"))
    assert view.image is not None
    shown = Image.open(io.BytesIO(view.image)).convert("L")
    assert (shown.size, view.image_type) == ((80, 160), "image/jpeg")
    assert shown.getpixel((40, 20)) > 250 > 5 > shown.getpixel((40, 140))  # type: ignore[operator]
    assert view.fields == (("path", "red/turned.jpg"), ("size", "200 × 400"))
    view = source.view(source.ids.index("red/tiny.png"))
    assert view.image is not None
    shown = Image.open(io.BytesIO(view.image))
    assert (shown.size, view.image_type) == ((96, 96), "image/png")
    assert set(np.asarray(shown).ravel().tolist()) == {77}


def test_an_image_that_went_away_is_a_sentence(tmp_path: Path) -> None:
    source = opened(write_colours(tmp_path / "colours"))
    (tmp_path / "colours" / "blue" / "1.png").unlink()
    with pytest.raises(SourceError, match=r"blue/1.png was readable before"):
        source.view(1)
    with pytest.raises(SourceError, match=r"blue/1.png was readable before"):
        source.task(tmp_path / "cache")


def test_corrected_images_lie_in_their_classes(tmp_path: Path) -> None:
    folder = write_colours(tmp_path / "colours", per_class=2)
    (folder / "red" / "broken.png").write_bytes(b"x")
    (folder / "red" / "about.txt").write_text("red things")
    before = {name: (folder / name).read_bytes() for name in files_in(folder)}
    source = opened(folder)
    blue_0, blue_1, green_0, green_1 = 0, 1, 2, 3
    corrections = Corrections(
        {blue_0: "green", green_1: "brown", 4: "red"}, frozenset({blue_1, green_0})
    )
    out = tmp_path / "corrected"
    out.mkdir()
    assert source.write_corrected(corrections, out) == [out / "colours"]
    assert files_in(out) == [
        f"colours/{name}"
        for name in (
            *("brown/1.png", "green/0.png", "red/0.png", "red/1.png"),
            *("red/about.txt", "red/broken.png"),
        )
    ]
    assert (out / "colours" / "green" / "0.png").read_bytes() == before["blue/0.png"]
    assert {name: (folder / name).read_bytes() for name in files_in(folder)} == before


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    source = opened(write_colours(tmp_path / "colours", per_class=1))
    source.write_corrected(Corrections({0: "red", 1: "red"}), tmp_path / "out")
    # All three are called 0.png; the one that was there keeps its name.
    for name, colour in (("0.png", "red"), ("0-1.png", "blue"), ("0-2.png", "green")):
        written = tmp_path / "out" / "colours" / "red" / name
        assert written.read_bytes() == (tmp_path / "colours" / colour / "0.png").read_bytes()


@pytest.mark.parametrize("name", ["", " ", ".", "..", "a/b", "a\\b", ".hidden", "x" * 300])
def test_classes_that_cannot_be_folders_are_refused(tmp_path: Path, name: str) -> None:
    source = opened(write_colours(tmp_path / "colours", per_class=1))
    with pytest.raises(SourceError, match="because a folder cannot"):
        source.write_corrected(Corrections({0: name}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_corrected_images_are_copies(tmp_path: Path) -> None:
    folder = write_colours(tmp_path / "colours", per_class=1)
    opened(folder).write_corrected(Corrections({0: "red"}), tmp_path / "out")
    written = tmp_path / "out" / "colours" / "red" / "0-1.png"
    assert written.read_bytes() == (folder / "blue" / "0.png").read_bytes()
    assert not written.samefile(folder / "blue" / "0.png")
    assert opened(folder).corrected_ids(Corrections({0: "red"})) == {0: "red/0-1.png"}


def test_a_link_that_leads_out_is_left_out_and_stays_a_link(tmp_path: Path) -> None:
    folder = write_colours(tmp_path / "colours", per_class=1)
    secret = tmp_path / "secret.png"
    picture(3).save(secret)
    (folder / "red" / "link.png").symlink_to(secret)
    (folder / "red" / "own.png").symlink_to(folder / "red" / "0.png")
    source = opened(folder)
    assert "red/own.png" in source.ids
    assert [(out.id, out.reason) for out in source.left_out] == [
        ("red/link.png", "a link that leads out of it")
    ]
    source.write_corrected(Corrections({0: "red"}), tmp_path / "out")
    assert (tmp_path / "out" / "colours" / "red" / "link.png").readlink() == secret
    assert not (tmp_path / "out" / "colours" / "red" / "own.png").is_symlink()


def test_a_folder_of_links_to_elsewhere(tmp_path: Path) -> None:
    real = write_colours(tmp_path / "real", per_class=1)
    for image in real.rglob("*.png"):
        link = tmp_path / "links" / image.relative_to(real)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(image)
    with pytest.raises(SourceError, match="links that lead out of it"):
        opened(tmp_path / "links")


def test_a_disk_that_is_full_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copy2", full)
    source = opened(write_colours(tmp_path / "colours", per_class=1))
    with pytest.raises(SourceError, match=r"No space left on device.*nothing was written"):
        source.write_corrected(Corrections({0: "red"}), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_folders_named_by_numbers_can_be_regressed_on(tmp_path: Path) -> None:
    for age in ("7", "30", "4.5"):
        (tmp_path / "ages" / age).mkdir(parents=True)
        picture(int(float(age))).save(tmp_path / "ages" / age / "face.png")
    (tmp_path / "ages" / "7" / "b.png").write_bytes(
        (tmp_path / "ages" / "7" / "face.png").read_bytes()
    )
    assert opened(tmp_path / "ages").class_names == ("4.5", "7", "30")
    source = opened(tmp_path / "ages", regression=True)
    assert source.is_regression
    assert sorted(source.target.tolist()) == [4.5, 7.0, 7.0, 30.0]
    source.write_corrected(Corrections({source.ids.index("7/b.png"): 8.0}), tmp_path / "out")
    assert "ages/8/b.png" in files_in(tmp_path / "out")


def test_a_link_to_its_own_folder_is_not_followed_for_ever(tmp_path: Path) -> None:
    folder = write_colours(tmp_path / "colours", per_class=1)
    (folder / "red" / "again").symlink_to(folder / "red")
    assert len(opened(folder)) == 3
