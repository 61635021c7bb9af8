"""The table of suspicious samples: which ones, how much of each, and never too large."""

from typing import Any

import numpy as np
import pytest
from report_runs import made_run, picture_view

from discrimloss.auditing.report import sample_table
from discrimloss.auditing.report.page import safe_json
from discrimloss.auditing.report.sample_table import make_table
from discrimloss.auditing.sources.contents import SampleView


def samples_of(number: int = 400) -> Any:
    samples = made_run(number, epochs=1).samples
    assert samples is not None
    return samples


def test_it_has_all_suspicious_samples_worst_first() -> None:
    samples = samples_of()
    table = make_table(samples, None)
    incorrect = samples[samples["verdict"] == "incorrect"]
    doubted = int(samples["verdict"].isin(["incorrect", "hard"]).sum())
    assert table.rows == table.suspicious >= max(100, doubted)
    assert table.columns["verdict"][: len(incorrect)] == ["incorrect"] * len(incorrect)
    assert set(table.columns["id"]) >= set(samples[samples["verdict"] == "hard"]["id"])
    row = table.columns["index"][0]
    names = table.columns["labels"]
    assert names[table.columns["given"][0]] == samples["given"][row]
    assert names[table.columns["suggested"][0]] == samples["suggested"][row]
    assert table.columns["p"][0] == pytest.approx(1000 * samples["p_incorrect"][row], abs=0.5)


def test_a_clean_set_still_has_a_hundred_samples() -> None:
    table = make_table(samples_of().assign(verdict="easy"), None)
    assert table.rows == 100


def test_beyond_its_room_it_takes_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_table, "MOST_ROWS", 30)
    table = make_table(samples_of(), None)
    assert table.rows == 30
    assert f"The table has the 30 most suspicious of {table.suspicious} samples." in table.note


@pytest.mark.parametrize("letter", ["x", "ж", "漢"])
def test_texts_are_cut_to_the_room_there_is(monkeypatch: pytest.MonkeyPatch, letter: str) -> None:
    monkeypatch.setattr(sample_table, "BYTES", 60_000)
    table = make_table(samples_of(), lambda row: SampleView(text=letter * 5_000), is_text=True)
    assert len(table.columns["text"]) == table.rows
    assert len(safe_json(table.columns).encode()) < 60_000
    few = make_table(samples_of(20), lambda row: SampleView(text="word " * 200), is_text=True)
    assert few.columns["text"][0] == "word " * 200


def test_fields_have_their_names_once() -> None:
    def view(row: int) -> SampleView:
        return SampleView(fields=(("age", str(row)), ("city", "x" * 500)))

    columns = make_table(samples_of(50), view).columns
    assert columns["field_names"] == ["age", "city"]
    assert columns["fields"][0][0] == str(columns["index"][0])
    assert len(columns["fields"][0][1]) == 60


def test_pictures_are_those_of_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_table, "MOST_PICTURES", 7)
    table = make_table(samples_of(), picture_view)
    assert len(table.columns["picture"]) == 7
    assert table.columns["picture"][0].startswith("data:image/png;base64,")
    assert table.note.startswith("Pictures of the 7 most suspicious")


def test_regression_targets_and_missing_suggestions() -> None:
    samples = made_run(60, epochs=1, regression=True).samples
    assert samples is not None
    columns = make_table(samples.assign(suggested=np.nan), None).columns
    assert set(columns["suggested"]) == {-1}
    safe_json(columns)


def test_numbers_are_those_of_the_cards() -> None:
    frame = (
        samples_of()
        .head(4)
        .assign(
            p_incorrect=[1.0, 0.99999, 0.97449, 0.0002], average_loss=[4.3351, 1234.5, 0.0, np.nan]
        )
    )
    columns = make_table(frame, None).columns
    by_row = sorted(zip(columns["index"], columns["p"], columns["loss"], strict=True))
    assert by_row == [(0, 1000, 4.34), (1, 999.9, 1234.0), (2, 974, 0.0), (3, 0.4, None)]
