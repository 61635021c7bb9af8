"""What every model of images or features must do, and what each does by itself."""

import copy
import io
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

from discrimloss.models import TaskShape, models, resnet

# Small options where the default is too large for a test; the input that each is meant for.
CASES = {
    "compact_resnet": ((3, 32, 32), {"width": 4}),
    "lenet": ((1, 28, 28), {}),
    "mlp": ((64,), {"hidden": 16}),
    "resnet": ((3, 64, 64), {"layers": 18}),
    "wide_resnet": ((3, 16, 16), {"depth": 10, "width": 1, "dropout": 0.1}),
}
MEAN, SPREAD = 33.0, 20.0


@pytest.fixture(autouse=True)
def _small_resnet(monkeypatch):
    # ResNet-18 would take most of the time of all tests here; its real size has a test elsewhere.
    small = {"layer_type": "basic", "depths": [1, 1], "hidden_sizes": [8, 16]}
    monkeypatch.setitem(resnet.ARCHITECTURES, 18, small)


def shape_of(name: str, num_classes: int | None) -> TaskShape:
    if num_classes is None:
        return TaskShape(CASES[name][0], None, target_mean=MEAN, target_spread=SPREAD)
    return TaskShape(CASES[name][0], num_classes)


def build(name: str, num_classes: int | None = 7, seed: int = 1) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return models.get(name)(shape_of(name, num_classes), **CASES[name][1])


def inputs_for(name: str, batch: int) -> torch.Tensor:
    return torch.randn(batch, *CASES[name][0], generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", models.names())
def test_no_model_goes_untested(name):
    # Models of texts and sequences take other inputs, and have their own file.
    assert name in CASES or Path(__file__).with_name(f"test_{name}.py").exists()


@pytest.mark.parametrize("num_classes", [7, None], ids=["classification", "regression"])
@pytest.mark.parametrize("name", CASES)
class TestEveryImageModel:
    def test_gives_one_row_or_one_number_per_sample(self, name, num_classes):
        output = build(name, num_classes)(inputs_for(name, batch=4))
        assert output.shape == ((4, 7) if num_classes else (4,))
        assert output.dtype == torch.float32

    def test_gradients_reach_every_parameter(self, name, num_classes):
        model = build(name, num_classes)
        output = model(inputs_for(name, batch=4))
        # Each class with a weight of its own, as equal ones would cancel in a normalized sum.
        (output * torch.arange(1.0, 1 + output.numel()).view_as(output)).sum().backward()
        for parameter_name, parameter in model.named_parameters():
            assert parameter.grad is not None, parameter_name
            assert parameter.grad.isfinite().all(), parameter_name
            assert parameter.grad.abs().sum() > 0, parameter_name

    def test_a_batch_of_one_in_eval_mode_agrees_with_a_larger_one(self, name, num_classes):
        model = build(name, num_classes).eval()
        images = inputs_for(name, batch=3)
        alone = torch.cat([model(image) for image in images.split(1)])
        torch.testing.assert_close(alone, model(images), rtol=1e-4, atol=1e-4)

    def test_state_dict_goes_there_and_back(self, name, num_classes):
        model, other = build(name, num_classes), build(name, num_classes, seed=5)
        model(inputs_for(name, batch=4))  # moves the statistics of normalizations
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        images = inputs_for(name, batch=2)
        assert not torch.equal(other.eval()(images), model.eval()(images))
        other.load_state_dict(torch.load(file, weights_only=True))
        assert torch.equal(other(images), model(images))

    def test_the_seed_alone_decides_the_first_weights(self, name, num_classes):
        first, second = (build(name, num_classes).state_dict() for _ in range(2))
        assert first.keys() == second.keys()
        assert all(torch.equal(first[key], second[key]) for key in first)
        other = build(name, num_classes, seed=2).state_dict()
        assert any(not torch.equal(first[key], other[key]) for key in first)

    def test_copies_and_pickles_are_the_same_model_apart(self, name, num_classes):
        model = build(name, num_classes).eval()
        images = inputs_for(name, batch=2)
        before = model(images)
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert torch.equal(twin(images), before)
            with torch.no_grad():
                for parameter in twin.parameters():
                    parameter.add_(1)
            assert not torch.equal(twin(images), before)
        assert torch.equal(model(images), before)

    def test_the_layout_of_the_input_in_memory_does_not_matter(self, name, num_classes):
        model = build(name, num_classes).eval()
        images = inputs_for(name, batch=4)
        if images.dim() != 4:
            pytest.skip("only images have channels")
        other_layout = images.contiguous(memory_format=torch.channels_last)
        assert torch.equal(model(images), model(other_layout))


@pytest.mark.parametrize("name", CASES)
def test_a_regression_predicts_in_the_unit_of_the_target(name):
    in_years = build(name, None).eval()
    standardized = build(name, None).eval()
    standardized.output.target_mean.fill_(0)
    standardized.output.target_spread.fill_(1)
    features = inputs_for(name, batch=4)
    torch.testing.assert_close(
        in_years(features), standardized(features) * SPREAD + MEAN, rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("name", sorted(set(CASES) - {"mlp"}))
def test_features_are_not_images(name):
    with pytest.raises(ValueError, match=rf"{name} needs images.*\(64,\)"):
        models.get(name)(TaskShape((64,), 7))
