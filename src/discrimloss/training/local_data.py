"""The dataset of a run: read from the data directory, or checked before a run starts."""

from __future__ import annotations

from pathlib import Path

from discrimloss.data.base import TaskData, datasets
from discrimloss.data.published_files import BuiltIn, are_complete, check_files, how_obtained
from discrimloss.options import OptionError
from discrimloss.training.config import RunConfig
from discrimloss.training.labels import make_labels
from discrimloss.training.seeds import derived_generator


def load_data(config: RunConfig, directory: Path) -> TaskData:
    """Read the dataset of the config.

    Raises:
        DataError: a file is missing or cannot be read.
        OptionError: the options of ``[data]`` do not fit the dataset.
    """
    try:
        task: TaskData = datasets.get(config.data.name)(directory, **config.data.options)
    except OptionError:
        raise
    except ValueError as error:
        raise OptionError(f"[data] cannot be used: {error}") from error
    return task


def require_data(config: RunConfig, directory: Path) -> None:
    """Check that the data of a run exists, or raise the error that loading it would raise.

    Files with published names and sizes are trusted. Other files are loaded, because loaders accept
    more than the published files and have more precise errors.

    Raises:
        DataError: the dataset, or its file of human labels, is missing or cannot be read.
        OptionError: the options of ``[data]`` do not fit the dataset.
    """
    how = how_obtained(datasets.get(config.data.name))
    is_human = config.noise.kind == "human"  # labels from a file that the dataset does not need
    if isinstance(how, BuiltIn) and not is_human:
        return
    files = [file for file in check_files(how, directory, read=False) if not file.optional]
    if files and are_complete(files) and not is_human:
        return
    task = load_data(config, directory)
    if is_human:
        make_labels(config.noise, task, derived_generator(config.seed, "noise"))
