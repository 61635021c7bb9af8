"""The noise rate from decisions on random samples."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_fixtures import MadeAudit, made_audit

from discrimloss.auditing.review.orders import RANDOM
from discrimloss.auditing.review.queue import Filter
from discrimloss.auditing.review.session import ReviewSession
from discrimloss.auditing.review.spot_check import SpotCheck, count_spot_check


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MadeAudit:
    return made_audit(monkeypatch, tmp_path, number=60, labels=("a", "b", "c"))


def decide(session: ReviewSession, index: int, action: str, **more: Any) -> None:
    event = {"event": f"e{index}{action}", "tab": "t", "action": action}
    session.decide({**event, "index": index, "seen": None, **more})


def asked(session: ReviewSession, near: int | None = None) -> dict[str, Any]:
    return session.samples(Filter(None), 0 if near is None else None, near, 60, RANDOM)


def test_the_order_is_random_and_the_same_in_every_review(audit: MadeAudit) -> None:
    session = audit.session()
    first = [row["index"] for row in asked(session)["rows"]]
    session.close()
    session = audit.session()
    assert [row["index"] for row in asked(session)["rows"]] == first
    assert sorted(first) == list(range(60))
    ranks = session.queue.rank_of[first]
    assert abs(np.corrcoef(ranks, np.arange(60))[0, 1]) < 0.4  # the verdicts do not decide
    assert "group" not in asked(session, first[3])
    session.close()


def test_only_decisions_before_the_first_open_sample_count(audit: MadeAudit) -> None:
    session = audit.session()
    rows = asked(session)["rows"]
    assert asked(session)["spot_check"] == {"checked": 0, "wrong": 0, "interval": [0.0, 1.0]}
    for place, row in enumerate(rows[:8]):
        other = next(name for name in "abc" if name != row["given"])
        if place == 2:
            decide(session, row["index"], "relabel", label=other)
        elif place == 4:
            decide(session, row["index"], "skip")
        elif place == 5:
            decide(session, row["index"], "drop")
        elif place != 6:
            decide(session, row["index"], "keep")
    found = asked(session)["spot_check"]
    assert (found["checked"], found["wrong"]) == (5, 2)  # neither the skipped one nor the last
    low, high = found["interval"]
    assert 0.0 < low < 0.4 < high < 1.0
    assert "spot_check" not in session.samples(Filter(None), 0, None, 60)
    session.close()


@pytest.mark.parametrize(("wrong", "checked"), [(0, 100), (3, 100), (30, 100), (100, 100), (1, 1)])
def test_the_interval_holds_rates_under_which_the_count_is_likely(wrong: int, checked: int) -> None:
    low, high = SpotCheck(checked, wrong).interval
    assert 0.0 <= low <= wrong / checked <= high <= 1.0
    for rate, sign in ((low, 1.0), (high, -1.0)):
        if 0.0 < rate < 1.0:  # an end is 1.645 standard deviations from the count
            deviation = np.sqrt(rate * (1.0 - rate) / checked)
            assert sign * (wrong / checked - rate) == pytest.approx(1.645 * deviation)


def test_reopened_samples_end_the_count() -> None:
    assert count_spot_check(["keep", "relabel", None, "keep"]) == SpotCheck(2, 1)
    assert count_spot_check([]) == SpotCheck(0, 0)
