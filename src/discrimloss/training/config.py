"""The complete settings of a run: frozen dataclasses, read from TOML and `key=value`."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from discrimloss.data.base import datasets
from discrimloss.models.base import models
from discrimloss.options import Option, OptionError, check_options, did_you_mean
from discrimloss.training.methods.base import methods

Settings = dict[str, Any]
"""Values by key, sections as mappings within: what TOML and ``key=value`` hold."""
HIGHEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class NoiseConfig:
    """Label noise that is added to the training data."""

    kind: Literal["none", "symmetric", "permuted", "asymmetric", "pair", "instance", "human"] = (
        "none"
    )
    rate: float = 0.0
    """Fraction of the training samples; not for ``human``."""
    labels: str | None = None
    """For ``human``: a name the dataset knows, e.g. ``worse``, or a file of labels."""
    mapping: dict[str, Any] | None = None
    """For ``asymmetric``: which class becomes which; class to next class if not given."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise OptionError(f"noise.rate must be a fraction from 0 to 1, not {self.rate}")
        if self.kind == "human" and self.labels is None:
            raise OptionError(
                "noise.kind = 'human' needs noise.labels: a name the dataset knows, or a file"
            )
        if self.labels is not None and self.kind != "human":
            raise OptionError(f"noise.labels is for noise.kind = 'human', not {self.kind!r}")
        if self.mapping is not None and self.kind not in ("asymmetric", "pair"):
            raise OptionError(f"noise.mapping is for noise.kind = 'asymmetric', not {self.kind!r}")
        for source, goal in (self.mapping or {}).items():
            if not source.isdecimal() or not isinstance(goal, int) or isinstance(goal, bool):
                raise OptionError(
                    f"noise.mapping must have numbers of classes, e.g. {{1 = 7}}, "
                    f"not {source} = {goal!r}"
                )
        if self.kind == "none" and self.rate > 0.0:
            raise OptionError("noise.rate is above 0 but noise.kind is 'none': name a kind")


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer of the model's parameters."""

    kind: Literal["sgd", "adamw"] = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.9
    """Used by ``sgd`` only."""
    nesterov: bool = False
    """Used by ``sgd`` only."""
    weight_decay: float = 0.0
    clip_norm: float | None = None
    """Largest norm of the gradient. A longer one is scaled down."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "momentum", "weight_decay"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise OptionError(f"optimizer.{name} must be 0 or more, not {getattr(self, name)}")
        if self.clip_norm is not None and not self.clip_norm > 0.0:
            raise OptionError(f"optimizer.clip_norm must be above 0, not {self.clip_norm}")
        if self.nesterov and self.momentum == 0.0:
            raise OptionError("optimizer.nesterov needs optimizer.momentum above 0")


@dataclass(frozen=True)
class ScheduleConfig:
    """How the learning rate changes over the run."""

    kind: Literal["constant", "step", "cosine", "linear", "exponential"] = "constant"
    milestones: tuple[int, ...] = ()
    """For ``step``: after how many epochs the learning rate falls."""
    factor: float = 0.1
    """The learning rate is multiplied by this: for ``step`` after each milestone, for
    ``exponential`` after each epoch."""
    warmup_epochs: float = 0.0
    """The learning rate rises from zero over so many epochs."""

    def __post_init__(self) -> None:
        if self.kind == "step" and not self.milestones:
            raise OptionError("schedule.kind = 'step' needs schedule.milestones, e.g. [80, 100]")
        for milestone in self.milestones:
            if milestone < 1:
                raise OptionError(f"schedule.milestones must be 1 or more, not {milestone}")
        for name in ("factor", "warmup_epochs"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise OptionError(f"schedule.{name} must be 0 or more, not {getattr(self, name)}")


@dataclass(frozen=True)
class ComponentConfig:
    """A dataset or a model: its name and its options."""

    name: str
    options: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class RunConfig:
    """All settings of a run. Two runs with equal configs give the same results."""

    recipe: str
    data: ComponentConfig
    model: ComponentConfig
    method: str
    options: Settings
    """Options of the method."""
    hyperparameters: Literal["default", "paper"]
    """``default``: our values for every noise rate. ``paper``: the values in its appendix."""
    loss: Literal["cross_entropy", "mse", "smooth_l1"]
    seed: int
    epochs: int
    batch_size: int
    """Batch size of all processes together."""
    noise: NoiseConfig
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    train_size: int | None = None
    """Use only so many training samples, drawn at random."""
    noisy_validation: float = 0.0
    """Fraction of the training samples that is held out for validation after every epoch. Their
    labels stay as noisy as they are: validation without clean labels."""
    mixup: float = 0.0
    """Trains on mixtures of two samples whose weights are drawn from Beta(mixup, mixup), with any
    method. 0 mixes nothing; 0.1 to 0.4 for ImageNet and 1 for CIFAR in the paper of mixup."""
    steps_per_epoch: int | None = None
    """Counts this many steps as an epoch, instead of a pass over the data."""
    epochs_end_with_passes: bool = False
    """With `steps_per_epoch`: the end of a pass ends the epoch, however few steps it has had."""
    eval_batch_size: int = 1000
    device: str = "auto"
    """``auto``, ``cpu``, or a device of torch, e.g. ``cuda``."""
    mixed_precision: Literal["no", "bf16", "fp16"] = "no"
    threads: int = 0
    """CPU threads per process; 0 leaves the choice to torch."""
    workers: int = 4
    """Processes that read files, for datasets that do not fit into memory."""
    checkpoint_seconds: float = 300.0
    """Longest time between two checkpoints; there is one after every epoch besides."""
    tensorboard: bool = True
    traced_samples: int = 1_000_000
    """Largest number of training samples of which the run keeps loss, weight and prediction of
    every epoch, at most six bytes each; 0 keeps none."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "eval_batch_size", "train_size", "steps_per_epoch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise OptionError(f"{name} must be 1 or more, not {value}")
        for name in ("threads", "workers", "checkpoint_seconds", "traced_samples"):
            if not getattr(self, name) >= 0:
                raise OptionError(f"{name} must be 0 or more, not {getattr(self, name)}")
        if self.epochs_end_with_passes and self.steps_per_epoch is None:
            raise OptionError("epochs_end_with_passes needs steps_per_epoch, the steps of an epoch")
        if not 0.0 <= self.mixup < float("inf"):
            raise OptionError(f"mixup must be 0 or more, not {self.mixup}")
        if not 0.0 <= self.noisy_validation < 1.0:
            raise OptionError(
                "noisy_validation must be a fraction from 0 to below 1, "
                f"not {self.noisy_validation}"
            )
        if not 0 <= self.seed <= HIGHEST_SEED:
            raise OptionError(f"seed must be a number from 0 to {HIGHEST_SEED}, not {self.seed}")

    def as_dict(self) -> Settings:
        """The settings in the layout of TOML: options of data and model beside their names."""
        settings = dataclasses.asdict(self)
        for name in ("data", "model"):
            component = getattr(self, name)
            settings[name] = {"name": component.name, **component.options}
        return _without_none(settings)


def read_config(settings: Mapping[str, Any], recipe: str) -> RunConfig:
    """Check settings key by key, and fill in the defaults.

    Args:
        settings: as TOML has them, in sections.
        recipe: name of the recipe where the settings do not have it.

    Raises:
        OptionError: an unknown key, a wrong type or a missing key, in one sentence.
    """
    values = {**settings, "recipe": settings.get("recipe", recipe)}
    options = {
        name: Option(dict if name in _SECTION_NAMES else option.type, option.default)
        for name, option in _options_of(RunConfig).items()
    }
    for name in values:
        if name not in options:
            raise OptionError(f"unknown key {name}: {did_you_mean(name, valid_keys())}")
    values = check_options(options, values, "", "a recipe")
    for name, section in _SECTIONS.items():
        given = check_options(_options_of(section), values[name], name, f"[{name}]")
        values[name] = section(**given)
    for name, registry in (("data", datasets), ("model", models)):
        values[name] = _read_component(name, registry, values[name])
    values["options"] = methods.check(values["method"], values["options"], "options")
    return RunConfig(**values)


_SECTIONS: dict[str, Any] = {
    "noise": NoiseConfig,
    "optimizer": OptimizerConfig,
    "schedule": ScheduleConfig,
}
_SECTION_NAMES = ("data", "model", "options", *_SECTIONS)


def require_sections(settings: Mapping[str, Any]) -> None:
    """Raise an `OptionError` if there is a single value where a section belongs."""
    for name in _SECTION_NAMES:
        if name in settings and not isinstance(settings[name], Mapping):
            keys = [key for key in valid_keys() if key.startswith(f"{name}.")]
            example = keys[0] if keys else f"{name}.NAME"
            raise OptionError(
                f"{name} is a table, which cannot be {settings[name]!r}: set what is in it, "
                f"e.g. {example}=…"
            )


def valid_keys() -> list[str]:
    """The keys that all recipes share. Those of data, model and options depend on the names."""
    keys = [name for name in _options_of(RunConfig) if name not in _SECTION_NAMES]
    keys += ["data.name", "model.name"]
    for name, section in _SECTIONS.items():
        keys += [f"{name}.{option}" for option in _options_of(section)]
    return keys


def _options_of(section: Any) -> dict[str, Option]:
    types = typing.get_type_hints(section)
    return {f.name: Option(types[f.name], _default_of(f)) for f in dataclasses.fields(section)}


def _default_of(entry: dataclasses.Field[Any]) -> Any:
    if entry.default is not dataclasses.MISSING:
        return entry.default
    return inspect.Parameter.empty


def _read_component(section: str, registry: Any, settings: Settings) -> ComponentConfig:
    if not isinstance(settings.get("name"), str):
        valid = ", ".join(registry.names())
        raise OptionError(f"[{section}] needs {section}.name: valid are {valid}")
    options = {key: value for key, value in settings.items() if key != "name"}
    try:
        known = registry.options(settings["name"])
    except OptionError as error:
        raise OptionError(f"{section}.name: {error}") from error
    options = registry.check(settings["name"], options, section)
    return ComponentConfig(
        settings["name"], {**{key: option.default for key, option in known.items()}, **options}
    )


def _without_none(settings: Settings) -> Settings:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in settings.items()
        if value is not None
    }
