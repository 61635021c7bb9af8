"""Encoders that nobody named: what this computer has is used, and no network is asked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch
from tiny_lite import lite_state_dict

from discrimloss import audit
from discrimloss.auditing.sources import found_encoders, images, text
from discrimloss.auditing.sources.found_encoders import Known, find_encoder, named

MODEL = "owner/encoder"
KNOWN = Known(("no-such-package", "lite-in-a-package"), (MODEL,))


def write_package(folder: Path, name: str = "lite-in-a-package") -> None:
    """An installed package with the weights of a tiny encoder."""
    module = folder / name.replace("-", "_")
    module.mkdir(parents=True)
    (module / "__init__.py").write_text("")
    torch.save(lite_state_dict(), module / "weights.pth")
    facts = folder / f"{module.name}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    write_package(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield
    sys.modules.pop("lite_in_a_package", None)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, and a hub that must not be asked."""
    folder = tmp_path / "hub"
    folder.mkdir()
    find = huggingface_hub.try_to_load_from_cache
    monkeypatch.setattr(
        huggingface_hub,
        "try_to_load_from_cache",
        lambda model, name: find(model, name, cache_dir=folder),
    )

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("asked the hub")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", refuse)
    return folder


def write_cached(cache: Path, *names: str) -> None:
    """Files of a model, as the library of the hub keeps them."""
    folder = cache / f"models--{MODEL.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "main").write_text("1a")
    snapshot = folder / "snapshots" / "1a"
    snapshot.mkdir(parents=True, exist_ok=True)
    for name in names:
        (snapshot / name).write_text("{}")


def test_an_installed_package_comes_first(package: None, cache: Path) -> None:
    write_cached(cache, "config.json", "model.safetensors")
    assert find_encoder(KNOWN, use_hub=False) == "package:lite-in-a-package"


def test_the_plain_name_of_a_package_is_enough(
    package: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("lite-in-a-package", "lite_in_a_package"):
        assert named(name) == f"package:{name}"
    for name in ("json", "bert-base-uncased", "owner/lite", "package:lite", "/a/folder", ".."):
        assert named(name) == name  # not a package, or one without weights
    (tmp_path / "lite-in-a-package").mkdir()
    assert named("lite-in-a-package") == "lite-in-a-package"  # a folder comes first
    assert [named(one) for one in (None, "auto", "none")] == [None] * 3


def test_then_what_the_hub_has_brought_before(cache: Path) -> None:
    assert find_encoder(KNOWN, use_hub=False) is None
    write_cached(cache, "config.json")
    assert find_encoder(KNOWN, use_hub=False) is None  # without its weights
    write_cached(cache, "model.safetensors")
    assert find_encoder(KNOWN, use_hub=False) == MODEL


def test_the_hub_is_asked_only_on_request(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_encoder(KNOWN, use_hub=False) is None
    asked: list[str] = []
    monkeypatch.setattr(
        huggingface_hub.HfApi, "model_info", lambda self, model, timeout: asked.append(model)
    )
    assert find_encoder(KNOWN, use_hub=True) == MODEL
    assert asked == [MODEL]

    def unreachable(*args: object, **options: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    assert find_encoder(KNOWN, use_hub=True) is None


def pictures(number: int = 60, side: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Red, green and blue noise."""
    generator = np.random.default_rng(0)
    label = np.arange(number) % 3
    shown = generator.integers(0, 90, (number, side, side, 3))
    shown[np.arange(number), :, :, label] += 120
    return shown.astype(np.uint8), label


@pytest.fixture
def small_encoder(package: None, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only encoder that can be had takes images of 16 pixels."""
    monkeypatch.setattr(images, "OF_IMAGES", KNOWN)
    monkeypatch.setattr("discrimloss.auditing.sources.image_encoder.LiteEncoder.side", 16)


@pytest.mark.usefixtures("small_encoder")
def test_images_use_an_encoder_that_is_installed() -> None:
    made = audit(pictures(), progress=False)
    assert made.summary["encoder"] == "package:lite-in-a-package"
    assert "encoder package:lite-in-a-package" in made.summary["model"]
    assert "cross-validation" in made.summary["model"]
    named = audit(pictures(), encoder="package:lite-in-a-package", progress=False)
    assert np.array_equal(made.verdicts.p_incorrect, named.verdicts.p_incorrect)


@pytest.mark.usefixtures("small_encoder")
def test_small_images_use_one_only_on_request() -> None:
    shown, label = pictures(side=32)
    made = audit((shown, label), encoder="auto", progress=False)
    assert made.summary["encoder"] == "package:lite-in-a-package"
    facts = [images.PictureFacts(32, 32, is_grey=False, num_bytes=0)] * len(shown)
    ids = [str(number) for number in range(len(shown))]
    contents = images.Pictures(lambda index: shown[index], facts, ids, None, None)
    (note,) = contents.find_encoder()
    assert contents.encoder is None
    assert note.startswith("Images of 32 pixels were audited by a network")


@pytest.mark.usefixtures("small_encoder")
def test_features_are_made_once_without_a_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = audit(pictures(), progress=False)
    monkeypatch.setattr(images, "encoded_pictures", None)
    made.report(tmp_path / "report.html")  # has a map of the samples


def test_images_without_any_encoder_say_what_that_costs(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "OF_IMAGES", KNOWN)
    source = images.Pictures(lambda index: b"", (), (), None, None)
    assert source.find_encoder() == (images.WITHOUT_ENCODER,)
    assert images.Pictures(lambda index: b"", (), (), None, "none").find_encoder() == ()
    assert "discrimloss[encoders]" in images.WITHOUT_ENCODER


def test_texts_use_an_encoder_only_where_there_are_no_word_vectors(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cached(cache, "config.json", "model.safetensors")
    monkeypatch.setattr(text, "OF_TEXTS", KNOWN)
    for has, requested, encoder in (
        (True, None, None),
        (False, None, MODEL),
        (False, "none", None),
        (False, "another", "another"),
    ):
        monkeypatch.setattr(text, "has_word_vectors", lambda has=has: has)
        contents = text.Texts(["one", "two"], requested)
        contents.find_encoder()
        assert contents.encoder == encoder


def test_regression_targets_are_predicted_from_word_vectors(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "OF_TEXTS", KNOWN)
    for has, requested, encoder, notes in (
        (True, None, "package:wordllama", ()),
        (True, "none", None, ()),
        (False, None, None, (text.WITHOUT_VECTORS,)),
    ):
        monkeypatch.setattr(text, "has_word_vectors", lambda has=has: has)
        contents = text.Texts(["one", "two"], requested)
        assert contents.find_encoder(is_regression=True) == notes
        assert contents.encoder == encoder


def test_known_encoders_are_names_of_packages_and_models() -> None:
    for known in (found_encoders.OF_IMAGES, found_encoders.OF_TEXTS):
        assert all("/" not in name for name in known.packages)
        assert all(name.count("/") == 1 for name in known.models)
