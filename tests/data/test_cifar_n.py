"""Human labels of CIFAR's training images."""

import numpy as np
import pytest
import torch
from real_data import real_data
from tiny_data import write_cifar10, write_cifar100, write_cifar_n

from discrimloss.data import DataError
from discrimloss.data.cifar import load_cifar10, load_cifar100
from discrimloss.options import OptionError

TEN = "cifar-n/CIFAR-10_human.npz"


@pytest.fixture
def cifar10(tmp_path):
    write_cifar10(tmp_path)
    return load_cifar10(write_cifar_n(tmp_path, load_cifar10(tmp_path).train.target))


def share_wrong(data, name):
    return (data.human_labels(name) != data.train.target).double().mean().item()


def test_labels_are_read_by_name(cifar10):
    assert torch.equal(cifar10.human_labels("clean"), cifar10.train.target)
    assert share_wrong(cifar10, "aggre") == pytest.approx(1 / 10)
    for name in ("worse", "random1", "random2", "random3"):
        assert cifar10.human_labels(name).dtype == torch.int64
        assert share_wrong(cifar10, name) == pytest.approx(1 / 3)


def test_an_unknown_name_is_an_error_that_lists_all(cifar10):
    with pytest.raises(OptionError, match=r"no human labels 'worst': .*'worse'.*random3"):
        cifar10.human_labels("worst")


def test_cifar100_has_noisy_labels(tmp_path):
    data = load_cifar100(write_cifar100(tmp_path))
    write_cifar_n(tmp_path, data.train.target, "cifar100")
    assert share_wrong(data, "noisy") == pytest.approx(1 / 3, abs=0.01)


def test_a_limited_dataset_keeps_its_labels_in_line(cifar10):
    limited = cifar10.limited(20, torch.Generator().manual_seed(0))
    assert len(limited.train) == 20
    assert torch.equal(limited.human_labels("clean"), limited.train.target)


@pytest.mark.parametrize(
    "kind", [np.asarray, torch.as_tensor, list], ids=["array", "tensor", "list"]
)
def test_the_published_torch_file_is_read(cifar10, tmp_path, kind):
    (tmp_path / TEN).unlink()
    clean = cifar10.train.target
    labels = {"clean_label": kind(clean.tolist()), "worse_label": kind((9 - clean).tolist())}
    torch.save(labels, tmp_path / "cifar-n" / "CIFAR-10_human.pt")
    assert torch.equal(cifar10.human_labels("worse"), 9 - clean)


def test_a_missing_file_is_said_when_labels_are_asked_for(tmp_path):
    data = load_cifar10(write_cifar10(tmp_path))
    with pytest.raises(DataError) as caught:
        data.human_labels("worse")
    for part in ("CIFAR-10_human.npz", "CIFAR-10_human.pt", "cifar-n", str(tmp_path)):
        assert part in str(caught.value)


def test_labels_of_other_images_are_refused(cifar10, tmp_path):
    write_cifar_n(tmp_path, cifar10.train.target.flip(0))
    with pytest.raises(DataError, match="not those of the 60 training images of cifar10"):
        cifar10.human_labels("worse")
    write_cifar_n(tmp_path, cifar10.train.target[:50])
    with pytest.raises(DataError, match="not those of the 60 training images of cifar10"):
        cifar10.human_labels("worse")


def test_too_few_labels_are_refused(cifar10, tmp_path):
    clean = cifar10.train.target.numpy()
    np.savez(tmp_path / TEN, clean_label=clean, worse_label=clean[:50])
    with pytest.raises(DataError, match=r"'worse_label' in .* has 50 labels for 60"):
        cifar10.human_labels("worse")


def test_the_published_noise_of_cifar10n():
    data = load_cifar10(real_data("cifar-10-batches-bin", TEN))
    assert share_wrong(data, "aggre") == pytest.approx(0.0903, abs=5e-4)
    assert share_wrong(data, "worse") == pytest.approx(0.4021, abs=5e-4)
    for name in ("random1", "random2", "random3"):
        assert 0.17 < share_wrong(data, name) < 0.19
