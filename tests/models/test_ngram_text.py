"""A bag of n-grams, worked out by hand."""

import pytest
import torch

from discrimloss.models import TaskShape
from discrimloss.models.ngram_text import NgramText

NGRAMS = {
    "ids": torch.tensor([3, 1, 3, 0], dtype=torch.int32),
    "weights": torch.tensor([0.5, 2.0, 1.0, -1.0]),
    "offsets": torch.tensor([0, 2, 2], dtype=torch.int32),  # the second text is empty
}


def weighted_sums(model: NgramText) -> torch.Tensor:
    vectors = model.vectors.weight
    return torch.stack(
        [
            0.5 * vectors[3] + 2.0 * vectors[1],
            torch.zeros(vectors.shape[1]),
            vectors[3] - vectors[0],
        ]
    )


def test_it_is_a_linear_layer_on_weighted_sums():
    model = NgramText(TaskShape((), 2), buckets=8, dim=4)
    expected = weighted_sums(model) @ model.head.weight.T + model.head.bias
    torch.testing.assert_close(model(NGRAMS), expected)


def test_a_regression_is_in_the_unit_of_the_target():
    shape = TaskShape((), None, target_mean=40.0, target_spread=10.0)
    model = NgramText(shape, buckets=8, dim=4)
    raw = (weighted_sums(model) @ model.head.weight.T + model.head.bias)[:, 0]
    torch.testing.assert_close(model(NGRAMS), raw * 10.0 + 40.0)


def test_only_ngrams_of_the_batch_get_a_gradient():
    model = NgramText(TaskShape((), 2), buckets=8, dim=4)
    model(NGRAMS).square().sum().backward()
    has_gradient = model.vectors.weight.grad.abs().sum(dim=1) > 0
    assert has_gradient.tolist() == [True, True, False, True, False, False, False, False]


@pytest.mark.parametrize(
    ("shape", "options", "sentence"),
    [
        (TaskShape((3,), 2), {}, "numbers as inputs"),
        (TaskShape((), 2), {"buckets": 0}, "buckets must be 1 or more"),
        (TaskShape((), 2), {"dim": 0}, "dim must be 1 or more"),
    ],
)
def test_what_does_not_fit_is_refused(shape, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        NgramText(shape, **options)
