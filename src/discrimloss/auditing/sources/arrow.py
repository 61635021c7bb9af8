"""Arrow, imported at first use."""

from __future__ import annotations

import importlib
from typing import Any

from discrimloss.judging.verdicts import import_pandas


def arrow(module: str | None = None) -> Any:
    """Arrow or one of its modules, as `Any`: most of its functions are made as it is imported."""
    import_pandas()  # which says how to get both
    return importlib.import_module("pyarrow" if module is None else f"pyarrow.{module}")
