"""Checks the labels from reviewers before they are saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from discrimloss.auditing.review.decisions import regression_label
from discrimloss.auditing.sources.base import AuditSource, Label, SourceError
from discrimloss.errors import DiscrimLossError

LONGEST_LABEL = 200
NOT_IN_FOLDER_NAMES = set('/\\:*?"<>|')


class RequestError(DiscrimLossError):
    """A request that fails, with an HTTP status and one sentence."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


def new_label(source: AuditSource, label: Any) -> Label:
    """Return a valid label for a sample of this source.

    Raises:
        RequestError: the label is not valid.
    """
    if source.is_regression:
        try:
            return regression_label(label)
        except ValueError as error:
            raise RequestError(f"the new label must be a number: {error}") from error
    if not isinstance(label, str) or not label.strip():
        raise RequestError("the new label must be the name of a class")
    if label not in source.class_names:
        _check_new_class(source, label)
    return label


def _check_new_class(source: AuditSource, label: str) -> None:
    if len(label) > LONGEST_LABEL:
        raise RequestError(f"the name of a class has at most {LONGEST_LABEL} characters")
    if label != label.strip() or not label.isprintable():
        raise RequestError("the name of a class must be printable, without space around it")
    # A class of a folder of images must be a valid folder name on any file system.
    is_folder = source.kind == "images" and Path(source.options.path).is_dir()
    if is_folder and (label.startswith(".") or set(label) & NOT_IN_FOLDER_NAMES):
        raise RequestError(
            'a new class of images must be the name of a folder: no / \\ : * ? " < > | '
            "and no leading dot"
        )
    try:
        source.require_class(label)
    except SourceError as error:
        raise RequestError(str(error)) from error
