"""Griffe extension: show the examples of docstrings as code.

Our docstrings title them ``Example:``, as those of PyTorch do. Griffe expects ``Examples:``.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

TITLE = re.compile(r"^Example:$", re.MULTILINE)


class ExampleSections(griffe.Extension):
    """Rename the section before the docstring is parsed."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = TITLE.sub("Examples:", obj.docstring.value)
