"""Workers that share a study: exactly so many trials, whatever becomes of the workers."""

from __future__ import annotations

import signal
import sqlite3
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy.exc
import torch
from optuna.storages import RDBStorage
from optuna.study import Study
from optuna.trial import Trial, TrialState
from tuning_runs import (
    before_every_epoch,
    ended,
    request_for,
    send_in,
    work_side_by_side,
    work_until_killed,
)

from discrimloss.data.base import Split
from discrimloss.data.digits import load_digits
from discrimloss.errors import DiscrimLossError
from discrimloss.training.grid import process_context
from discrimloss.training.interruption import Interrupted
from discrimloss.tuning import trial as trials
from discrimloss.tuning.storage import open_storage
from discrimloss.tuning.study import (
    AS_IT_IS,
    SETTINGS,
    SURPLUS,
    TEST,
    WHY,
    WORKER,
    give_up_lost_trials,
    is_surplus,
    open_study,
    standing,
)
from discrimloss.tuning.worker_processes import PROCESS, own_process
from discrimloss.tuning.workers import IMPORTED_ONCE, _run_one, work, work_together


def test_two_processes_on_one_database_do_exactly_the_trials_that_are_wanted(
    tmp_path: Path,
) -> None:
    request = request_for(tmp_path, trials=5)
    context = process_context(IMPORTED_ONCE)
    barrier = context.Barrier(2)
    processes = [
        context.Process(target=work_side_by_side, args=(request, barrier)) for _ in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    study = open_study(request)
    found = ended(study)
    assert len(found) == 5
    assert len({trial.number for trial in found}) == 5
    assert len({trial.user_attrs[WORKER] for trial in found}) == 2
    assert len({str(trial.user_attrs[SETTINGS]) for trial in found}) == 5  # none twice
    assert found[0].user_attrs[AS_IT_IS]
    others = [t for t in study.get_trials() if t not in found]
    assert all(t.user_attrs.get(SURPLUS) for t in others)


def test_the_trial_of_a_killed_worker_is_begun_again(tmp_path: Path) -> None:
    request = request_for(tmp_path, trials=3, lost_after=600)  # its process is known to be gone
    process = process_context(IMPORTED_ONCE).Process(target=work_until_killed, args=(request, 1))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    study = open_study(request)
    killed = study.get_trials()[1]
    assert [t.state for t in study.get_trials()] == [TrialState.COMPLETE, TrialState.RUNNING]
    work(request)
    assert len(ended(study)) == 3
    assert study.get_trials()[1].state == TrialState.FAIL
    again = [t for t in ended(study) if t.params == killed.params]
    assert len(again) == 1
    assert standing(study).failed == 1


def begin_trial(study: Study) -> Trial:
    """A trial that no worker continues."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna expects `Study.optimize`, with heartbeats
        return study.ask()


def test_a_trial_whose_worker_never_gave_a_sign_of_life_is_given_up(tmp_path: Path) -> None:
    request = request_for(tmp_path, trials=2, lost_after=1)
    study = open_study(request)
    begin_trial(study)  # and the worker is killed before the trial's first heartbeat
    assert [t.state for t in study.get_trials()] == [TrialState.RUNNING]
    time.sleep(1.5)
    work(request)
    assert study.get_trials()[0].state == TrialState.FAIL
    assert len(ended(study)) == 2
    assert ended(study)[0].user_attrs[AS_IT_IS]


def test_the_heartbeat_of_a_worker_elsewhere_is_waited_for(tmp_path: Path) -> None:
    request = request_for(tmp_path, trials=2, lost_after=600)
    study = open_study(request)
    trial = begin_trial(study)
    trial.set_user_attr(PROCESS, [0, "another machine", 1, "1"])
    give_up_lost_trials(study, 600)
    assert study.get_trials()[0].state == TrialState.RUNNING
    trial.set_user_attr(PROCESS, [0, *own_process()])
    give_up_lost_trials(study, 600)
    assert study.get_trials()[0].state == TrialState.RUNNING


def test_processes_that_are_started_for_one(tmp_path: Path) -> None:
    seen = []
    request = request_for(tmp_path, trials=3)
    study = work_together(request, 2, lambda now: seen.append(now.settled))
    assert len(ended(study)) == 3
    assert seen[-1] == 3


def test_what_a_process_complains_of_is_told(tmp_path: Path) -> None:
    request = request_for(tmp_path, "data.name=mnist", "model.name=lenet")
    with pytest.raises(DiscrimLossError, match="MNIST"):
        work_together(replace(request, data=tmp_path), 1)


def test_ctrl_c_leaves_a_study_that_goes_on_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
    request = request_for(tmp_path / "stopped")
    with monkeypatch.context() as patch:
        act = send_in(1, signal.SIGINT)
        patch.setattr(trials._Watcher, "on_epoch", before_every_epoch(act))
        with pytest.raises((KeyboardInterrupt, Interrupted)):
            work(request)
    study = open_study(request)
    states = [TrialState.COMPLETE, TrialState.FAIL, TrialState.WAITING]
    assert [t.state for t in study.get_trials()] == states
    assert study.get_trials()[1].user_attrs[WHY] == "interrupted"
    work(request)
    whole = work(request_for(tmp_path / "whole"))
    assert len(ended(study)) == len(ended(whole)) == 3
    for again, first in zip(ended(study)[:2], ended(whole)[:2], strict=True):
        assert again.params == first.params
        assert again.values == first.values
        assert WHY not in again.user_attrs


def test_more_trials_later_and_none_if_there_are_enough(tmp_path: Path) -> None:
    request = request_for(tmp_path, trials=2)
    assert len(work(request).get_trials()) == 2
    assert len(work(request).get_trials()) == 2
    assert len(work(replace(request, trials=3)).get_trials()) == 3


def test_a_trial_too_many_is_given_up_before_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_for(tmp_path, trials=1)
    study = work(request)
    assert not is_surplus(study, 0, 1)
    assert is_surplus(study, 1, 1)

    def refuse(*arguments: object) -> float:
        raise AssertionError("trained")

    # As if this worker had looked before the last trial of another one began.
    monkeypatch.setattr("discrimloss.tuning.workers.run_trial", refuse)
    _run_one(study, request, load_digits(Path()))
    assert study.get_trials()[1].user_attrs == {SURPLUS: True}
    assert standing(study).settled == 1
    assert standing(study).failed == 0


def test_a_worker_that_was_taken_for_dead_leaves_the_trial_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_for(tmp_path, trials=2)
    other = optuna.load_study(
        study_name=open_study(request).study_name, storage=open_storage(request.storage, 60)
    )

    def take_away(number: int, epoch: int) -> None:
        if (number, epoch) == (0, 1):
            other.tell(0, state=TrialState.FAIL)

    monkeypatch.setattr(trials._Watcher, "on_epoch", before_every_epoch(take_away))
    study = work(request)
    states = [trial.state for trial in study.get_trials()]
    assert states == [TrialState.FAIL, TrialState.COMPLETE, TrialState.COMPLETE]


def test_workers_that_make_the_same_tables_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def second_to_come(*arguments: Any, **options: Any) -> RDBStorage:
        opened.append(arguments)
        if len(opened) == 1:
            cause = sqlite3.IntegrityError("UNIQUE constraint failed: alembic_version.version_num")
            raise sqlalchemy.exc.IntegrityError("INSERT …", {}, cause)
        if len(opened) == 2:
            cause = sqlite3.OperationalError("table studies already exists")
            raise sqlalchemy.exc.OperationalError("CREATE …", {}, cause)
        return RDBStorage(*arguments, **options)

    monkeypatch.setattr("discrimloss.tuning.storage.RDBStorage", second_to_come)
    assert standing(open_study(request_for(tmp_path))).settled == 0
    assert len(opened) == 3


def test_another_search_may_not_join(tmp_path: Path) -> None:
    open_study(request_for(tmp_path))
    open_study(request_for(tmp_path, "threads=2", "device=cpu"))  # of the machine, not the search
    with pytest.raises(
        DiscrimLossError, match=r"searches something else \(noise.rate was 0.4, now 0.2\)"
    ):
        open_study(request_for(tmp_path, "noise.rate=0.2"))
    with pytest.raises(
        DiscrimLossError, match=r"\(search\.optimizer\.learning_rate was None, now "
    ):
        open_study(request_for(tmp_path, search=("optimizer",)))


def test_a_study_of_someone_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discrimloss.tuning.study.SECONDS_TO_SETTLE", 0.1)
    request = request_for(tmp_path)
    optuna.create_study(study_name="digits", storage=open_storage(request.storage, 60))
    with pytest.raises(DiscrimLossError, match="is not one of `discrimloss tune`"):
        open_study(request)


def test_clean_test_labels_change_nothing_in_the_search(tmp_path: Path) -> None:
    task = load_digits(Path())
    assert task.test is not None
    generator = torch.Generator().manual_seed(0)
    shuffled = task.test.target[torch.randperm(len(task.test), generator=generator)]
    permuted = replace(task, test=Split(task.test.inputs, shuffled))
    studies = []
    for name, data in (("true", task), ("permuted", permuted)):
        (tmp_path / name).mkdir()
        request = request_for(tmp_path / name, search=("all",), trials=3)
        studies.append(work(request, task=data))
    first, second = (study.get_trials() for study in studies)
    assert [t.params for t in first] == [t.params for t in second]
    assert [t.values for t in first] == [t.values for t in second]
    assert [t.intermediate_values for t in first] == [t.intermediate_values for t in second]
    assert studies[0].best_trial.number == studies[1].best_trial.number
    assert [t.user_attrs[TEST] for t in first] != [t.user_attrs[TEST] for t in second]
