"""Old module names of version 0.1, which still work for one release with a `DeprecationWarning`."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "discrimloss.calibration": "discrimloss.judging.calibration",
    "discrimloss.data.obtain": "discrimloss.data.published_files",
    "discrimloss.methods": "discrimloss.training.methods",
    "discrimloss.methods.base": "discrimloss.training.methods.base",
    "discrimloss.processes": "discrimloss.state.processes",
    "discrimloss.report": "discrimloss.auditing.report",
    "discrimloss.report.contents": "discrimloss.auditing.report.contents",
    "discrimloss.report.page": "discrimloss.auditing.report.page",
    "discrimloss.report.read_run": "discrimloss.auditing.report.read_run",
    "discrimloss.sample_ids": "discrimloss.state.sample_ids",
    "discrimloss.shards": "discrimloss.state.exchange",
    "discrimloss.state_file": "discrimloss.state.file",
    "discrimloss.verdict_frames": "discrimloss.judging.frames",
    "discrimloss.verdicts": "discrimloss.judging.verdicts",
}
"""New module name for each old one. The old names will be removed in 0.3."""


class _MovedModules(MetaPathFinder, Loader):
    """Finds a module that has moved, and warns."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for an old name, and None for any other name."""
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Replace this module by the one with the new name."""
        new_name = MOVED[module.__name__]
        warnings.warn(
            f"{module.__name__} is now {new_name}; the old name will be removed in 0.3",
            DeprecationWarning,
            stacklevel=2,
        )
        sys.modules[module.__name__] = importlib.import_module(new_name)


def install() -> None:
    """Make the old names importable."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, _MovedModules())  # first, so that old names are found here
