"""Multiple choice over texts, with an encoder of the transformers library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from discrimloss.models.base import TaskShape, models
from discrimloss.models.text_encoder import (
    Architecture,
    load_configuration,
    load_tokenizer,
    load_weights,
    transformers_library,
)

Question = tuple[str, tuple[str, ...]]

FIRST_SCALE = 20.0  # initial factor of the cosines; the usual value for sentence encoders


@models.register("text_choice")
class TextChoice(nn.Module):
    """A multiple-choice model for texts: RoBERTa, BERT, XLNet, GPT-2 or a similar encoder.

    The head ``"cross"`` is that of the paper. Context and choice are encoded together, and one
    linear layer scores them, as in the multiple-choice models of transformers. For architectures
    without such a model (GPT-2), the linear layer gets the state of the last token.

    The head ``"bi"`` encodes each text separately, as the mean of its token vectors. A learned
    linear map, which starts as the identity, is applied to the vector of the context. The score of
    a choice is the scaled cosine between the result and the vector of the choice. With a sentence
    encoder, this head predicts well before any training, and needs far fewer questions.

    Args:
        shape: shape of the task, for the number of choices.
        pretrained: a folder, a name on the model hub, or ``"package:NAME"`` for an installed
            package with a folder ``model``. With None, weights are random, tokens are bytes, and
            nothing is downloaded.
        random_weights: whether to use only the sizes and the tokenizer of `pretrained`.
        architecture: the architecture to build if `pretrained` is None.
        hidden_size: width of the encoder, if `pretrained` is None.
        num_layers: number of layers of the encoder, if `pretrained` is None.
        max_length: maximum number of tokens. Longer texts are truncated. The publishers of the
            WikiHow questions use 80.
        head: ``"cross"`` or ``"bi"``.
        frozen: whether to train only the head. The encoder then runs without dropout.
    """

    def __init__(
        self,
        shape: TaskShape,
        *,
        pretrained: str | None = None,
        random_weights: bool = False,
        architecture: Architecture = "roberta",
        hidden_size: int = 768,
        num_layers: int = 12,
        max_length: int = 80,
        head: Literal["cross", "bi"] = "cross",
        frozen: bool = False,
    ) -> None:
        super().__init__()
        if shape.num_classes is None:
            raise ValueError("text_choice is for multiple choice; this dataset is a regression")
        sizes = {"hidden_size": hidden_size, "num_layers": num_layers, "max_length": max_length}
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be 1 or more, not {size}")
        if shape.input_shape:
            raise ValueError("text_choice reads texts; this dataset has numbers as inputs")
        configuration = load_configuration(pretrained, architecture, hidden_size, num_layers)
        self.num_choices = shape.num_classes
        self.reads_pairs = head == "cross"
        self.tokenizer = load_tokenizer(pretrained, configuration.model_type)
        self.max_length = max_length
        if max_length > self.tokenizer.model_max_length:
            limit = self.tokenizer.model_max_length
            raise ValueError(f"max_length must be at most {limit} here, not {max_length}")
        build = build_cross_scorer if head == "cross" else BiScorer
        self.scorer = build(None if random_weights else pretrained, configuration)
        self.frozen = frozen
        if frozen:
            self.scorer.encoder.requires_grad_(False)

    def tokenize(self, questions: Sequence[Question]) -> dict[str, Tensor]:
        """Return tokens of shape (batch, texts, length), padded to the longest text.

        For the head ``"cross"``, each text is the context followed by a choice. For the head
        ``"bi"``, the texts are the context and then each choice.
        """
        for context, choices in questions:
            if len(choices) != self.num_choices:
                raise ValueError(
                    f"the question {context!r} has {len(choices)} choices, not {self.num_choices}"
                )
        if self.reads_pairs:
            pairs = [(context, choice) for context, choices in questions for choice in choices]
            tokens = self._tokens(*_as_pairs(pairs, self.tokenizer))
        else:
            tokens = self._tokens([text for question in questions for text in _texts(question)])
        shape = (len(questions), -1, tokens["input_ids"].shape[1])
        return {name: table.view(shape) for name, table in tokens.items()}

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return logits of shape (batch, choices)."""
        scores: Tensor = self.scorer(inputs)
        return scores

    def train(self, mode: bool = True) -> TextChoice:
        """Set training mode. A frozen encoder stays in evaluation mode."""
        super().train(mode)
        if self.frozen:
            self.scorer.encoder.eval()
        return self

    def _tokens(self, *texts: list[str]) -> dict[str, Tensor]:
        tokens = self.tokenizer(
            *texts,
            truncation=True,
            max_length=self.max_length,
            padding=True,
            return_tensors="pt",
            return_attention_mask=True,
        )
        return dict(tokens)


class CrossScorer(nn.Module):
    """The multiple-choice model of transformers, e.g. `RobertaForMultipleChoice`."""

    def __init__(self, pretrained: str | None, configuration: Any) -> None:
        super().__init__()
        factory = transformers_library().AutoModelForMultipleChoice
        self.model = load_weights(factory, pretrained, configuration)

    @property
    def encoder(self) -> nn.Module:
        """All layers except the head."""
        return self.model.base_model  # type: ignore[no-any-return]

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return scores of shape (batch, choices)."""
        return self.model(**inputs).logits  # type: ignore[no-any-return]


class LastTokenScorer(nn.Module):
    """A linear layer on the state of the last token, for models that read left to right."""

    def __init__(self, pretrained: str | None, configuration: Any) -> None:
        super().__init__()
        factory = transformers_library().AutoModel
        self.encoder = load_weights(factory, pretrained, configuration)
        self.head = nn.Linear(configuration.hidden_size, 1)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return scores of shape (batch, choices)."""
        flat = {name: table.flatten(0, 1) for name, table in inputs.items()}
        states = self.encoder(**flat).last_hidden_state
        last = flat["attention_mask"].sum(dim=1).sub(1).clamp(min=0)
        state = states[torch.arange(len(states), device=states.device), last]
        scores: Tensor = self.head(state)
        return scores.view(inputs["input_ids"].shape[:2])


class BiScorer(nn.Module):
    """The scaled cosine between the vectors of the context and each choice."""

    def __init__(self, pretrained: str | None, configuration: Any) -> None:
        super().__init__()
        factory = transformers_library().AutoModel
        self.encoder = load_weights(factory, pretrained, configuration)
        if hasattr(self.encoder, "pooler"):
            self.encoder.pooler = None  # distributed training forbids unused weights
        width = configuration.hidden_size
        self.head = nn.Linear(width, width, bias=False)
        nn.init.eye_(self.head.weight)
        self.log_scale = nn.Parameter(torch.tensor(math.log(FIRST_SCALE)))

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return scores of shape (batch, choices)."""
        return self.compared(self.vectors(inputs))

    def vectors(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the mean token vectors of the texts, shape (batch, texts, width)."""
        flat = {name: table.flatten(0, 1) for name, table in inputs.items()}
        states = self.encoder(**flat).last_hidden_state
        mask = flat["attention_mask"].unsqueeze(2).to(states.dtype)
        means: Tensor = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1.0)
        return means.view(*inputs["input_ids"].shape[:2], -1)

    def compared(self, vectors: Tensor) -> Tensor:
        """Return scores of shape (batch, choices) from the vectors of context and choices."""
        contexts, choices = self.head(vectors[:, :1]), vectors[:, 1:]
        return F.cosine_similarity(contexts, choices, dim=2) * self.log_scale.exp()


def build_cross_scorer(pretrained: str | None, configuration: Any) -> CrossScorer | LastTokenScorer:
    """Return the multiple-choice model of transformers, or our own head if it has none."""
    if type(configuration) in transformers_library().MODEL_FOR_MULTIPLE_CHOICE_MAPPING:
        return CrossScorer(pretrained, configuration)
    return LastTokenScorer(pretrained, configuration)


def _texts(question: Question) -> tuple[str, ...]:
    context, choices = question
    return (context, *choices)


def _as_pairs(pairs: Sequence[tuple[str, str]], tokenizer: Any) -> list[list[str]]:
    """Return pairs of texts, or joined texts if the tokenizer does not support pairs (GPT-2)."""
    if tokenizer.sep_token is None:
        return [[f"{context}{tokenizer.eos_token}{choice}" for context, choice in pairs]]
    return [list(texts) for texts in zip(*pairs, strict=True)]
