"""A small text dataset that needs no download: docstrings of installed libraries."""

from __future__ import annotations

import importlib
import inspect
import random

MODULES = {
    "numpy": ["numpy", "numpy.ma", "numpy.linalg", "numpy.polynomial", "numpy.random"],
    "pandas": ["pandas", "pandas.api.types", "pandas.api.extensions", "pandas.tseries.offsets"],
    "sklearn": [
        f"sklearn.{name}"
        for name in ("cluster", "datasets", "decomposition", "ensemble", "linear_model", "metrics")
    ],
    "torch": ["torch", "torch.nn", "torch.nn.functional", "torch.optim", "torch.distributions"],
}
SHORTEST = 30


def load_docstrings(samples: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Return the first paragraphs of docstrings. The label of each is its library.

    Every library has the same number of texts, and no text occurs in two libraries. The texts
    depend on the versions of the libraries.

    Args:
        samples: number of texts. The result has fewer if a library has too few.
        seed: seed of the selection and of the order.

    Returns:
        Texts and labels, both in random order.
    """
    generator = random.Random(seed)
    found = {library: _first_paragraphs(modules) for library, modules in MODULES.items()}
    pairs: list[tuple[str, str]] = []
    for library, own in found.items():
        others = set().union(*(found[other] for other in MODULES if other != library))
        texts = sorted(own - others)
        chosen = generator.sample(texts, min(len(texts), samples // len(MODULES)))
        pairs += [(text, library) for text in chosen]
    generator.shuffle(pairs)
    return [text for text, _ in pairs], [library for _, library in pairs]


def _first_paragraphs(modules: list[str]) -> set[str]:
    """Return the first paragraphs of docstrings of public functions, classes and methods."""
    texts = set()
    for module in map(importlib.import_module, modules):
        for name, member in list(vars(module).items()):
            methods = list(vars(member).items()) if inspect.isclass(member) else []
            for public, thing in [(name, member), *methods]:
                text = getattr(thing, "__doc__", None)
                if callable(thing) and isinstance(text, str) and not public.startswith("_"):
                    texts.add(" ".join(inspect.cleandoc(text).partition("\n\n")[0].split()))
    return {text for text in texts if len(text) > SHORTEST}
