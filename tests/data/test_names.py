"""Names of 0.1 that work for one release."""

import importlib
import sys

import pytest

import discrimloss.data
from discrimloss.data.published_files import obtained


def test_a_split_was_called_a_part() -> None:
    with pytest.warns(DeprecationWarning, match="is now discrimloss.data.Split"):
        assert discrimloss.data.Part is discrimloss.data.Split
    with pytest.raises(AttributeError, match="has no attribute 'Parts'"):
        discrimloss.data.Parts  # noqa: B018


def test_published_files_were_obtained() -> None:
    sys.modules.pop("discrimloss.data.obtain", None)
    with pytest.warns(DeprecationWarning, match="is now discrimloss.data.published_files"):
        module = importlib.import_module("discrimloss.data.obtain")
    assert module.obtained is obtained
