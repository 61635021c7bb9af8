"""Griffe extension: show the examples of docstrings as code.

As in PyTorch, the title of examples with prompts is ``Example:``, while Griffe expects
``Examples:``. The title of examples without prompts is ``Example::``, as in reStructuredText.
"""

from __future__ import annotations

import re
from textwrap import dedent
from typing import Any

import griffe

TITLE = re.compile(r"^Example:$", re.MULTILINE)
LITERAL = re.compile(r"^Example::\n\n((?: {4}.*\n?)+)", re.MULTILINE)


class ExampleSections(griffe.Extension):
    """Rename the section before the docstring is parsed."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = LITERAL.sub(_fenced, TITLE.sub("Examples:", obj.docstring.value))


def _fenced(example: re.Match[str]) -> str:
    return f"**Example:**\n\n```python\n{dedent(example[1]).strip()}\n```\n"
