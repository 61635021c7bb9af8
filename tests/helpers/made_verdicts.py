"""Verdicts made by hand."""

import numpy as np

from discrimloss import Verdicts
from discrimloss.judging.verdicts import LABELS, Rule, log_odds

NAN = float("nan")


def make_verdicts(
    labels: list[str],
    p_incorrect: list[float],
    average_loss: list[float] | None = None,
    rule: Rule = "calibrated",
) -> Verdicts:
    return Verdicts(
        code=np.array([LABELS.index(label) for label in labels], dtype=np.int8),
        p_incorrect=np.array(p_incorrect, dtype=np.float32),
        score=log_odds(p_incorrect),
        weight=np.linspace(1.0, 2.0, len(labels), dtype=np.float32),
        average_loss=np.array(average_loss or p_incorrect, dtype=np.float32),
        rule=rule,
    )


def one_of_each() -> Verdicts:
    return make_verdicts(
        ["hard", "easy", "unseen", "incorrect", "easy"], [0.25, 0.0, NAN, 0.75, 0.0]
    )


def assert_same_verdicts(verdicts: Verdicts, expected: Verdicts) -> None:
    assert verdicts.rule == expected.rule
    for name in ("noise_interval", "notes", "ids"):
        assert getattr(verdicts, name) == getattr(expected, name), name
    for name in ("code", "p_incorrect", "score", "weight", "average_loss", "label"):
        np.testing.assert_array_equal(getattr(verdicts, name), getattr(expected, name), name)
    for name in ("given_label", "suggested_label"):
        ours, theirs = getattr(verdicts, name), getattr(expected, name)
        assert (ours is None) == (theirs is None), name
        if ours is not None:
            assert ours.dtype == theirs.dtype, name
            np.testing.assert_array_equal(ours, theirs, name)
