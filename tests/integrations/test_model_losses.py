"""The loss of each sample, against a loop over samples and, on average, against the model's own."""

import pytest
import torch
from tiny_transformers import CLASSES, LENGTH, VOCABULARY, bert, tiny_vit_config
from torch.nn import functional as F
from transformers import (
    BertForMultipleChoice,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertLMHeadModel,
    ViTForImageClassification,
)
from transformers.trainer_pt_utils import LabelSmoother

from discrimloss.integrations.model_losses import ModelLosses, logits_of

BATCH = 5


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(5, VOCABULARY, (BATCH, LENGTH), generator=torch.Generator().manual_seed(2))


def test_classes_of_sequences(tokens: torch.Tensor) -> None:
    model, labels = bert(BertForSequenceClassification), torch.tensor([0, 1, 2, 1, 0])
    outputs = model(input_ids=tokens, labels=labels)
    losses = ModelLosses.of(model)(outputs.logits, labels)
    naive = [-outputs.logits[i].log_softmax(0)[labels[i]] for i in range(BATCH)]
    torch.testing.assert_close(losses, torch.stack(naive))
    torch.testing.assert_close(losses.mean(), outputs.loss)


@pytest.mark.parametrize("as_column", [False, True])
def test_numbers(tokens: torch.Tensor, as_column: bool) -> None:
    model = bert(BertForSequenceClassification, num_labels=1)
    labels = torch.tensor([0.5, -100.0, 2.0, 1.0, 0.0])
    labels = labels.unsqueeze(1) if as_column else labels
    outputs = model(input_ids=tokens, labels=labels)
    losses = ModelLosses.of(model)(outputs.logits, labels)
    naive = [(outputs.logits[i, 0] - labels.flatten()[i]) ** 2 for i in range(BATCH)]
    torch.testing.assert_close(losses, torch.stack(naive))
    torch.testing.assert_close(losses.mean(), outputs.loss)


def test_several_numbers_at_once(tokens: torch.Tensor) -> None:
    model = bert(BertForSequenceClassification, problem_type="regression")
    labels = torch.randn(BATCH, CLASSES, generator=torch.Generator().manual_seed(3))
    outputs = model(input_ids=tokens, labels=labels)
    losses = ModelLosses.of(model)(outputs.logits, labels)
    naive = [(outputs.logits[i] - labels[i]).square().mean() for i in range(BATCH)]
    torch.testing.assert_close(losses, torch.stack(naive))
    torch.testing.assert_close(losses.mean(), outputs.loss)


@pytest.mark.parametrize("problem_type", [None, "multi_label_classification"])
def test_several_labels_at_once(tokens: torch.Tensor, problem_type: str | None) -> None:
    model = bert(BertForSequenceClassification, problem_type=problem_type)
    labels = (torch.arange(BATCH * CLASSES) % 2).reshape(BATCH, CLASSES).float()
    outputs = model(input_ids=tokens, labels=labels)
    losses = ModelLosses(problem_type=problem_type)(outputs.logits, labels)
    probability = outputs.logits.sigmoid()
    naive = -(labels * probability.log() + (1 - labels) * (1 - probability).log()).mean(1)
    torch.testing.assert_close(losses, naive)
    torch.testing.assert_close(losses.mean(), outputs.loss)


def test_choices(tokens: torch.Tensor) -> None:
    model, labels = bert(BertForMultipleChoice), torch.tensor([1, 0, 1, 1, 0])
    choices = torch.stack([tokens, tokens.flip(1)], dim=1)
    outputs = model(input_ids=choices, labels=labels)
    losses = ModelLosses.of(model)(outputs.logits, labels)
    naive = [-outputs.logits[i].log_softmax(0)[labels[i]] for i in range(BATCH)]
    torch.testing.assert_close(losses, torch.stack(naive))
    torch.testing.assert_close(losses.mean(), outputs.loss)


def test_classes_of_tokens(tokens: torch.Tensor) -> None:
    model, labels = bert(BertForTokenClassification), tokens % CLASSES
    labels[0, 2:] = labels[3] = -100
    logits = model(input_ids=tokens, labels=labels).logits
    losses = ModelLosses.of(model)(logits, labels)
    for i in range(BATCH):
        kept = [t for t in range(LENGTH) if labels[i, t] != -100]
        naive = [-logits[i, t].log_softmax(0)[labels[i, t]] for t in kept]
        expected = torch.stack(naive).mean() if naive else torch.tensor(0.0)
        torch.testing.assert_close(losses[i], expected)
    assert ModelLosses.of(model).labelled(labels).tolist() == [True, True, True, False, True]


def test_images() -> None:
    torch.manual_seed(0)
    model, labels = ViTForImageClassification(tiny_vit_config()), torch.tensor([0, 2, 1])
    outputs = model(pixel_values=torch.randn(3, 3, 8, 8), labels=labels)
    losses = ModelLosses.of(model)(outputs.logits, labels)
    torch.testing.assert_close(losses, F.cross_entropy(outputs.logits, labels, reduction="none"))
    torch.testing.assert_close(losses.mean(), outputs.loss)


def test_next_tokens(tokens: torch.Tensor) -> None:
    model, labels = bert(BertLMHeadModel, is_decoder=True), tokens.clone()
    labels[1, 1:] = -100  # nothing predicts a first token
    model.loss_type = "ForCausalLM"
    losses_of = ModelLosses.of(model)
    logits = model(input_ids=tokens).logits
    losses = losses_of(logits, labels)
    naive = [-logits[0, t].log_softmax(0)[labels[0, t + 1]] for t in range(LENGTH - 1)]
    torch.testing.assert_close(losses[0], torch.stack(naive).mean())
    assert losses[1] == 0
    assert losses_of.labelled(labels).tolist() == [True, False, True, True, True]


def test_label_smoothing_is_the_trainers(tokens: torch.Tensor) -> None:
    model, labels = bert(BertForTokenClassification), tokens % CLASSES
    outputs = model(input_ids=tokens, labels=labels)
    losses = ModelLosses.of(model, label_smoothing=0.2)(outputs.logits, labels)
    torch.testing.assert_close(losses.mean(), LabelSmoother(epsilon=0.2)(outputs, labels))


def test_whole_numbers_of_a_single_output_are_all_labels() -> None:
    model = bert(BertForSequenceClassification, num_labels=1)
    assert ModelLosses.of(model).labelled(torch.tensor([3, -100])).all()
    assert ModelLosses().labelled(torch.tensor([3, -100])).tolist() == [True, False]


def test_half_precision_is_widened() -> None:
    losses = ModelLosses()(torch.zeros(2, 4, dtype=torch.bfloat16), torch.tensor([0, 1]))
    assert losses.dtype == torch.float32


def test_labels_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 4\) and torch.int64 labels of shape \(3,\)"):
        ModelLosses()(torch.zeros(2, 4), torch.tensor([0, 1, 1]))


@pytest.mark.parametrize(
    "outputs",
    [
        torch.ones(2, 3),
        {"logits": torch.ones(2, 3)},
        (torch.ones(2, 3),),
        (torch.tensor(0.5), torch.ones(2, 3)),
    ],
)
def test_logits_are_found_in_any_form_of_outputs(outputs: object) -> None:
    torch.testing.assert_close(logits_of(outputs), torch.ones(2, 3))


def test_outputs_without_logits_are_refused() -> None:
    with pytest.raises(ValueError, match="returns no logits, only start, end: pass sample_losses"):
        logits_of({"start": torch.ones(2), "end": torch.ones(2)})
