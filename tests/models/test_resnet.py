"""ResNet from scratch, from a directory, and from where there is none."""

import json

import pytest
import torch

from discrimloss.models import TaskShape
from discrimloss.models.resnet import ResNet, looks_like_a_path

transformers = pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    # No test may wait for a network, or depend on there being one.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def saved(tmp_path):
    """A directory with a tiny pretrained ResNet of 5 classes, and its weights."""
    config = transformers.ResNetConfig(
        embedding_size=4,
        hidden_sizes=[4, 8],
        depths=[1, 1],
        layer_type="basic",
        num_labels=5,
    )
    model = transformers.ResNetForImageClassification(config)
    model(torch.randn(4, 3, 32, 32))  # moves the statistics of normalizations
    model.save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny", model.state_dict()


def differing(model, weights):
    mine = model.network.state_dict()
    assert mine.keys() == weights.keys()
    return {
        key
        for key in weights
        if mine[key].shape != weights[key].shape or not torch.equal(mine[key], weights[key])
    }


@pytest.mark.parametrize(("layers", "parameters"), [(18, 11_689_512), (50, 25_557_032)])
def test_they_have_the_published_number_of_parameters(layers, parameters):
    with torch.device("meta"):
        model = ResNet(TaskShape((3, 224, 224), 1000), layers=layers)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def test_from_scratch_takes_any_number_of_channels():
    model = ResNet(TaskShape((1, 64, 64), 3))
    assert model.eval()(torch.zeros(1, 1, 64, 64)).shape == (1, 3)


def test_other_depths_are_refused():
    with pytest.raises(ValueError, match="18 or 50 layers, not 34"):
        ResNet(TaskShape((3, 64, 64), 3), layers=34)


def test_a_pretrained_head_of_the_right_size_is_kept(saved):
    directory, weights = saved
    model = ResNet(TaskShape((3, 32, 32), 5), pretrained=str(directory))
    assert differing(model, weights) == set()


@pytest.mark.parametrize("num_classes", [7, None])
def test_another_number_of_outputs_means_a_new_head_on_the_pretrained_body(saved, num_classes):
    directory, weights = saved
    shape = TaskShape((3, 32, 32), num_classes, target_mean=30.0, target_spread=2.0)
    model = ResNet(shape, pretrained=str(directory)).eval()
    assert differing(model, weights) == {"classifier.1.weight", "classifier.1.bias"}
    output = model(torch.zeros(2, 3, 32, 32))
    assert output.shape == ((2, 7) if num_classes else (2,))


def test_the_seed_decides_the_new_head(saved):
    directory, _ = saved
    heads = []
    for seed in (1, 1, 2):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = ResNet(TaskShape((3, 32, 32), 7), pretrained=str(directory))
        heads.append(model.network.state_dict()["classifier.1.weight"])
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])
    assert 0 < float(heads[0].abs().max()) < 1


def test_a_missing_directory_is_one_sentence(tmp_path):
    missing = tmp_path / "nothing"
    with pytest.raises(ValueError, match=r"no directory .*nothing; give one that") as caught:
        ResNet(TaskShape((3, 32, 32), 5), pretrained=str(missing))
    assert "\n" not in str(caught.value)


def test_a_directory_without_a_model_is_one_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"cannot load a resnet from .*give a directory") as caught:
        ResNet(TaskShape((3, 32, 32), 5), pretrained=str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_name_that_cannot_be_fetched_is_one_sentence():
    with pytest.raises(ValueError, match="cannot load a resnet from 'nobody/no-such") as caught:
        ResNet(TaskShape((3, 32, 32), 5), pretrained="nobody/no-such-model")
    assert "\n" not in str(caught.value)


def test_another_kind_of_model_is_refused(tmp_path):
    transformers.BertConfig(hidden_size=8, num_attention_heads=1).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="holds a model of type 'bert', not a resnet"):
        ResNet(TaskShape((3, 32, 32), 5), pretrained=str(tmp_path))


def test_images_of_other_channels_are_refused(saved):
    directory, _ = saved
    with pytest.raises(ValueError, match="its images have 3 channels, those of the task have 1"):
        ResNet(TaskShape((1, 32, 32), 5), pretrained=str(directory))


def test_weights_that_do_not_fit_are_refused_and_not_made_up(saved):
    directory, _ = saved
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"hidden_sizes": [4, 12]}))
    with pytest.raises(ValueError, match=r"do not fit its config\.json, such as resnet\.encoder"):
        ResNet(TaskShape((3, 32, 32), 5), pretrained=str(directory))


def test_weights_of_half_precision_become_single(saved):
    directory, weights = saved
    model = transformers.ResNetForImageClassification.from_pretrained(directory)
    model.half().save_pretrained(directory)
    loaded = ResNet(TaskShape((3, 32, 32), 5), pretrained=str(directory)).network.state_dict()
    key = "resnet.embedder.embedder.convolution.weight"
    assert loaded[key].dtype == torch.float32
    torch.testing.assert_close(loaded[key], weights[key], rtol=1e-3, atol=1e-4)


def test_names_on_the_hub_are_told_from_paths():
    assert not looks_like_a_path("microsoft/resnet-50")
    assert not looks_like_a_path("resnet-50")
    assert all(map(looks_like_a_path, ["./resnet", "/models/resnet", "~/resnet", "a/b/c"]))


def test_raw_outputs_are_predictions_in_the_unit_of_the_target():
    shape = TaskShape((3, 32, 32), None, target_mean=33.0, target_spread=20.0)
    images = torch.randn(2, 3, 32, 32)
    for standardized, scale, shift in ((True, 20.0, 33.0), (False, 1.0, 0.0)):
        torch.manual_seed(0)
        model = ResNet(shape, standardized=standardized).eval()
        raw = model.network(images).logits.squeeze(1)
        assert torch.allclose(model(images), raw * scale + shift)
