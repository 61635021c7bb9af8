"""Find the wrong labels in your dataset, and train well in spite of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from discrimloss import _moved, judge
from discrimloss._version import __version__

if TYPE_CHECKING:
    from discrimloss.auditing.audit import audit
    from discrimloss.auditing.result import AuditResult
    from discrimloss.errors import DiscrimLossError
    from discrimloss.indexed_dataset import IndexedDataset
    from discrimloss.judging.find_label_errors import find_label_errors
    from discrimloss.judging.verdicts import Verdicts
    from discrimloss.loss import DiscrimLoss
    from discrimloss.state.sample_ids import SampleIds

__all__ = [
    "AuditResult",
    "DiscrimLoss",
    "DiscrimLossError",
    "IndexedDataset",
    "SampleIds",
    "Verdicts",
    "__version__",
    "audit",
    "find_label_errors",
]

_MODULES = {
    "AuditResult": "auditing.result",
    "audit": "auditing.audit",
    "DiscrimLoss": "loss",
    "DiscrimLossError": "errors",
    "IndexedDataset": "indexed_dataset",
    "SampleIds": "state.sample_ids",
    "find_label_errors": "judging.find_label_errors",
    "Verdicts": "judging.verdicts",
}
"""Module of each public name. Names are imported on first use, so `import discrimloss` is fast."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'discrimloss' has no attribute {name!r}")
    value = _imported(_MODULES[name], name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _imported(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"discrimloss.{module}"), name)


def _on_first_use(module: str, name: str) -> Callable[..., Any]:
    return lambda *arguments: _imported(module, name)(*arguments)


judge.set_functions(
    judge_samples=_on_first_use("judging.criterion", "judge_criterion"),
    fit_noise=_on_first_use("judging.held_out_noise", "fit_held_out_noise"),
    target_errors=_on_first_use("judging.regression_noise", "estimate_target_errors"),
)
_moved.install()
