"""Whether the data of a run is there, told before anything is written or started."""

from __future__ import annotations

from pathlib import Path

from discrimloss.data.base import datasets
from discrimloss.data.published_files import BuiltIn, are_complete, check_files, how_obtained
from discrimloss.training.config import RunConfig
from discrimloss.training.labels import make_labels
from discrimloss.training.run import load_data
from discrimloss.training.seeds import derived_generator


def require_data(config: RunConfig, directory: Path) -> None:
    """Say what is missing below the data directory, if anything is.

    Files of the published names and sizes are believed. Anything else is loaded: loaders take more
    than what was published, and know best what to say.

    Raises:
        DataError: the dataset, or the labels that people gave it, cannot be read.
        OptionError: its options do not fit it.
    """
    how = how_obtained(datasets.get(config.data.name))
    is_human = config.noise.kind == "human"  # labels from a file that the dataset does without
    if isinstance(how, BuiltIn) and not is_human:
        return
    files = [file for file in check_files(how, directory, read=False) if not file.optional]
    if files and are_complete(files) and not is_human:
        return
    task = load_data(config, directory)
    if is_human:
        make_labels(config.noise, task, derived_generator(config.seed, "noise"))
