from __future__ import annotations

import numpy as np
import pytest
import torch

from discrimloss import find_label_errors
from discrimloss.judging.judgeable import (
    LARGEST_KEPT,
    LEAST_RECOGNISED,
    is_judgeable,
    limit_unrecognised,
    notes_on_small_classes,
    notes_on_unrecognised,
)
from discrimloss.judging.label_errors import HARDLY_ANY_NOISE, LabelErrors

LARGE, RARE = 80, 20


def scores_of_two_classes(recognised: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A large class, and a rare one with rising positive scores of which some are recognised."""
    target = torch.tensor([0] * LARGE + [1] * RARE)
    score = torch.cat([torch.full((LARGE,), 1.0), torch.arange(1.0, RARE + 1)])
    agrees = torch.ones(LARGE + RARE, dtype=torch.bool)
    agrees[LARGE + recognised :] = False
    return score, agrees, target


def test_an_unrecognised_class_keeps_the_worst_labels_that_the_noise_explains() -> None:
    score, agrees, target = scores_of_two_classes(recognised=0)
    limited, classes = limit_unrecognised(score, agrees, target, 2, rate=0.05)
    assert classes == [1]
    kept = int(0.05 * LARGE)  # wrong labels of the other class, drawn evenly
    assert (limited[LARGE:] > 0).tolist() == [False] * (RARE - kept) + [True] * kept
    assert (limited[LARGE : LARGE + RARE - kept] == np.float32(LARGEST_KEPT)).all()
    assert torch.equal(limited[:LARGE], score[:LARGE])
    assert score[LARGE] == 1.0  # the given scores are as they were


@pytest.mark.parametrize("recognised", [round(LEAST_RECOGNISED * RARE), RARE])
def test_a_class_that_is_recognised_is_not_limited(recognised: int) -> None:
    score, agrees, target = scores_of_two_classes(recognised)
    limited, classes = limit_unrecognised(score, agrees, target, 2, rate=0.0)
    assert classes == []
    assert torch.equal(limited, score)


def test_scores_are_limited_class_by_class_whatever_the_order_of_the_rows() -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, 5, (400,), generator=generator)
    score = torch.randn(400, generator=generator)
    agrees = target >= 3  # classes 0, 1 and 2 are not recognised
    limited, classes = limit_unrecognised(score, agrees, target, 5, rate=0.1)
    assert classes == [0, 1, 2]
    for place in range(5):
        own = score[target == place]
        most = len(own) if place >= 3 else int(0.1 * (400 - len(own)) / 4)
        expected = own.sort(descending=True).values[:most].clamp(min=0)
        found = limited[target == place].clamp(min=0).sort(descending=True).values
        assert torch.equal(found[found > 0], expected[expected > 0])
    order = torch.randperm(400, generator=generator)
    shuffled, _ = limit_unrecognised(score[order], agrees[order], target[order], 5, rate=0.1)
    assert torch.equal(shuffled, limited[order])


def test_the_evident_rate_is_the_low_end_where_there_may_be_no_noise() -> None:
    score = torch.full((10,), -2.0)
    label = torch.zeros(10, dtype=torch.int64)
    rate = float(score.sigmoid().mean())
    assert LabelErrors(score, label, (0.01, 0.3)).evident_rate == 0.01
    assert LabelErrors(score, label, (HARDLY_ANY_NOISE, 0.3)).evident_rate == pytest.approx(rate)
    assert LabelErrors(score, label).evident_rate == pytest.approx(rate)


def test_the_note_names_classes_only_if_labels_were_limited() -> None:
    assert notes_on_unrecognised([], ["a", "b"]) == []
    (note,) = notes_on_unrecognised([1], ["a", "b"])
    assert "this class: 'b'." in note


def test_genuine_samples_of_a_class_that_predictions_never_expect_are_not_called_incorrect() -> (
    None
):
    """A rare class without a trace in the inputs, beside 1 % wrong labels of clear classes."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, 1500)
    pred_probs = np.full((1500, 4), 0.01)
    pred_probs[np.arange(1500), true] = 0.97
    labels = true.copy()
    wrong, rare = slice(0, 15), slice(15, 45)
    labels[wrong] = (labels[wrong] + 1) % 3
    labels[rare] = 3
    found = find_label_errors(labels, pred_probs=pred_probs)
    frame = found.to_pandas().sort_values("id")
    is_incorrect = (frame["verdict"] == "incorrect").to_numpy()
    assert is_incorrect[wrong].mean() >= 0.9
    # The inputs say that all 30 belong to other classes; so does the noise of the rest to a few.
    assert is_incorrect[rare].mean() <= 0.5
    assert any("hardly recognise this class: '3'" in note for note in found.notes)


@pytest.mark.parametrize(
    ("counts", "fewest"),
    [((1000, 200, 9, 10), 10), ((7, 8, 6, 5, 3), 3), ((16, 14, 7, 11), 6), ((1, 2, 2, 2, 3), 3)],
)
def test_how_many_labels_a_class_needs_depends_on_the_other_classes(
    counts: tuple[int, ...], fewest: int
) -> None:
    target = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    judged = is_judgeable(target, len(counts))
    assert [bool(judged[target == place].all()) for place in range(len(counts))] == [
        count >= fewest for count in counts
    ]
    notes = notes_on_small_classes(target, [f"{count} rows" for count in counts])
    small = [count for count in counts if count < fewest]
    assert len(notes) == bool(small)
    for count in small[:5]:
        assert f"'{count} rows' ({count})" in notes[0]
        assert f"At least {fewest} samples" in notes[0]
