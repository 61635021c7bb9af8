"""The recipes: found, opened by their command, with the paper's settings, and changed by hand."""

import math
import shlex
from pathlib import Path
from typing import Any

import pytest

from discrimloss.cli import main
from discrimloss.options import OptionError
from discrimloss.recipes import FOLDER, find_recipe, load_recipe, recipe_files, summary_of
from discrimloss.training.config import RunConfig, read_config
from discrimloss.training.run_directory import RunDirectory

ALL = sorted(recipe_files())
every_recipe = pytest.mark.parametrize("name", ALL)


def refused(name: str, *overrides: str) -> str:
    with pytest.raises(OptionError) as error:
        load_recipe(name, overrides)
    sentence = str(error.value)
    assert "\n" not in sentence
    return sentence


# Found, and opened by the command that runs them.


def test_every_file_is_found_and_no_name_is_there_twice() -> None:
    files = list(FOLDER.rglob("*.toml"))
    assert sorted(recipe_files().values()) == sorted(files)


@pytest.mark.parametrize(
    "name",
    [
        "digits",
        "mnist",
        "cifar10",
        "cifar100",
        "clothing1m",
        "utkface",
        "digitsum",
        "wikihow-goal",
        "wikihow-step",
        "wikihow-order",
        "cifar10-small",
        "cifar100-small",
        "clothing1m-small",
        "utkface-small",
        "wikihow-small",
    ],
)
def test_names_that_others_rely_on(name: str) -> None:
    assert name in recipe_files()


@every_recipe
def test_it_opens_with_the_command_that_runs_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = recipe_files()[name].read_text("utf-8").splitlines()[:2]
    program, *arguments = shlex.split(first.removeprefix("# "))
    assert first.startswith("# ")
    assert program == "discrimloss"
    assert arguments[:2] == ["train", name]
    assert arguments[-2] == "--out"
    assert second.startswith("# ")
    assert summary_of(recipe_files()[name]) == second.removeprefix("# ")
    assert second.endswith(".")

    started: list[RunConfig] = []
    monkeypatch.setattr("discrimloss.cli.train._run", lambda config, *_: started.append(config))
    monkeypatch.delenv("DISCRIMLOSS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "DIR").mkdir()
    assert main(arguments) == 0
    settings = [argument for argument in arguments[2:] if "=" in argument]
    assert started == [load_recipe(name, settings)]


@every_recipe
def test_it_loads_with_its_defaults(name: str) -> None:
    config = load_recipe(name)
    assert config.recipe == name
    assert config.method == "discrimloss"
    assert config.hyperparameters == "default"
    assert config.options == {}  # ours, the same at every noise rate
    assert config.seed == 1


@every_recipe
def test_the_plain_loss_stands_beside_it(name: str) -> None:
    plain, ours = load_recipe(name, ["method=plain"]), load_recipe(name)
    assert plain.method == "plain"
    assert (plain.optimizer, plain.schedule, plain.epochs) == (
        ours.optimizer,
        ours.schedule,
        ours.epochs,
    )


@every_recipe
def test_the_config_of_a_run_is_a_recipe(name: str, tmp_path: Path) -> None:
    config = load_recipe(name, ["seed=3"])
    RunDirectory(tmp_path).write_config(config.as_dict())
    assert load_recipe(str(tmp_path / "config.toml")) == config


# The paper's appendix, typed again: e_s, a, p, q, lambda; and what the released code has for
# the sample weights: learning rate, lowest logarithm.

_CIFAR_EASY = (4, 0.25, 1.92, 81, 0)
_CIFAR_NOISY = (3, 0.27, 0.54, 60, 0)
_FACES_A = (3, 0.42, 1.40, 41, 0.09)
_FACES_B = (2, 0.46, 1.25, 50, 0.01)
_FACES_OUTER, _FACES_MIDDLE = (0.00081, 0.606), (0.00133, 0.566)
Row = tuple[tuple[float, ...], tuple[float, float | None]]
APPENDIX: dict[str, dict[tuple[str, ...], Row]] = {
    "mnist": {
        ("noise.rate=0",): ((2, 0.35, 1.56, 12, 0), (0.087, 0.118)),
        ("noise.rate=0.2",): ((2, 0.50, 1.05, 2, 8e-3), (10.0, 0.153)),
        ("noise.rate=0.4",): ((2, 0.10, 0.97, 18, 0), (8.26, 0.138)),
        ("noise.rate=0.6",): ((2, 0.10, 0.61, 16, 0), (0.407, 0.120)),
        ("noise.rate=0.8",): ((2, 0.12, 1.20, 14, 0.09), (0.103, 0.169)),
    },
    "cifar10": {
        ("noise.rate=0",): (_CIFAR_EASY, (0.081, 0.561)),
        ("noise.rate=0.2",): (_CIFAR_NOISY, (2.61, 0.079)),
        ("noise.rate=0.4",): (_CIFAR_NOISY, (2.61, 0.079)),
        ("noise.rate=0.6",): (_CIFAR_NOISY, (2.61, 0.079)),
    },
    "cifar100": {
        ("noise.rate=0",): (_CIFAR_EASY, (0.081, 0.561)),
        ("noise.rate=0.2",): (_CIFAR_EASY, (0.081, 0.561)),
        ("noise.rate=0.4",): (_CIFAR_NOISY, (2.61, 0.079)),
        ("noise.rate=0.6",): ((2, 0.37, 2.25, 75, 0), (8.17, 0.055)),
    },
    "utkface": {
        ("loss=smooth_l1", "noise.rate=0"): (_FACES_A, _FACES_OUTER),
        ("loss=smooth_l1", "noise.rate=0.2"): (_FACES_B, _FACES_MIDDLE),
        ("loss=smooth_l1", "noise.rate=0.4"): (_FACES_B, _FACES_MIDDLE),
        ("loss=smooth_l1", "noise.rate=0.6"): ((4, 0.25, 1.92, 28, 3e-6), (0.00062, 0.561)),
        ("loss=smooth_l1", "noise.rate=0.8"): (_FACES_A, _FACES_OUTER),
        ("loss=mse", "noise.rate=0"): (_FACES_A, _FACES_OUTER),
        ("loss=mse", "noise.rate=0.2"): (_FACES_B, _FACES_MIDDLE),
        ("loss=mse", "noise.rate=0.4"): (_FACES_B, _FACES_MIDDLE),
        ("loss=mse", "noise.rate=0.6"): (_FACES_B, _FACES_MIDDLE),
        ("loss=mse", "noise.rate=0.8"): (_FACES_A, _FACES_OUTER),
    },
    "digitsum": {
        ("noise.rate=0",): ((3, 1.51, 3.17, 67, 9e-8), (19.5, 0.279)),
        ("noise.rate=0.2",): ((3, 0.48, 3.03, 57, 0.550), (1.37, 0.056)),
        ("noise.rate=0.4",): ((3, 1.18, 0.23, 54, 0.105), (0.225, 0.344)),
        ("noise.rate=0.6",): ((3, 1.09, 1.37, 75, 0.145), (35.9, 0.665)),
    },
    "clothing1m": {(): ((3, 0.26, 0.68, 5, 0), (5.11, 0.459))},
    "wikihow-goal": {(): ((3, 0.2, 1.2, 10, 1e-6), (100.0, 0.05))},
    "wikihow-step": {(): ((3, 0.2, 1.2, 11, 1e-6), (50.0, 0.05))},
    "wikihow-order": {(): ((3, 0.2, 1.2, 16, 1e-6), (100.0, 0.05))},
}
ROWS = [(name, *row) for name, rows in APPENDIX.items() for row in rows.items()]
LACKING = [
    ("mnist", ("noise.rate=0.5",)),
    ("cifar10", ("noise.rate=0.8",)),
    ("cifar100", ("noise.rate=0.8",)),
    ("utkface", ("noise.rate=0.1",)),
    ("utkface", ("noise.rate=0.9", "loss=mse")),
    ("digitsum", ("noise.rate=0.8",)),
]
# With the paper's batch sizes, a sample's own step is the released one times 10 / batch size.
BATCH_SIZE = {"clothing1m": 32, "digitsum": 512, "wikihow": 48}
NAMES = ("suppressed_epochs", "switch_gain", "switch_rate", "switch_epoch", "regularization")


def batch_size(name: str) -> int:
    return BATCH_SIZE.get(name.partition("-")[0], 128)


@pytest.mark.parametrize(("name", "setting", "row"), ROWS)
def test_the_paper_s_hyperparameters(name: str, setting: tuple[str, ...], row: Row) -> None:
    config = load_recipe(name, ["hyperparameters=paper", *setting])
    values, (rate, lowest) = row
    options = dict(config.options)
    assert tuple(options.pop(key) for key in NAMES) == values
    threshold = options.pop("threshold")
    if name == "digitsum":  # in bold in the paper's table; at 40 % that of the released script
        fixed = (("noise.rate=0",), ("noise.rate=0.4",))
        assert threshold == (0.5 if setting in fixed else "mean")
    else:
        assert threshold == "ema"
    assert config.batch_size == batch_size(name)
    assert options.pop("weight_lr") == pytest.approx(10 * rate / batch_size(name), rel=1e-5)
    if lowest is not None:
        assert options.pop("weight_range") == pytest.approx((math.exp(lowest), 20.0), rel=1e-5)
    assert options == {}


@pytest.mark.parametrize(("name", "setting", "row"), ROWS)
def test_the_released_variant_takes_its_own_step(
    name: str, setting: tuple[str, ...], row: Row
) -> None:
    released = ("hyperparameters=paper", "options.variant=released", *setting)
    config = load_recipe(name, released)
    values, (rate, lowest) = row
    assert config.options["variant"] == "released"
    assert tuple(config.options[key] for key in NAMES) == values
    assert config.options["weight_lr"] == rate
    if lowest is not None:
        bounds = config.options["weight_range"]
        assert bounds == pytest.approx((math.exp(lowest), 20.0), rel=1e-5)


@pytest.mark.parametrize(("name", "setting"), LACKING)
def test_a_rate_that_the_paper_lacks_lists_those_it_has(
    name: str, setting: tuple[str, ...]
) -> None:
    sentence = refused(name, "hyperparameters=paper", *setting)
    assert "the paper has no hyperparameters for this setting" in sentence
    listed = sentence.partition("only for ")[2].split("; ")
    assert len(listed) == len(APPENDIX[name])
    for known in APPENDIX[name]:
        rate = float(known[-1].partition("=")[2])
        assert any(f"noise.rate={rate}" in words for words in listed)


def test_a_step_of_the_weights_follows_the_batch_size() -> None:
    config = load_recipe("mnist", ["hyperparameters=paper", "batch_size=64"])
    assert config.options["weight_lr"] == pytest.approx(10 * 8.26 / 64, rel=1e-5)


def test_superloss_under_discrimloss_has_a_row_of_its_own() -> None:
    from discrimloss.recipes.cases import apply_paper_rows

    rows = [
        {"when": {}, "options": {"switch_gain": 0.26}},
        {"when": {"method": "superloss_discrimloss"}, "options": {"switch_gain": 0.16}},
    ]
    for method, gain in (("discrimloss", 0.26), ("superloss_discrimloss", 0.16)):
        table = apply_paper_rows({"method": method, "batch_size": 1}, rows)
        assert table["options"]["switch_gain"] == gain
    assert apply_paper_rows({"method": "plain"}, rows) == {"method": "plain"}


@pytest.mark.parametrize("name", sorted(APPENDIX))
def test_the_plain_loss_has_the_paper_s_settings_too(name: str) -> None:
    config = load_recipe(name, ["hyperparameters=paper", "method=plain"])
    beside = load_recipe(name, ["hyperparameters=paper"])
    assert config.options == {}
    assert config.schedule == beside.schedule
    assert config.optimizer == beside.optimizer


@pytest.mark.parametrize(
    ("name", "epochs", "optimizer", "schedule"),
    [
        ("mnist", 20, ("sgd", 0.1, 0.9, 5e-4), ("constant", ())),
        ("cifar10", 120, ("sgd", 0.1, 0.9, 5e-4), ("step", (80, 100))),
        ("cifar100", 120, ("sgd", 0.1, 0.9, 5e-4), ("step", (80, 100))),
        ("clothing1m", 10, ("sgd", 1e-3, 0.9, 1e-3), ("step", (5,))),
        ("utkface", 100, ("sgd", 0.1, 0.9, 0.0), ("exponential", ())),
        ("digitsum", 100, ("adamw", 0.1, None, 0.0), ("constant", ())),
        ("wikihow-goal", 20, ("adamw", 5e-5, None, 0.0), ("linear", ())),
        ("wikihow-step", 24, ("adamw", 5e-5, None, 0.0), ("linear", ())),
        ("wikihow-order", 32, ("adamw", 5e-5, None, 0.0), ("linear", ())),
    ],
)
def test_the_paper_s_training(
    name: str, epochs: int, optimizer: tuple[Any, ...], schedule: tuple[Any, ...]
) -> None:
    config = load_recipe(name, ["hyperparameters=paper"])
    assert config.epochs == epochs
    assert config.batch_size == batch_size(name)
    kind, rate, momentum, decay = optimizer
    assert (config.optimizer.kind, config.optimizer.learning_rate) == (kind, rate)
    assert config.optimizer.weight_decay == decay
    assert momentum is None or config.optimizer.momentum == momentum
    assert (config.schedule.kind, config.schedule.milestones) == schedule
    factor = math.exp(-0.01) if schedule[0] == "exponential" else 0.1
    assert config.schedule.factor == pytest.approx(factor)


@pytest.mark.parametrize(
    "name",
    [
        "mnist",
        "cifar10",
        "cifar100",
        "utkface",
        "digitsum",
        "cifar10-small",
        "cifar100-small",
        "utkface-small",
    ],
)
def test_the_paper_s_settings_permute_labels_unless_the_user_says_otherwise(name: str) -> None:
    assert load_recipe(name).noise.kind == "symmetric"
    assert load_recipe(name, ["hyperparameters=paper"]).noise.kind == "permuted"
    ours = ["hyperparameters=paper", "noise.kind=symmetric"]
    assert load_recipe(name, ours).noise.kind == "symmetric"


def test_the_paper_s_settings_for_images_are_those_of_the_released_code() -> None:
    faces = load_recipe("utkface", ["hyperparameters=paper"])
    assert faces.data.options["crop"] == "scale"
    assert faces.data.options["normalization"] == "imagenet"
    assert load_recipe("utkface").data.options["crop"] == "shift"
    for overrides in ([], ["hyperparameters=paper"]):  # the learning rates are for raw ages
        assert load_recipe("utkface", overrides).model.options["standardized"] is False
    cifar = load_recipe("cifar10", ["hyperparameters=paper"])
    assert cifar.data.options["std"] == (0.2023, 0.1994, 0.2010)
    assert cifar.model.options["form"] == "released"


@pytest.mark.parametrize("task", ["goal", "step", "order"])
def test_wikihow_passes_over_its_questions_as_often_as_the_paper(task: str) -> None:
    questions, passes = {"goal": (166_708, 5), "step": (336_851, 3), "order": (752_516, 2)}[task]
    config = load_recipe(f"wikihow-{task}")
    assert config.steps_per_epoch == 1000
    wanted = passes * questions / config.batch_size / 1000
    assert config.epochs == round(wanted)
    paper = load_recipe(f"wikihow-{task}", ["hyperparameters=paper"])
    assert paper.epochs_end_with_passes
    assert paper.epochs == passes * math.ceil(questions / config.batch_size / 1000)


# What a person says outranks cases and the paper.


def test_squared_errors_of_faces_have_a_learning_rate_of_their_own() -> None:
    def rate(*overrides: str) -> float:
        return load_recipe("utkface", overrides).optimizer.learning_rate

    assert rate() == 0.1
    assert rate("loss=smooth_l1") == 0.1
    assert rate("loss=mse") == 1e-3
    assert rate("loss=mse", "optimizer.learning_rate=0.5") == 0.5
    assert rate("optimizer.learning_rate=0.5", "loss=mse", "hyperparameters=paper") == 0.5


def test_overrides_outrank_the_paper() -> None:
    config = load_recipe(
        "mnist",
        ["hyperparameters=paper", "options.switch_gain=9", "schedule.kind=linear"],
    )
    assert config.options["switch_gain"] == 9.0
    assert config.options["switch_epoch"] == 18
    assert config.schedule.kind == "linear"


@pytest.mark.parametrize(
    ("overrides", "key", "value"),
    [
        (["epochs=3"], "epochs", 3),
        (["epochs=3", "epochs=4"], "epochs", 4),
        ([" epochs = 3 "], "epochs", 3),
        (["seed=1_000"], "seed", 1000),
        (["method=plain"], "method", "plain"),
        (["method='plain'"], "method", "plain"),
        (['method="plain"'], "method", "plain"),
        (["tensorboard=false"], "tensorboard", False),
        (["checkpoint_seconds=1e3"], "checkpoint_seconds", 1000.0),
        (["checkpoint_seconds=5"], "checkpoint_seconds", 5.0),
        (["device=cuda:1"], "device", "cuda:1"),
        (["noise.rate=0.25"], "noise.rate", 0.25),
        (["noise.rate=1"], "noise.rate", 1.0),
        (["noise.kind=none"], "noise.rate", 0.0),
        (["noise={kind='none'}"], "noise.rate", 0.0),
        (["noise.kind=pair"], "noise.rate", 0.4),
        (["noise.kind=human", "noise.labels=a=b.txt"], "noise.labels", "a=b.txt"),
        (["noise.kind=asymmetric", "noise.mapping.1=2"], "noise.mapping", {"1": 2}),
        (["noise.kind=asymmetric", "noise.mapping={1=2}"], "noise.mapping", {"1": 2}),
        (["schedule.kind=step", "schedule.milestones=[5, 7]"], "schedule.milestones", (5, 7)),
        (["options.weight_range=[1, 20]"], "options", {"weight_range": (1.0, 20.0)}),
        (["options.threshold=ema"], "options", {"threshold": "ema"}),
        (["options.threshold=0.5"], "options", {"threshold": 0.5}),
        (["model.hidden=8"], "model.options", {"hidden": 8, "dropout": 0.0}),
        (["model.name=lenet"], "model.options", {}),
        (["data.name=digitsum"], "data.name", "digitsum"),
        (["train_size=10", "train_size=none"], "train_size", None),
    ],
)
def test_settings_are_read(overrides: list[str], key: str, value: Any) -> None:
    found: Any = load_recipe("digits", overrides)
    for part in key.split("."):
        found = getattr(found, part)
    assert found == value
    assert type(found) is type(value)


def test_another_model_or_dataset_does_not_inherit_options() -> None:
    assert load_recipe("cifar10", ["model.name=compact_resnet"]).model.name == "compact_resnet"
    faces = load_recipe("utkface", ["data.name=cifar10"])
    assert "size" not in faces.data.options
    same = load_recipe("utkface", ["data.name=utkface"])
    assert same.data.options["size"] == 128


def test_what_is_set_can_be_unset() -> None:
    assert load_recipe("clothing1m", ["model.pretrained=none"]).model.options["pretrained"] is None
    assert load_recipe("wikihow-goal", ["steps_per_epoch=none"]).steps_per_epoch is None
    assert load_recipe("wikihow-goal", ["optimizer.clip_norm=none"]).optimizer.clip_norm is None


@pytest.mark.parametrize(
    ("override", "example"),
    [
        ("epochs", "epochs=…"),
        ("epoch", "epochs=…"),
        ("noise.rates", "noise.rate=…"),
        ("xyz", "noise.rate=0.4"),
        ("", "noise.rate=0.4"),
        ("=3", "noise.rate=0.4"),
        ("a..b=3", "noise.rate=0.4"),
        (".=3", "noise.rate=0.4"),
    ],
)
def test_what_is_no_setting(override: str, example: str) -> None:
    sentence = refused("digits", override)
    assert sentence == f"{override!r} is not a setting: write key=value, e.g. {example}"


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["epochs="], "epochs must be a whole number, not ''"),
        (["epochs=ten"], "epochs must be a whole number, not 'ten'"),
        (["epochs=1e1"], "epochs must be a whole number, not 10.0"),
        (["epochs.x=3"], "epochs must be a whole number, not {'x': 3}"),
        (["noise=0.4"], "noise is a table, which cannot be 0.4: set what is in it, e.g. noise."),
        (["data=mnist"], "data is a table, which cannot be 'mnist': set what is in it, e.g. data."),
        (["model=lenet"], "model is a table, which cannot be 'lenet'"),
        (["options=3", "method=plain"], "options is a table, which cannot be 3"),
        (["schedule=cosine"], "schedule is a table, which cannot be 'cosine'"),
        (["noise.kind=none", "noise.rate=0.2"], "noise.rate is above 0 but noise.kind is 'none'"),
        (
            ["method=plain", "options.switch_gain=1"],
            "unknown key options.switch_gain for method 'plain': valid are options.history",
        ),
        (["case=3"], "unknown key case: "),
        (["paper=3"], "unknown key paper: "),
        (["hyperparameters=papers"], "hyperparameters must be one of 'default', 'paper', not"),
        (["hyperparameters=paper"], "this recipe has no values from the paper"),
    ],
)
def test_wrong_settings(overrides: list[str], sentence: str) -> None:
    assert refused("digits", *overrides).startswith(sentence)


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("batch_size=0", "batch_size must be 1 or more, not 0"),
        ("batch_size=x", "batch_size must be a whole number, not 'x'"),
        ("noise.rate=low", "noise.rate must be a number, not 'low'"),
        ("noise.rate.x=1", "noise.rate must be a number, not {'x': 1}"),
    ],
)
def test_wrong_settings_come_before_what_the_paper_lacks(override: str, sentence: str) -> None:
    assert refused("mnist", "hyperparameters=paper", override) == sentence


def test_settings_do_not_reach_the_next_load() -> None:
    load_recipe("mnist", ["noise.rate=0.8", "options.switch_gain=3", "hyperparameters=paper"])
    assert load_recipe("mnist") == load_recipe("mnist", ["noise.rate=0.4"])


# Files of one's own.


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(recipe_files()["digits"].read_text("utf-8"), "utf-8")
    return file


def test_a_file_is_named_by_its_stem(own: Path) -> None:
    assert load_recipe(str(own)).recipe == "mine"
    assert find_recipe(str(own)) == own


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("epochs = 40", "epochs =", "not valid TOML"),
        ("epochs = 40", "epochs = 40\nepochs = 41", "not valid TOML"),
        ("epochs = 40", "epoch = 40", "unknown key epoch: did you mean 'epochs'?"),
        ("epochs = 40", "", "a recipe needs epochs, a whole number"),
        ("rate = 0.4", 'rate = "0.4"', "noise.rate must be a number, not '0.4'"),
        ("rate = 0.4", "rates = 0.4", "unknown key noise.rates for [noise]: did you mean"),
        ("[noise]", "[nois]", "unknown key nois: "),
        ('[noise]\nkind = "symmetric"\nrate = 0.4', "", "a recipe needs noise, a table"),
        ("options = {}", "options = 3", "options is a table, which cannot be 3"),
        ("options = {}", "options = {}\ncase = 3", "case must be a list of tables"),
        ("options = {}", "options = {}\npaper = [3]", "paper must be a list of tables"),
        ("[noise]", "[[case]]\nseed = 3\n\n[noise]", "each [[case]] needs when"),
        ("[noise]", "[[case]]\nwhen = 3\n\n[noise]", "when in [[case]] must be a table, not 3"),
        ("[noise]", "[[paper]]\nwhen = 3\n\n[noise]", "when in [[paper]] must be a table, not 3"),
        (
            "[noise]",
            "[[case]]\nwhen = {seed = 1}\nsed = 3\n\n[noise]",
            "unknown key sed: did you mean 'seed'?",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_name(
    own: Path, old: str, new: str, sentence: str
) -> None:
    text = own.read_text("utf-8")
    assert old in text
    own.write_text(text.replace(old, new), "utf-8")
    told = refused(str(own))
    assert told.startswith(str(own))
    assert sentence in told


def test_a_file_in_another_encoding(own: Path) -> None:
    text = own.read_text("utf-8")
    own.write_bytes(b"# \xff\xfe\n" + text.encode())
    assert refused(str(own)).startswith(f"cannot read the recipe {own}: ")
    own.write_text(text, "utf-8-sig")  # as some editors save it
    assert load_recipe(str(own)).epochs == 40


def test_an_empty_file(tmp_path: Path) -> None:
    file = tmp_path / "empty.toml"
    file.write_text("")
    assert refused(str(file)).startswith(f"{file}: a recipe needs ")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("digit", "unknown recipe 'digit': did you mean 'digits'? Valid are "),
        ("xyz", "unknown recipe 'xyz': valid are "),
        ("", "unknown recipe '': valid are "),
        ("xyz.toml", "there is no recipe file xyz.toml"),
        ("digits.toml", "there is no recipe file digits.toml: the recipe is named 'digits'"),
        ("some/where.toml", "there is no recipe file some/where.toml"),
        ("some/where", "there is no recipe file some/where"),
    ],
)
def test_what_is_no_recipe(
    name: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = refused(name)
    assert told.startswith(sentence)
    if told.startswith("unknown"):
        assert told.endswith(", ".join(ALL))


def test_a_directory_is_no_recipe(tmp_path: Path) -> None:
    assert refused(str(tmp_path)) == f"there is no recipe file {tmp_path}"


# The config of a run with the paper's hyperparameters.


@pytest.fixture
def resolved(tmp_path: Path) -> Path:
    overrides = ["hyperparameters=paper", "noise.rate=0.8", "options.switch_gain=0.3"]
    RunDirectory(tmp_path).write_config(load_recipe("mnist", overrides).as_dict())
    return tmp_path / "config.toml"


def test_the_paper_s_values_are_in_the_config_of_a_run(resolved: Path) -> None:
    config = load_recipe(str(resolved), ["seed=4", "epochs=3", "noise.kind=permuted"])
    assert config.hyperparameters == "paper"
    assert config.recipe == "mnist"
    assert config.options["switch_gain"] == 0.3
    assert config.options["switch_epoch"] == 14
    assert (config.seed, config.epochs, config.noise.kind) == (4, 3, "permuted")
    assert load_recipe(str(resolved), ["method=plain", "noise.rate=0.2"]).options == {}


@pytest.mark.parametrize(
    "override", ["noise.rate=0.2", "hyperparameters=default", "batch_size=64", "noise.kind=none"]
)
def test_they_fit_one_setting_only(resolved: Path, override: str) -> None:
    sentence = refused(str(resolved), override)
    assert "cannot be changed here, because the options are those of the paper for" in sentence
    assert sentence.endswith("train the recipe 'mnist' instead")


def test_read_config_alone_reads_the_config_of_a_run(resolved: Path) -> None:
    table = RunDirectory(resolved.parent).config()
    assert read_config(table, recipe="x") == load_recipe(str(resolved))


# Small recipes, and settings that meet the paper's.


@pytest.mark.parametrize(
    ("small", "full", "settings"),
    [
        ("cifar10-small", "cifar10", ()),
        ("cifar100-small", "cifar100", ("noise.rate=0.6",)),
        ("utkface-small", "utkface", ("loss=mse", "noise.rate=0.8")),
        ("clothing1m-small", "clothing1m", ()),
        ("wikihow-small", "wikihow-goal", ()),
    ],
)
def test_a_small_recipe_takes_the_paper_s_row_stretched_to_its_epochs(
    small: str, full: str, settings: tuple[str, ...]
) -> None:
    ours = load_recipe(small, ["hyperparameters=paper", *settings])
    theirs = load_recipe(full, ["hyperparameters=paper", *settings])
    assert set(ours.options) == set(theirs.options)
    ratio = ours.epochs / theirs.epochs
    assert ours.options["switch_epoch"] == pytest.approx(theirs.options["switch_epoch"] * ratio)
    assert ours.options["switch_rate"] == pytest.approx(theirs.options["switch_rate"] / ratio)
    for name in ("switch_gain", "suppressed_epochs", "regularization", "threshold"):
        assert ours.options[name] == theirs.options[name]


def test_the_step_of_the_weights_follows_the_batch_size_that_is_used() -> None:
    paper = load_recipe("digitsum", ["hyperparameters=paper"])
    smaller = load_recipe("digitsum", ["hyperparameters=paper", "batch_size=64"])
    assert (paper.batch_size, smaller.batch_size) == (512, 64)
    assert smaller.options["weight_lr"] == pytest.approx(8 * paper.options["weight_lr"], rel=1e-4)


def test_human_labels_do_not_take_the_row_of_the_recipe_s_rate() -> None:
    human = ["hyperparameters=paper", "noise.kind=human", "noise.labels=worse"]
    with pytest.raises(OptionError, match=r"only for noise\.rate=0\.0"):
        load_recipe("cifar10", human)
    assert load_recipe("cifar10", [*human, "noise.rate=0"]).options["switch_epoch"] == 81
    assert load_recipe("cifar10", human[1:]).noise.rate == 0.0


@pytest.mark.parametrize("setting", ["noise.labels=worse", "noise.mapping={1 = 7}"])
def test_a_setting_of_another_kind_of_noise_is_refused(setting: str) -> None:
    with pytest.raises(OptionError, match=r"is for noise\.kind"):
        load_recipe("cifar10", [setting])
