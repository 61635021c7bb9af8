"""How far an audit is, for those who have no terminal."""

from __future__ import annotations

import numpy as np
import pytest

from discrimloss.auditing import progress
from discrimloss.auditing.progress import FIRST_LINE, NEXT_LINES, LineObserver, Lines, observing
from discrimloss.auditing.sources.features import cached_rows


class Clock:
    """Shows the time that it is set to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = Lines(clock)
    for clock.now in (1.0, FIRST_LINE - 1, FIRST_LINE, FIRST_LINE + 1, FIRST_LINE + NEXT_LINES):
        lines.on_rows(int(clock.now), 2000)
    assert capsys.readouterr().err.splitlines() == [
        "reading, 10 of 2,000 samples after 10 s",
        "reading, 40 of 2,000 samples after 40 s",
    ]


def test_lines_about_models_count_all_runs(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    observer = LineObserver(Lines(clock), run=2, runs=2, epochs=4)
    clock.now = FIRST_LINE
    observer.on_step(3, 5, 10, 0)
    assert capsys.readouterr().err == "predicting, 81 % after 10 s\n"


def test_features_in_the_making_are_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "FIRST_LINE", 0.0)
    monkeypatch.setattr(progress, "NEXT_LINES", 0.0)
    with observing(True, 1):
        cached_rows(None, 7, lambda first, last: np.zeros((last - first, 2)), 3)
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(" after")[0] for line in said] == [
        "reading, 3 of 7 samples",
        "reading, 6 of 7 samples",
        "reading, 7 of 7 samples",
    ]
    cached_rows(None, 7, lambda first, last: np.zeros((last - first, 2)), 3)
    with observing(False, 1):
        cached_rows(None, 7, lambda first, last: np.zeros((last - first, 2)), 3)
    assert capsys.readouterr().err == ""
