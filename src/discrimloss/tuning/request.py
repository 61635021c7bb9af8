"""What to search, from what, where its trials are kept, and what can go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from discrimloss.options import OptionError
from discrimloss.recipes.settings import parse_setting
from discrimloss.training.config import RunConfig
from discrimloss.tuning.criterion import DEFAULT_SHARE, averaged_epochs
from discrimloss.tuning.search_space import SearchSpace

DEVICE_SETTINGS = ("device", "threads", "workers")
"""May differ from machine to machine."""


def searchable(config: RunConfig, settings: Sequence[str] = ()) -> RunConfig:
    """The config with a noisy validation split, its own or the usual one.

    Args:
        config: the recipe with its settings. It may have no such split: `best.toml` has none.
        settings: what a person set, which is not replaced.

    Raises:
        OptionError: a person asked for no such split.
    """
    is_set = any("noisy_validation" in parse_setting(text) for text in settings)
    if is_set and config.noisy_validation == 0.0:
        raise OptionError(
            "noisy_validation = 0 leaves nothing to judge trials by: "
            f"give a share above 0, or leave it out for {DEFAULT_SHARE}"
        )
    return replace(config, noisy_validation=config.noisy_validation or DEFAULT_SHARE)


@dataclass(frozen=True)
class TuneRequest:
    """A search. Workers with equal requests share its trials."""

    config: RunConfig
    """The recipe, with `noisy_validation` above 0."""
    space: SearchSpace
    data: Path
    storage: str
    """A URL of SQLAlchemy."""
    study: str
    trials: int
    """Of all workers together, those of earlier commands among them."""
    lost_after: int = 120
    """Seconds after which a worker that gives no sign counts as dead, and its trial is repeated."""

    def settings(self) -> dict[str, Any]:
        """What all workers of a study must agree on."""
        table = self.config.as_dict()
        kept = {name: value for name, value in table.items() if name not in DEVICE_SETTINGS}
        return {
            **kept,
            "search": {key: str(searched) for key, searched in self.space.items()},
            "averaged_epochs": averaged_epochs(self.config.epochs),
        }
