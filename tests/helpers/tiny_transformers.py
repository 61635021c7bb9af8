"""Models of the transformers library that train in milliseconds, and data for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, PreTrainedModel, TrainingArguments, ViTConfig

VOCABULARY, CLASSES, LENGTH = 40, 3, 6
Sample = dict[str, Any]


def bert(model_class: type[PreTrainedModel], **options: Any) -> Any:
    """Random weights, the same every time, and no dropout: what it computes can be recomputed."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.3,
        **{"num_labels": CLASSES, **options},
    )
    return model_class(config)


def tiny_vit_config() -> ViTConfig:
    return ViTConfig(
        image_size=8,
        patch_size=4,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=CLASSES,
    )


def texts(number: int) -> list[Sample]:
    """Sequences with a class each, and a column that no model takes."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(5, VOCABULARY, (number, LENGTH), generator=generator)
    return [
        {"input_ids": row, "labels": int(row.sum()) % CLASSES, "note": "no argument of a model"}
        for row in tokens
    ]


def arguments(directory: Path, **options: Any) -> TrainingArguments:
    """Plain SGD over the data in their order: easy to do by hand."""
    defaults = {
        "optim": "sgd",
        "learning_rate": 0.1,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "weight_decay": 0.0,
        "num_train_epochs": 2,
        "per_device_train_batch_size": 4,
        "train_sampling_strategy": "sequential",
        "logging_strategy": "no",
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "dataloader_pin_memory": False,
    }
    return TrainingArguments(output_dir=str(directory), **{**defaults, **options})
