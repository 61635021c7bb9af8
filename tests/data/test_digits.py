import torch
from sklearn.datasets import load_digits as embedded_digits

from discrimloss.data import datasets
from discrimloss.data.digits import load_digits


def test_digits_are_split_by_seed_and_scaled(tmp_path):
    data = load_digits(tmp_path)
    assert (len(data.train), len(data.test)) == (1348, 449)
    assert data.num_classes == 10
    assert data.input_shape == (64,)
    assert data.class_names == tuple("0123456789")
    features = data.train.inputs.rows(torch.arange(len(data.train)))
    assert features.dtype == torch.float32
    assert (features.min(), features.max()) == (0, 1)
    assert data.train.target.dtype == torch.int64


def test_the_parts_are_all_digits_each_once():
    data = load_digits(None, split_seed=3)
    parts = [
        (part.inputs.rows(torch.arange(len(part))), part.target) for part in (data.train, data.test)
    ]
    rows = torch.cat([torch.cat([x, y[:, None]], dim=1) for x, y in parts])
    pixels, labels = embedded_digits(return_X_y=True)
    expected = torch.cat([torch.tensor(pixels) / 16, torch.tensor(labels)[:, None]], dim=1).float()
    assert torch.equal(rows.sort(dim=0).values, expected.sort(dim=0).values)


def test_the_seed_decides_the_split():
    assert torch.equal(load_digits(None).test.target, load_digits(None, split_seed=0).test.target)
    assert not torch.equal(
        load_digits(None).test.target, load_digits(None, split_seed=1).test.target
    )


def test_digits_can_be_found_by_name():
    assert datasets.get("digits") is load_digits
    assert datasets.options("digits")["split_seed"].default == 0
