"""Targets and logits that follow from a criterion and what it is given."""

import pytest
import torch
from torch import Tensor, nn

from discrimloss.integrations.net_outputs import is_labelled, sample_labels

LOGITS = torch.tensor([[0.0, 1.0, -1.0], [2.0, 0.5, 0.0]])
CLASSES = torch.tensor([2, 0])


@pytest.mark.parametrize(
    ("criterion", "output", "gives_probabilities"),
    [
        (nn.CrossEntropyLoss(), LOGITS, True),
        (nn.NLLLoss(), LOGITS.log_softmax(1), False),
        (nn.NLLLoss(), LOGITS.softmax(1), True),
    ],
)
def test_classes(criterion: nn.Module, output: Tensor, gives_probabilities: bool) -> None:
    found = sample_labels(criterion, output, CLASSES, gives_probabilities=gives_probabilities)
    assert found is not None
    assert found.options == {"num_classes": 3}
    assert torch.equal(found.target, CLASSES)
    assert found.output is not None
    torch.testing.assert_close(found.output.softmax(1), LOGITS.softmax(1))


@pytest.mark.parametrize("criterion", [nn.BCEWithLogitsLoss(), nn.BCELoss()])
@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_two_classes_of_one_output(criterion: nn.Module, shape: tuple[int, ...]) -> None:
    probability = torch.tensor([0.2, 0.9, 0.5])
    output = probability if isinstance(criterion, nn.BCELoss) else torch.logit(probability)
    target = torch.tensor([0.0, 1.0, 0.0])
    found = sample_labels(criterion, output.reshape(shape), target.reshape(shape))
    assert found is not None
    assert found.options == {"num_classes": 2}
    assert found.target.tolist() == [0, 1, 0]
    assert found.output is not None
    torch.testing.assert_close(found.output.softmax(1)[:, 1], probability)


@pytest.mark.parametrize(
    ("criterion", "output", "target"),
    [
        (nn.CrossEntropyLoss(), torch.zeros(2, 3, 5), torch.zeros(2, 5, dtype=torch.long)),
        (nn.CrossEntropyLoss(), LOGITS, LOGITS.softmax(1)),  # shares of classes
        (nn.CrossEntropyLoss(), torch.zeros(2, 1), torch.zeros(2, dtype=torch.long)),  # one class
        (nn.CrossEntropyLoss(), torch.zeros(2, 40_000), CLASSES),  # too many to be stored
        (nn.BCEWithLogitsLoss(), LOGITS, torch.zeros(2, 3)),  # several labels at once
        (nn.BCEWithLogitsLoss(), torch.zeros(2), torch.tensor([0.3, 1.0])),
        (nn.MSELoss(), LOGITS, LOGITS),
        (nn.MultiMarginLoss(), LOGITS, CLASSES),
    ],
)
def test_what_is_left_to_the_loss_of_the_paper(
    criterion: nn.Module, output: Tensor, target: Tensor
) -> None:
    assert sample_labels(criterion, output, target) is None


def test_labels_that_are_ignored() -> None:
    labelled = is_labelled(nn.CrossEntropyLoss(ignore_index=2), CLASSES)
    assert labelled is not None
    assert labelled.tolist() == [False, True]
    assert is_labelled(nn.MSELoss(), torch.zeros(2)) is None
