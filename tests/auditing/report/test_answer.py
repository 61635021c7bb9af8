"""The first screen: how many labels are wrong, in which classes, what to do."""

from typing import Any

import pandas
import pytest
from report_runs import made_run

from discrimloss.auditing.report.answer import Answer, find_answer
from discrimloss.auditing.report.contents import ReportContents
from discrimloss.auditing.report.wording import (
    about_minutes,
    counted_percent,
    duration,
    percent,
    probability_percent,
    rate_text,
)


def answer_of(**changes: Any) -> Answer:
    run = made_run(truth=False, **changes)
    found = find_answer(run, ReportContents("", (run,), is_audit=True, directory="my audit"))
    assert found is not None
    return found


def test_it_has_the_rate_of_the_summary_with_its_interval() -> None:
    found = answer_of(summary={"noise_estimated": 0.25, "noise_interval": [0.2, 0.35]})
    assert found.sentence.replace("\N{NO-BREAK SPACE}", " ") == (
        "About 25.0 % of the labels are wrong (20.0 % to 35.0 %)."
    )
    assert found.details[0] == "That is about 30 of 120 labels, between 24 and 42."
    assert found.steps[0].command == "discrimloss review 'my audit'"
    assert "--accept-suggestions 0.95" in found.steps[1].command
    assert 1 <= len(found.groups) <= 6
    assert max(group.width for group in found.groups) == 100
    assert found.pairs[0][2] >= found.pairs[-1][2]


def test_without_a_rate_nothing_is_advised_that_changes_data() -> None:
    found = answer_of(summary={"noise_estimated": None})
    assert "cannot be estimated" in found.sentence
    assert found.groups == []
    assert found.steps[0].words.startswith("Do not drop or relabel anything automatically")


def test_nothing_has_to_be_changed_where_nothing_is_incorrect() -> None:
    samples = made_run(truth=False).samples
    assert samples is not None
    clean = samples.assign(verdict="easy", p_incorrect=0.0001)
    summary = {"noise_estimated": 0.0001, "noise_interval": [0.0, 0.01]}
    found = answer_of(samples=clean, summary=summary)
    assert found.sentence.startswith("Almost no label is wrong (0")
    assert "No label is called incorrect." in found.details
    assert found.steps[0].words.startswith("No change is necessary.")
    assert not any("apply" in step.command for step in found.steps)


def test_undecided_labels_are_not_said_to_be_right() -> None:
    samples = made_run(truth=False).samples
    assert samples is not None
    open_ones = samples.assign(verdict=["undecided"] * 30 + ["easy"] * 90, p_incorrect=0.01)
    found = answer_of(samples=open_ones, summary={"noise_estimated": 0.001})
    assert [step.words[:40] for step in found.steps] == ["Predictions contradict 30 labels: either"]
    assert found.steps[0].command == "discrimloss review 'my audit'"


def test_undecided_labels_come_next_where_wrong_ones_hide_among_them() -> None:
    samples = made_run(truth=False).samples
    assert samples is not None
    verdicts = ["incorrect"] * 10 + ["undecided"] * 20 + ["easy"] * 90
    hidden = answer_of(samples=samples.assign(verdict=verdicts), summary={"noise_estimated": 0.2})
    assert "Continue with the 20 undecided ones." in hidden.steps[0].words
    found = answer_of(samples=samples.assign(verdict=verdicts), summary={"noise_estimated": 0.08})
    assert "undecided" not in found.steps[0].words


def test_many_labels_take_hours_and_come_in_groups() -> None:
    samples = made_run(truth=False).samples
    assert samples is not None
    many = pandas.concat([samples] * 50, ignore_index=True).assign(verdict="incorrect")
    words = answer_of(samples=many, summary={"noise_estimated": 0.9}).steps[0].words
    assert "6,000 incorrect labels, most suspicious first. This takes about 7 hours" in words
    assert "You can decide on groups of similar samples at once." in words


def test_an_unfinished_run_has_no_answer() -> None:
    run = made_run(samples=None)
    assert find_answer(run, ReportContents("", (run,))) is None


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (percent(0.123), "12.3 %"),
        (percent(0.0), "0 %"),
        (percent(1.0), "100 %"),
        (percent(0.0001), "< 0.1 %"),
        (percent(0.99958), "> 99.9 %"),
        (probability_percent(1.0), "> 99.9 %"),
        (probability_percent(0.0), "< 0.1 %"),
        (about_minutes(0.2), "1 minute"),
        (about_minutes(100), "100 minutes"),
        (counted_percent(512, 5000), "512 (10.2 %)"),
        (rate_text(0.11, (0.075, 0.151)), "11.0 % (7.5 % to 15.1 %)"),
        (rate_text(None, None), "not known"),
        (duration(68.84), "68.8 s"),
        (duration(9000), "9,000.0 s (2.5 h)"),
    ],
)
def test_numbers_are_written_in_one_way(shown: str, text: str) -> None:
    assert shown.replace("\N{NO-BREAK SPACE}", " ") == text
