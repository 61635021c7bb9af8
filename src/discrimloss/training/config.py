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
"""Values by key, with sections as nested mappings, as in TOML and ``key=value``."""
HIGHEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class NoiseConfig:
    """Label noise that is added to the training data."""

    kind: Literal["none", "symmetric", "permuted", "asymmetric", "pair", "instance", "human"] = (
        "none"
    )
    rate: float = 0.0
    """Fraction of the training samples. Not for ``human``."""
    labels: str | None = None
    """For ``human``: a name of the dataset's human labels, e.g. ``worse``, or a file of labels."""
    mapping: dict[str, Any] | None = None
    """For ``asymmetric``: the wrong class of each class. By default, it is the next class."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise OptionError(f"noise.rate must be a fraction from 0 to 1, not {self.rate}")
        if self.kind == "human" and self.labels is None:
            raise OptionError(
                "noise.kind = 'human' needs noise.labels: a name of the dataset, or a file"
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
            raise OptionError("noise.rate is above 0 but noise.kind is 'none': choose a kind")


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer of the model's parameters."""

    kind: Literal["sgd", "adamw"] = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.9
    """Only for ``sgd``."""
    nesterov: bool = False
    """Only for ``sgd``."""
    weight_decay: float = 0.0
    clip_norm: float | None = None
    """Maximum norm of the gradient. Larger gradients are scaled down."""

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
    """For ``step``: numbers of epochs after which the learning rate falls."""
    factor: float = 0.1
    """Factor of the learning rate: for ``step`` after each milestone, for ``exponential`` after
    each epoch."""
    warmup_epochs: float = 0.0
    """Number of epochs over which the learning rate rises from zero."""

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
    """``default``: our values for all noise rates. ``paper``: those of the paper's appendix."""
    loss: Literal["cross_entropy", "mse", "smooth_l1"]
    seed: int
    epochs: int
    batch_size: int
    """Batch size of all processes together."""
    noise: NoiseConfig
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    train_size: int | None = None
    """Use only this number of training samples, drawn at random."""
    noisy_validation: float = 0.0
    """Fraction of the training samples that is held out for validation after every epoch. Their
    labels remain noisy, so validation needs no clean labels."""
    mixup: float = 0.0
    """Train on mixtures of two samples with weights from Beta(mixup, mixup), with any method. 0
    turns mixup off. The paper of mixup uses 0.1 to 0.4 for ImageNet and 1 for CIFAR."""
    steps_per_epoch: int | None = None
    """Number of steps of an epoch. By default, an epoch is a pass over the data."""
    epochs_end_with_passes: bool = False
    """With `steps_per_epoch`: whether the end of a pass always ends the epoch."""
    eval_batch_size: int = 1000
    device: str = "auto"
    """``auto``, ``cpu``, or a device of torch, e.g. ``cuda``."""
    mixed_precision: Literal["no", "bf16", "fp16"] = "no"
    threads: int = 0
    """Number of CPU threads per process. 0 leaves the choice to torch."""
    workers: int = 4
    """Number of processes that read files, for datasets that do not fit into memory."""
    checkpoint_seconds: float = 300.0
    """Maximum time between two checkpoints. There is also one after every epoch."""
    tensorboard: bool = True
    traced_samples: int = 1_000_000
    """Record the loss, weight and prediction of every sample in every epoch if the training set has
    at most this number of samples. A sample takes at most six bytes per epoch. 0 records none."""

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
        """Return the settings as in TOML. ``data`` and ``model`` hold their name and options."""
        settings = dataclasses.asdict(self)
        for name in ("data", "model"):
            component = getattr(self, name)
            settings[name] = {"name": component.name, **component.options}
        return _without_none(settings)


def read_config(settings: Mapping[str, Any], recipe: str) -> RunConfig:
    """Check settings key by key, and fill in the defaults.

    Args:
        settings: settings in sections, as in TOML.
        recipe: name of the recipe, if the settings do not have it.

    Raises:
        OptionError: an unknown key, a wrong type or a missing key.
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
    """Raise an `OptionError` if there is a single value instead of a section."""
    for name in _SECTION_NAMES:
        if name in settings and not isinstance(settings[name], Mapping):
            keys = [key for key in valid_keys() if key.startswith(f"{name}.")]
            example = keys[0] if keys else f"{name}.NAME"
            raise OptionError(
                f"{name} is a table, which cannot be {settings[name]!r}: set what is in it, "
                f"e.g. {example}=…"
            )


def valid_keys() -> list[str]:
    """Return the keys of all recipes. Keys of data, model and options depend on the names."""
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
