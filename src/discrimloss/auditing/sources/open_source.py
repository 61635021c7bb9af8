"""From what a person points at to the source it is."""

from __future__ import annotations

from pathlib import Path

from discrimloss.auditing.sources.base import AuditSource, SourceError, SourceOptions

FEATURE_SUFFIXES = (".npz", ".npy")
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
SAVED_DATASET_FILES = ("dataset_info.json", "dataset_dict.json", "state.json")


def open_source(options: SourceOptions, cache: Path | None = None) -> AuditSource:
    """The source at ``options.path``: its kind follows from what is there.

    Args:
        options: what a person said.
        cache: a directory that makes the next opening faster, such as the one of `task`: it
            remembers which images can be read.

    Raises:
        SourceError: there is nothing to audit, or the options do not fit it.
    """
    path = Path(options.path)
    suffix = path.suffix.lower()
    if path.is_dir():
        if any((path / name).is_file() for name in SAVED_DATASET_FILES):
            from discrimloss.auditing.sources.saved_dataset import open_saved_dataset

            return open_saved_dataset(options, cache)
        from discrimloss.auditing.sources.image_folder import ImageFolder

        return ImageFolder(options, cache)
    if not path.exists():
        raise SourceError(f"there is no file or folder {path}: check the path")
    if suffix in FEATURE_SUFFIXES:
        from discrimloss.auditing.sources.feature_file import open_feature_file

        return open_feature_file(options)
    if suffix in TABLE_SUFFIXES:
        from discrimloss.auditing.sources.tables import open_table

        return open_table(options, cache)
    raise SourceError(
        f"cannot audit {path}: it must be a folder of images, a dataset saved to disk, or a file "
        f"that ends in one of {', '.join((*TABLE_SUFFIXES, *FEATURE_SUFFIXES))}"
    )
