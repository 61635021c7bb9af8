"""Loads or builds encoders and tokenizers of the transformers library, without its output."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch

Architecture = Literal["roberta", "bert", "xlnet", "gpt2"]
Loaded = TypeVar("Loaded")

PACKAGE = "package:"
CONFIGURATION = "config.json"
"""Name of a file that every model folder of the transformers library has."""
LONGEST_TEXT = 512
HEAD_SIZE = 64  # width of an attention head in all four architectures


def transformers_library() -> Any:
    """Import the transformers library, or raise an error that says how to install it."""
    try:
        import transformers
    except ImportError as error:
        raise ValueError(
            "this model needs the transformers library: pip install transformers"
        ) from error
    return transformers


def load_configuration(
    pretrained: str | None, architecture: Architecture, hidden_size: int, num_layers: int
) -> Any:
    """Return the configuration of an encoder: that of `pretrained`, or a new one for bytes."""
    if pretrained is not None:
        return load_pretrained(transformers_library().AutoConfig.from_pretrained, pretrained)
    if hidden_size % max(1, hidden_size // HEAD_SIZE):
        raise ValueError(f"hidden_size must be a multiple of {HEAD_SIZE}, not {hidden_size}")
    return new_configuration(architecture, hidden_size, num_layers)


def load_tokenizer(pretrained: str | None, model_type: str) -> Any:
    """Return the tokenizer of `pretrained`, or one for bytes. Both have a padding token."""
    if pretrained is None:
        tokenizer = byte_tokenizer()
    else:
        tokenizer = load_pretrained(
            transformers_library().AutoTokenizer.from_pretrained, pretrained
        )
    if tokenizer.pad_token is None:  # GPT-2: any will do, the attention mask hides it
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.sep_token is None:  # context and choice are one text: truncate only the context
        tokenizer.truncation_side = "left"
    # XLNet predicts at the last position, which must not be padded.
    tokenizer.padding_side = "left" if model_type == "xlnet" else "right"
    return tokenizer


def load_weights(factory: Any, pretrained: str | None, configuration: Any) -> Any:
    """Return a model of an auto class, with pretrained or random weights."""
    if pretrained is None:
        model = factory.from_config(configuration)
    else:
        options = {"config": configuration, "dtype": torch.float32}
        model = load_pretrained(factory.from_pretrained, pretrained, **options)
    if hasattr(model.base_model, "mask_emb"):
        # XLNet needs it only for pretraining. Distributed training forbids unused weights.
        model.base_model.mask_emb.requires_grad_(False)
    return model


def new_configuration(architecture: Architecture, hidden_size: int, num_layers: int) -> Any:
    """Return the configuration of an encoder for bytes, with the proportions of published ones."""
    tokenizer = byte_tokenizer()
    num_heads = max(1, hidden_size // HEAD_SIZE)
    inner = {"xlnet": "d_inner", "gpt2": "n_inner"}.get(architecture, "intermediate_size")
    options = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "hidden_size": hidden_size,
        "num_hidden_layers": num_layers,
        "num_attention_heads": num_heads,
        inner: 4 * hidden_size,
    }
    if architecture == "xlnet":  # relative positions: no maximum length
        options["d_head"] = hidden_size // num_heads
    else:  # RoBERTa's first position is the id of the padding token plus 1
        options["max_position_embeddings"] = LONGEST_TEXT + 2
    return transformers_library().AutoConfig.for_model(architecture, **options)


def byte_tokenizer() -> Any:
    """Return a tokenizer with one token per byte. It accepts any text and needs no file."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>"}
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*special.values(), *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B </s>",
        special_tokens=[(token, vocabulary[token]) for token in ("<s>", "</s>")],
    )
    return transformers_library().PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=LONGEST_TEXT,
        cls_token="<s>",
        sep_token="</s>",
        **special,
    )


def find_pretrained(pretrained: str) -> str:
    """Return the source to load: a folder, the folder of a package, or a name on the hub."""
    if pretrained.startswith(PACKAGE):
        name = pretrained.removeprefix(PACKAGE)
        for place in package_folders(name):
            found = [place / "model", *(file.parent for file in place.rglob(CONFIGURATION))]
            for folder in sorted(found, key=lambda folder: len(folder.parts)):
                if folder.is_dir():
                    return str(folder)
        raise ValueError(
            f"pretrained = {pretrained!r}: no installed package {name!r} with a model of the "
            "transformers library: pip install it, or name a folder"
        )
    folder = Path(pretrained).expanduser()
    if folder.is_dir():
        return str(folder)
    # A hub name is NAME or OWNER/NAME. Anything else is a folder.
    if folder.is_absolute() or pretrained.startswith((".", "~")) or len(folder.parts) > 2:
        raise ValueError(f"pretrained = {pretrained!r}: there is no such folder")
    return pretrained


def package_folders(name: str) -> list[Path]:
    """Return the folders of an installed package, or none if it is not installed.

    Args:
        name: its import name or its name for pip.
    """
    module = re.sub(r"[-.]+", "_", name)
    modules = [module] if module.isidentifier() else []
    try:
        files = importlib.metadata.distribution(name).files or []
        modules += {file.parts[0] for file in files if file.suffix == ".py" and len(file.parts) > 1}
    except (importlib.metadata.PackageNotFoundError, ValueError):  # an empty name is a ValueError
        pass
    specs = [importlib.util.find_spec(one) for one in dict.fromkeys(modules) if one.isidentifier()]
    return [
        Path(location)
        for spec in specs
        for location in (spec and spec.submodule_search_locations) or []
    ]


def load_pretrained(load: Callable[..., Loaded], pretrained: str, **options: Any) -> Loaded:
    """Return the result of a loading function of transformers, or raise a clear `ValueError`.

    Args:
        load: a function that takes a folder or a model name, such as ``AutoModel.from_pretrained``.
        pretrained: see `find_pretrained`.
        options: further arguments for `load`.
    """
    source = find_pretrained(pretrained)
    try:
        with quiet_transformers():
            return load(source, **options)
    # Missing or malformed files, other versions and an unreachable hub raise many types.
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ValueError(
            f"pretrained = {pretrained!r} is neither a folder with a model nor a name that could "
            f"be loaded from the model hub: {reason}"
        ) from error


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence progress bars, and the warning that the head is new: it is always new."""
    from huggingface_hub.utils import logging as hub_logging

    of_hub: Any = hub_logging  # the module has no type hints
    logging = transformers_library().logging
    verbosity, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    verbosity_of_hub = of_hub.get_verbosity()
    logging.set_verbosity_error()
    of_hub.set_verbosity_error()  # otherwise it reports every attempt to reach the hub
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        of_hub.set_verbosity(verbosity_of_hub)
        if has_bars:
            logging.enable_progress_bar()
