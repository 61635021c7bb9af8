"""What comes of a search: pruned trials, the best recipe, the table, the page, the oracle."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from optuna.study import Study
from optuna.trial import TrialState
from tuning_runs import ended, request_for

from discrimloss.errors import DiscrimLossError
from discrimloss.recipes import load_recipe
from discrimloss.training.config import RunConfig
from discrimloss.tuning.outcome import Outcome, outcome_of, rank_correlation
from discrimloss.tuning.request import averaged_epochs, oracle_metric, trial_score
from discrimloss.tuning.results import (
    BEST,
    PAGE,
    TRIALS,
    importances_of,
    tuning_page,
    write_results,
)
from discrimloss.tuning.study import SETTINGS, TEST, WHY
from discrimloss.tuning.workers import work

RATES = "optimizer.learning_rate=0.00001:0.5:log"


class Searched(NamedTuple):
    study: Study
    outcome: Outcome
    config: RunConfig
    out: Path


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    """A search over learning rates of which many are far too low."""
    out = tmp_path_factory.mktemp("searched")
    request = request_for(out, "epochs=3", search=(RATES, "options.threshold=mean,ema"), trials=12)
    study = work(request)
    outcome = outcome_of(study, is_regression=False)
    write_results(outcome, request.config, importances_of(study), out, "discrimloss tune <digits>")
    return Searched(study, outcome, request.config, out)


def test_poor_trials_are_stopped_early(searched: Searched) -> None:
    pruned = ended(searched.study, TrialState.PRUNED)
    assert pruned
    for trial in pruned:
        assert trial.number >= 5
        assert 1 <= len(trial.intermediate_values) < 3
        assert trial.user_attrs[WHY].startswith("below the median of the trials at epoch")
        assert TEST not in trial.user_attrs
    best = searched.outcome.best_settings()["optimizer.learning_rate"]
    assert best > max(t.user_attrs[SETTINGS]["optimizer.learning_rate"] for t in pruned)


def test_the_score_is_the_mean_of_the_last_epochs_on_noisy_labels() -> None:
    history = [{"validation_accuracy": float(n), "test_accuracy": -n} for n in range(30)]
    assert averaged_epochs(30) == 3
    assert trial_score(history, False) == 28.0
    assert averaged_epochs(4) == 1
    errors = [{"validation_mae": 2.0}, {"validation_mae": 3.0}]
    assert trial_score(errors, True) == -3.0
    assert oracle_metric(history[-1], False) == -29.0
    assert oracle_metric(errors[-1], True) is None


def test_the_choice_and_the_oracle_s(searched: Searched) -> None:
    outcome = searched.outcome
    assert outcome.best.value == max(t.value for t in outcome.complete if t.value is not None)
    assert outcome.oracle is not None
    assert outcome.oracle.user_attrs[TEST] == max(t.user_attrs[TEST] for t in outcome.complete)
    assert outcome.rank_correlation is not None
    assert 0.3 < outcome.rank_correlation <= 1.0
    # Its own threshold is none of the two that were searched.
    assert outcome.as_it_is is None


def test_rank_correlations() -> None:
    assert rank_correlation([1.0, 2.0, 3.0], [1.0, 5.0, 9.0]) == 1.0
    assert rank_correlation([1.0, 2.0, 3.0], [9.0, 5.0, 1.0]) == -1.0
    assert rank_correlation([1.0, 1.0], [9.0, 5.0]) is None
    assert rank_correlation([], []) is None


def test_the_best_recipe_has_the_best_values_and_learns_from_all_samples(
    searched: Searched,
) -> None:
    file = searched.out / BEST
    assert file.read_text("utf-8").startswith(f"# discrimloss train {file}\n# digits, discrimloss:")
    config = load_recipe(str(file))
    best = searched.outcome.best.user_attrs[SETTINGS]
    assert config.optimizer.learning_rate == best["optimizer.learning_rate"]
    assert config.options["threshold"] == best["options.threshold"]
    assert config.recipe == "digits-tuned"
    rest = replace(
        config,
        recipe="digits",
        noisy_validation=0.2,
        optimizer=searched.config.optimizer,
        options={},
    )
    assert rest == searched.config


def test_every_trial_is_in_the_table(searched: Searched) -> None:
    rows = list(csv.DictReader((searched.out / TRIALS).read_text("utf-8").splitlines()))
    trials = searched.study.get_trials()
    assert [int(row["trial"]) for row in rows] == [t.number for t in trials]
    for row, trial in zip(rows, trials, strict=True):
        assert row["state"] == trial.state.name.lower()
        assert row["options.threshold"] == trial.user_attrs[SETTINGS]["options.threshold"]
        assert int(row["epochs"]) == len(trial.intermediate_values)
        is_complete = trial.state == TrialState.COMPLETE
        assert bool(row["validation_accuracy"]) == bool(row["test_accuracy"]) == is_complete
        if is_complete:
            assert float(row["validation_accuracy"]) == trial.value


def test_the_page_holds_all_it_needs(searched: Searched) -> None:
    page = (searched.out / PAGE).read_text("utf-8")
    assert "discrimloss tune &lt;digits&gt;" in page
    assert not re.search(r'(src|href)="(?!data:)', page.partition("<script>")[0])
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page)
    assert found is not None
    figures = json.loads(found.group(1))
    complete = searched.outcome.complete
    marks = figures["history"]["data"][0]
    assert marks["x"] == [trial.number for trial in complete]
    line = figures["history"]["data"][2]["y"]
    assert line == sorted(line)
    assert line[-1] == pytest.approx(searched.outcome.best.value, abs=0.01)
    assert len(figures["oracle"]["data"][0]["x"]) == len(complete)
    importances = importances_of(searched.study)
    assert ("importance" in figures) == bool(importances)


def test_what_matters_is_said_when_there_are_enough_trials(
    searched: Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discrimloss.tuning.results.FEWEST_TRIALS", 4)
    shares = importances_of(searched.study)
    assert set(shares) == {"optimizer.learning_rate", "options.threshold"}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["optimizer.learning_rate"] > shares["options.threshold"]
    page = tuning_page(searched.outcome, searched.config, shares, "")
    assert '"importance"' in page
    monkeypatch.setattr("discrimloss.tuning.results.FEWEST_TRIALS", 100)
    assert importances_of(searched.study) == {}


def test_a_loss_that_explodes_ends_a_trial_and_not_the_search(tmp_path: Path) -> None:
    request = request_for(tmp_path, search=("optimizer.learning_rate=1e25:1e30:log",), trials=2)
    study = work(request)
    assert [t.state for t in study.get_trials()] == [TrialState.PRUNED] * 2
    assert "lower optimizer.learning_rate" in study.get_trials()[0].user_attrs[WHY]
    with pytest.raises(DiscrimLossError, match="none of 2 trials finished") as refused:
        outcome_of(study, is_regression=False)
    assert "lower optimizer.learning_rate" in str(refused.value)


def test_an_error_is_the_better_the_smaller_it_is(tmp_path: Path) -> None:
    settings = ("data.name=digitsum", "model.name=digit_lstm", "loss=mse", "optimizer.kind=adamw")
    rates = ("optimizer.learning_rate=0.0001:0.1:log",)
    study = work(request_for(tmp_path, "train_size=64", *settings, search=rates, trials=3))
    outcome = outcome_of(study, is_regression=True)
    errors = [outcome.validation(t.value) for t in outcome.complete]
    tests = [t.user_attrs[TEST] for t in outcome.complete]
    assert len(set(errors)) == len(set(tests)) == 3
    assert outcome.validation(outcome.best.value) == min(errors) > 0.0
    assert outcome.oracle is not None
    assert outcome.oracle.user_attrs[TEST] == min(tests)
    assert outcome.rank_correlation == rank_correlation(errors, tests)
