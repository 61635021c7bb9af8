"""Verdicts of several runs as one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_verdicts import NAN, assert_same_verdicts, make_verdicts, one_of_each

from discrimloss import Verdicts
from discrimloss.judging.combine import combine_verdicts


def run(verdicts: list[str], p_incorrect: list[float], suggested: Any) -> Verdicts:
    return replace(
        make_verdicts(verdicts, p_incorrect),
        given_label=list("aaaa")[: len(verdicts)],
        suggested_label=suggested,
        ids=list("wxyz")[: len(verdicts)],
    )


def test_one_run_stays_as_it_is() -> None:
    assert_same_verdicts(combine_verdicts([one_of_each()]), one_of_each())


def test_probabilities_scores_losses_and_weights_are_means() -> None:
    runs = [
        make_verdicts(["easy", "incorrect"], [0.2, 0.9], average_loss=[0.1, 2.0]),
        make_verdicts(["hard", "easy"], [0.4, 0.3], average_loss=[0.5, 1.0]),
    ]
    both = combine_verdicts(runs)
    for name in ("p_incorrect", "score", "average_loss", "weight"):
        expected = np.mean([getattr(one, name) for one in runs], axis=0)
        np.testing.assert_allclose(getattr(both, name), expected, rtol=1e-6)
        assert getattr(both, name).dtype == np.float32
    assert both.noise_rate == pytest.approx(0.45)


def test_verdicts_follow_the_mean_probability_and_then_most_runs() -> None:
    both = combine_verdicts(
        [
            make_verdicts(["easy", "easy", "incorrect", "easy"], [0.1, 0.1, 0.9, 0.4]),
            make_verdicts(["easy", "hard", "hard", "incorrect"], [0.1, 0.1, 0.2, 0.7]),
            make_verdicts(["hard", "hard", "hard", "incorrect"], [0.1, 0.1, 0.2, 0.7]),
        ]
    )
    assert both.verdict.tolist() == ["easy", "hard", "hard", "incorrect"]


def test_the_most_frequent_suggestion_counts() -> None:
    both = combine_verdicts(
        [
            run(["easy"] * 2, [0.1, 0.1], ["a", "b"]),
            run(["easy"] * 2, [0.1, 0.1], ["c", "b"]),
            run(["easy"] * 2, [0.1, 0.1], ["c", "d"]),
        ]
    )
    assert both.suggested_label is not None
    assert both.suggested_label.tolist() == ["c", "b"]
    assert both.ids == ["w", "x"]
    assert both.given_label is not None
    assert both.given_label.tolist() == ["a", "a"]


def test_the_given_label_is_not_suggested_for_one_that_is_incorrect() -> None:
    both = combine_verdicts(
        [
            run(["easy"], [0.45], ["a"]),
            run(["easy"], [0.45], ["a"]),
            run(["incorrect"], [0.99], ["b"]),
        ]
    )
    assert both.verdict.tolist() == ["incorrect"]
    assert both.suggested_label is not None
    assert both.suggested_label.tolist() == ["b"]


def test_suggested_regression_targets_are_averaged() -> None:
    verdicts = make_verdicts(["easy", "easy"], [0.1, 0.2])
    both = combine_verdicts(
        [replace(verdicts, suggested_label=np.array(targets)) for targets in ([1.0, 2.0], [3.0, 8])]
    )
    assert both.suggested_label is not None
    assert both.suggested_label.tolist() == [2.0, 5.0]


def test_a_sample_that_some_runs_have_not_seen() -> None:
    both = combine_verdicts(
        [
            make_verdicts(["unseen", "unseen"], [NAN, NAN]),
            make_verdicts(["incorrect", "unseen"], [0.75, NAN]),
        ]
    )
    assert both.verdict.tolist() == ["incorrect", "unseen"]
    np.testing.assert_array_equal(both.p_incorrect, [0.75, NAN])
    assert both.noise_rate == 0.75


def test_intervals_are_averaged_and_notes_collected() -> None:
    first = replace(one_of_each(), noise_interval=(0.1, 0.3), notes=("One.", "Two."))
    second = replace(one_of_each(), noise_interval=(0.2, 0.5), notes=("Two.", "Three."))
    both = combine_verdicts([first, second])
    assert both.noise_interval == (pytest.approx(0.15), pytest.approx(0.4))
    assert both.notes == ("One.", "Two.", "Three.")
    assert combine_verdicts([first, one_of_each()]).noise_interval is None


def test_what_does_not_combine() -> None:
    with pytest.raises(ValueError, match="no verdicts"):
        combine_verdicts([])
    with pytest.raises(ValueError, match="on 1 and on 5 samples"):
        combine_verdicts([one_of_each(), make_verdicts(["easy"], [0.0])])
