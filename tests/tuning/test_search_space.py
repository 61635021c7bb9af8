"""What is searched: default spaces, what a person asks for, and how values get into a config."""

from __future__ import annotations

from pathlib import Path

import pytest
from optuna import Trial
from tuning_runs import request_for

from discrimloss.hyperparameters import paper_defaults
from discrimloss.options import OptionError
from discrimloss.recipes import load_recipe
from discrimloss.tuning.parse_search import parse_search
from discrimloss.tuning.search_space import (
    LOWEST_WEIGHT,
    Choice,
    Range,
    combinations,
    method_space,
    own_values,
    with_values,
)
from discrimloss.tuning.study import open_study


class Suggests:
    """A trial of which every suggestion is known."""

    def __init__(self, value: float) -> None:
        self.value = value

    def suggest_float(self, key: str, low: float, high: float, log: bool) -> float:
        return self.value


@pytest.mark.parametrize("method", ["discrimloss", "superloss_discrimloss"])
@pytest.mark.parametrize("epochs", [1, 20, 120])
def test_the_paper_s_hyperparameters_with_the_recipe_s_own_values_among_them(
    method: str, epochs: int
) -> None:
    config = load_recipe("digits", [f"method={method}", f"epochs={epochs}"])
    space = parse_search(config, [])
    assert space == method_space(config)
    assert set(space) == {
        "options.threshold",
        "options.switch_gain",
        "options.switch_rate",
        "options.switch_epoch",
        "options.suppressed_epochs",
        "options.regularization",
        "options.relative_weight_lr",
        LOWEST_WEIGHT,
    }
    own = own_values(config, space)
    assert set(own) == set(space)
    defaults = paper_defaults(epochs)
    assert own["options.switch_epoch"] == pytest.approx(defaults["switch_epoch"])
    assert own["options.threshold"] == defaults["threshold"]
    assert own[LOWEST_WEIGHT] == defaults["weight_range"][0]


def test_ranges_follow_from_the_length_of_the_run() -> None:
    short, long = (method_space(load_recipe("digits", [f"epochs={n}"])) for n in (20, 100))
    assert short["options.switch_rate"] == Range(0.2, 5.0, log=True)
    assert long["options.switch_rate"] == Range(0.04, 1.0, log=True)
    assert long["options.switch_epoch"] == Range(25.0, 95.0)
    assert long["options.suppressed_epochs"] == Range(0, 25, whole=True)


def test_the_step_of_the_weights_is_searched_in_the_form_that_counts() -> None:
    released = method_space(load_recipe("digits", ["options.variant=released"]))
    assert released["options.weight_lr"] == Range(0.261, 26.1, log=True)
    assert "options.relative_weight_lr" not in released


def test_other_methods_search_the_optimizer() -> None:
    config = load_recipe("digits", ["method=gce", "schedule.kind=linear"])
    space = parse_search(config, [])
    assert space["optimizer.learning_rate"] == Range(0.01, 1.0, log=True)
    assert space["schedule.kind"] == Choice(("linear", "constant", "cosine"))
    assert set(space) == {
        "optimizer.learning_rate",
        "schedule.kind",
        "optimizer.weight_decay",
    }
    assert parse_search(config, ["all"]) == parse_search(config, ["optimizer"]) == space


def test_all_is_both() -> None:
    config = load_recipe("digits")
    both = parse_search(config, ["method"]) | parse_search(config, ["optimizer"])
    assert parse_search(config, ["all"]) == both


def test_what_is_set_is_not_searched() -> None:
    settings = ["options.threshold=mean", "options.weight_range=[1, 5]"]
    space = parse_search(load_recipe("digits", settings), [], settings)
    assert "options.threshold" not in space
    assert LOWEST_WEIGHT not in space


def test_single_keys() -> None:
    config = load_recipe("digits")
    wanted = [
        "optimizer.learning_rate=0:1",
        "batch_size=16:64:log",
        "options.history_decay=0.5,0.9",
        "schedule.kind=cosine,linear",
    ]
    assert parse_search(config, wanted) == {
        "optimizer.learning_rate": Range(0, 1),
        "batch_size": Range(16, 64, log=True, whole=True),
        "options.history_decay": Choice((0.5, 0.9)),
        "schedule.kind": Choice(("cosine", "linear")),
    }
    mixed = parse_search(config, ["optimizer", "optimizer.learning_rate=0.1:0.2"])
    assert mixed["optimizer.learning_rate"] == Range(0.1, 0.2)
    assert "schedule.kind" in mixed


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("methods", "did you mean 'method'? Valid are method, optimizer, all"),
        ("noise.rate=0:0.5", "'noise.rate' cannot be searched: valid are optimizer.…"),
        ("seed=1,2", "'seed' cannot be searched"),
        ("epochs=1:5", "'epochs' cannot be searched"),
        ("options.=1:5", "'options.' cannot be searched"),
        ("options.switch_gian=0.1:1", "did you mean 'options.switch_gain'?"),
        ("optimizer.learning_rates=0.1:1", "did you mean 'optimizer.learning_rate'?"),
        ("options.switch_gain=-1:0:log", "a range with :log must begin above 0"),
        ("optimizer.learning_rate=1:0.1", "the range must begin below its end"),
        ("optimizer.learning_rate=-1:1", "optimizer.learning_rate must be 0 or more, not -1"),
        ("optimizer.learning_rate=a:b", "write optimizer.learning_rate=LOW:HIGH or"),
        ("optimizer.learning_rate=0.1:1:exp", "write optimizer.learning_rate=LOW:HIGH or"),
        ("optimizer.learning_rate=0.1", "give at least two values"),
        ("options.suppressed_epochs=0.5:2", "options.suppressed_epochs takes whole numbers"),
        ("schedule.kind=0:1", "schedule.kind must be one of 'constant'"),
        ("schedule.kind=cosine,round", "schedule.kind must be one of 'constant'"),
        ("options.threshold=mean,", "'' is not a number or a word"),
    ],
)
def test_what_cannot_be_searched(wanted: str, sentence: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse_search(load_recipe("digits"), [wanted])
    assert sentence in str(refused.value)


def test_a_method_without_a_space_of_its_own() -> None:
    with pytest.raises(OptionError, match="method 'gce' has no search space of its own"):
        parse_search(load_recipe("digits", ["method=gce"]), ["method"])


def test_both_set_and_searched() -> None:
    setting = "optimizer.learning_rate=0.1"
    with pytest.raises(OptionError, match="is both set and searched"):
        parse_search(load_recipe("digits", [setting]), [f"{setting}:0.2"], [setting])
    names = ("schedule.kind=cosine", setting, "optimizer.weight_decay=0.1")
    with pytest.raises(OptionError, match="nothing is left to search"):
        parse_search(load_recipe("digits", names), ["optimizer"], names)


def test_a_part_of_a_log_range_means_zero() -> None:
    searched = Range(1e-5, 1.0, log=True, zero_below=1e-4)
    assert searched.draw(Suggests(5e-5), "k") == 0.0
    assert searched.draw(Suggests(0.123456), "k") == 0.1235
    assert searched.drawn_as(0.0) == 1e-5
    assert searched.drawn_as(2.0) is None
    assert Range(0.1, 1.0).drawn_as("mean") is None


def test_values_get_into_a_config() -> None:
    config = load_recipe("digits")
    values = {LOWEST_WEIGHT: 0.7, "optimizer.learning_rate": 0.02, "options.threshold": "mean"}
    changed = with_values(config, values)
    assert changed.options == {"weight_range": (0.7, 20.0), "threshold": "mean"}
    assert changed.optimizer.learning_rate == 0.02
    assert changed.optimizer.momentum == config.optimizer.momentum
    bounded = load_recipe("digits", ["options.weight_range=[1, 5]"])
    assert with_values(bounded, {LOWEST_WEIGHT: 0.7}).options["weight_range"] == (0.7, 5.0)


def test_no_combination_is_tried_twice(tmp_path: Path) -> None:
    rates, kinds = "optimizer.learning_rate=0.02,0.05,0.1", "schedule.kind=constant,cosine"
    request = request_for(tmp_path, search=(rates, kinds), trials=6)
    assert len(combinations(request.space)) == 6
    study = open_study(request)

    def draw(trial: Trial) -> float:
        for key, searched in request.space.items():
            searched.draw(trial, key)
        return 0.0

    study.optimize(draw, n_trials=7)
    tried = [tuple(sorted(trial.params.items())) for trial in study.get_trials()]
    assert len(set(tried[:6])) == 6
    assert tried[6] in tried[:6]  # nothing else is left


def test_ranges_have_no_combinations() -> None:
    config = load_recipe("digits")
    space = parse_search(config, ("optimizer.learning_rate=0.01:0.1", "batch_size=16,32"), ())
    assert combinations(space) == []
