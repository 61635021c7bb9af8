import json
from pathlib import Path

import pytest
import torch
from tiny_images import write_colours
from tiny_lite import lite_state_dict
from tiny_transformers import bert, tiny_vit_config
from transformers import BertModel, CLIPConfig, CLIPModel, ResNetConfig, ResNetModel, ViTModel

from discrimloss.auditing.settings import audit_model
from discrimloss.auditing.sources import image_encoder as image_sources
from discrimloss.auditing.sources.base import SourceError, SourceOptions
from discrimloss.auditing.sources.image_encoder import ImageEncoder, LiteEncoder
from discrimloss.auditing.sources.open_source import open_source
from discrimloss.models.efficientnet_lite import EfficientNetLite


def vit(folder: Path, *, pooling: bool = True) -> Path:
    torch.manual_seed(0)
    ViTModel(tiny_vit_config(), add_pooling_layer=pooling).save_pretrained(folder)
    return folder


def images() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (3, 3, 8, 8), dtype=torch.uint8, generator=generator)


def test_features_are_those_of_the_model(tmp_path: Path) -> None:
    folder = vit(tmp_path / "vit")
    settings = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.25, 0.2]}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    encoder = ImageEncoder(str(folder))
    assert encoder.side == 8
    mean, std = (torch.tensor(settings[key])[:, None, None] for key in ("image_mean", "image_std"))
    with torch.no_grad():
        expected = ViTModel.from_pretrained(folder)((images() / 255 - mean) / std).pooler_output
    assert torch.allclose(torch.from_numpy(encoder(images())), expected, atol=1e-6)


def test_a_pooling_layer_that_was_never_trained_is_not_used(tmp_path: Path) -> None:
    encoder = ImageEncoder(str(vit(tmp_path / "vit", pooling=False)))
    pixels = (images() / 255 - encoder.mean) / encoder.std
    with torch.no_grad():
        expected = encoder.model(pixels).last_hidden_state.mean(1)
    assert torch.allclose(torch.from_numpy(encoder(images())), expected, atol=1e-6)


def test_convolutional_and_bilingual_encoders(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_sizes": [4, 6], "depths": [1, 1], "embedding_size": 4}
    ResNetModel(ResNetConfig(layer_type="basic", **sizes)).save_pretrained(tmp_path / "resnet")
    encoder = ImageEncoder(str(tmp_path / "resnet"))
    assert encoder.side == 224
    assert encoder(images()).shape == (3, 6)
    small = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    small |= {"num_attention_heads": 1}
    vision, text = small | {"image_size": 8, "patch_size": 4}, small | {"vocab_size": 9}
    clip = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=5))
    clip.save_pretrained(tmp_path / "clip")
    encoder = ImageEncoder(str(tmp_path / "clip"))
    assert (encoder.side, encoder(images()).shape) == (8, (3, 5))


def test_a_source_is_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, encoder = write_colours(tmp_path / "colours"), vit(tmp_path / "vit")
    source = open_source(SourceOptions(str(folder), encoder=str(encoder)))
    task = source.task(tmp_path / "cache")
    features = task.train.inputs.rows(torch.arange(9))
    assert (task.input_shape, audit_model(task).name) == ((16,), "mlp")
    assert torch.allclose(features.mean(0), torch.zeros(16), atol=1e-5)
    assert features.std(0, correction=0).max() == pytest.approx(1.0, abs=1e-4)
    # Images of a class are the same picture here, and of different classes are not.
    assert torch.allclose(features[0], features[1], atol=1e-4)
    assert not torch.allclose(features[0], features[3], atol=0.1)
    monkeypatch.setattr(image_sources, "ImageEncoder", None)
    again = source.task(tmp_path / "cache").train.inputs.rows(torch.arange(9))
    assert again.equal(features)


def test_an_efficientnet_lite_is_a_file_or_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = lite_state_dict()
    package = tmp_path / "lite_of_a_test"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    torch.save(weights, package / "models" / "lite.pth")
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = str(write_colours(tmp_path / "colours"))
    found = [
        open_source(SourceOptions(folder, encoder=encoder)).task().train.inputs.tensor
        for encoder in (str(package / "models" / "lite.pth"), "package:lite-of-a-test")
    ]
    assert found[0].shape == (9, 10)
    assert found[0].equal(found[1])
    encoder = LiteEncoder(package / "models" / "lite.pth")
    pixels = (images() / 255 - 127 / 255) / (128 / 255)
    with torch.no_grad():
        expected = EfficientNetLite(weights).eval()(pixels)
    assert torch.allclose(torch.from_numpy(encoder(images())), expected, atol=1e-5)


def test_encoders_that_cannot_be_used(tmp_path: Path) -> None:
    folder = str(write_colours(tmp_path / "colours", per_class=1))
    bert(BertModel).save_pretrained(tmp_path / "bert")
    for encoder, sentence in (
        (tmp_path / "nowhere", "there is no such folder"),
        (tmp_path / "colours", "neither a folder with a model"),
        (tmp_path / "bert", "not an encoder of images: it takes input_ids"),
        (tmp_path / "nowhere.pth", "there is no file"),
        ("package:no_such_package", "no installed package"),
    ):
        source = open_source(SourceOptions(folder, encoder=str(encoder)))
        with pytest.raises(SourceError, match=f"^--encoder cannot be used: .*{sentence}"):
            source.task(tmp_path / "cache")
