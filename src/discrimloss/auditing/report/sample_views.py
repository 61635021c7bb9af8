"""Makes views of training samples for a gallery: images, texts or values."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discrimloss.auditing.report.gallery import View
from discrimloss.auditing.sources.contents import SampleView
from discrimloss.data.base import Inputs
from discrimloss.errors import DiscrimLossError

CHANNELS = (1, 3)


def training_views(settings: Mapping[str, Any], data: Path, num_samples: int) -> View:
    """Return views of the samples of a run, from its dataset.

    Args:
        settings: settings of the run, as `RunDirectory.config` reads them.
        data: the directory with the datasets.
        num_samples: number of samples with verdicts.

    Raises:
        DiscrimLossError: the dataset does not exist, or is a different one.
    """
    from discrimloss.training.config import read_config
    from discrimloss.training.labels import split_rows
    from discrimloss.training.local_data import load_data
    from discrimloss.training.seeds import derived_generator

    try:
        config = read_config(settings, str(settings.get("recipe", "run")))
        task = load_data(config, data).limited(
            config.train_size, derived_generator(0, "train_size")
        )
        if config.noisy_validation > 0.0:
            learned, _ = split_rows(len(task.train), config.noisy_validation, config.seed)
            task = task.with_training_rows(learned)
    except DiscrimLossError as error:
        raise DiscrimLossError(
            f"cannot show the samples of {config_name(settings)}: {error}"
        ) from error
    inputs = task.train.inputs
    if len(inputs) != num_samples:
        raise DiscrimLossError(
            f"cannot show the samples of {config_name(settings)}: the data in {data} has "
            f"{len(inputs):,} samples, but the run {num_samples:,}: pass its training data"
        )
    if task.picture_shape is not None:
        shape = task.picture_shape
        return lambda row: SampleView(image=_png(_pixels(_one(inputs, row)[0], shape)))
    return lambda row: view_of(_one(inputs, row))


def _pixels(features: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return features from 0 to 1 as the pixels of a grey image."""
    return (255.0 * features.reshape(1, *shape)).round().to(torch.uint8)


def config_name(settings: Mapping[str, Any]) -> str:
    """Return the name of a run for a sentence."""
    data = settings.get("data")
    name = data.get("name") if isinstance(data, Mapping) else None
    return f"the dataset {name!r}" if name else "this run"


def _one(inputs: Inputs, row: int) -> Any:
    return inputs.rows(torch.tensor([row]))


def view_of(batch: Any) -> SampleView:
    """Return the view of a batch of one, as `Inputs.rows` returns it."""
    if isinstance(batch, Tensor):
        return _tensor_view(batch[0])
    if isinstance(batch, Mapping):
        return SampleView(fields=tuple((str(k), _numbers(v[0])) for k, v in batch.items()))
    sample = batch[0]
    if isinstance(sample, str):
        return SampleView(text=sample)
    context, choices = getattr(sample, "context", None), getattr(sample, "choices", None)
    if context is not None and choices is not None:
        numbered = (f"{number}: {choice}" for number, choice in enumerate(choices))
        return SampleView(text="\n".join([str(context), *numbered]))
    return SampleView(text=str(sample))


def _tensor_view(sample: Tensor) -> SampleView:
    if sample.dtype == torch.uint8 and sample.dim() == 3 and sample.shape[0] in CHANNELS:
        return SampleView(image=_png(sample))
    if sample.dim() == 1 and sample.is_floating_point():
        values = sample.tolist()
        return SampleView(fields=tuple((f"[{n}]", f"{v:.4g}") for n, v in enumerate(values)))
    return SampleView(text=_numbers(sample))


def _numbers(value: Any) -> str:
    if not isinstance(value, Tensor):
        return str(value)
    return " ".join(f"{number:.4g}" for number in value.flatten().tolist())


def _png(pixels: Tensor) -> bytes:
    from PIL import Image

    array = pixels.permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
    written = io.BytesIO()
    picture.save(written, "png")
    return written.getvalue()
