"""The settings of an audit, and the command line with the same settings."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import Any

from discrimloss.auditing.directory import AuditDirectory
from discrimloss.auditing.sources.base import SourceOptions
from discrimloss.judging.label_errors import require_noise_rate

HIGHEST_SEED = 2**31 - 1
AUTO, NETWORK = "auto", "network"
"""Models of an audit: those that suit the data best, or a network trained with DiscrimLoss."""


@dataclass(frozen=True)
class AuditSettings:
    """How an audit trains.

    Raises:
        ValueError: a value is out of its range.
    """

    runs: int = 1
    epochs: int | None = None
    """Epochs of each run. If None, they depend on the number of samples."""
    seed: int = 0
    """Seed of the first run. Each further run has the next seed."""
    threads: int = 0
    """Number of CPU threads. 0 leaves the choice to torch."""
    model: Any = AUTO
    """`AUTO`, `NETWORK`, or a scikit-learn classifier or regressor."""
    noise_rate: float | None = None
    """The fraction of wrong labels, if known. If None, it is estimated."""

    def __post_init__(self) -> None:
        if self.runs < 1:
            raise ValueError(f"runs must be 1 or more, not {self.runs}")
        if self.epochs is not None and self.epochs < 2:
            raise ValueError(f"epochs must be 2 or more, not {self.epochs}")
        if not 0 <= self.seed <= HIGHEST_SEED - self.runs:
            raise ValueError(f"seed must be a number from 0 to {HIGHEST_SEED}, not {self.seed}")
        if self.threads < 0:
            raise ValueError(f"threads must be 0 or more, not {self.threads}")
        if isinstance(self.model, str) and self.model not in (AUTO, NETWORK):
            raise ValueError(
                f"model must be {AUTO} or {NETWORK}, not {self.model}; in Python it may also be a "
                "scikit-learn estimator"
            )
        if not isinstance(self.model, str) and self.epochs is not None:
            raise ValueError("epochs are for the network: leave them out if model is an estimator")
        require_noise_rate(self.noise_rate)


def requested_of_audit(options: SourceOptions, settings: AuditSettings) -> dict[str, Any]:
    """Return the settings that must be the same to resume an audit."""
    return {
        "asked": asdict(options),
        "runs": settings.runs,
        "seed": settings.seed,
        "epochs": settings.epochs,
        "noise_rate": settings.noise_rate,
        **_requested_model(settings.model),
    }


def _requested_model(model: Any) -> dict[str, str]:
    """Return the entry for the model: none for the default, as in audits of earlier versions."""
    if model == AUTO:
        return {}
    return {"model": model if isinstance(model, str) else repr(model)}


def command_line(
    options: SourceOptions, settings: AuditSettings, directory: AuditDirectory | None
) -> str:
    """Return the command line for the same audit, or an empty string for data in memory."""
    if not options.path:
        return ""
    words = ["discrimloss", "audit", options.path]
    words += [] if directory is None else ["--out", str(directory.path)]
    given = ("label", "text", "image", "id", "encoder", "query")
    for name, value in (
        *((name, getattr(options, name)) for name in given),
        ("epochs", settings.epochs),
    ):
        words += [] if value is None else [f"--{name}", str(value)]
    for name in options.columns or ():
        words += ["--columns", name]
    if options.regression is not None:
        words.append("--regression" if options.regression else "--no-regression")
    words += ["--model", NETWORK] if settings.model == NETWORK else []
    words += [] if settings.runs == 1 else ["--runs", str(settings.runs)]
    words += [] if settings.seed == 0 else ["--seed", str(settings.seed)]
    words += [] if settings.noise_rate is None else ["--noise-rate", str(settings.noise_rate)]
    return shlex.join(words)
