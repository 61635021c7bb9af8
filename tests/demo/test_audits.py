"""The audits of the demo: their texts, their wrong labels and how they are scored."""

from pathlib import Path

import numpy as np

from discrimloss.demo.audits import AuditScore, audit_rows, make_wrong
from discrimloss.demo.docstrings import MODULES, load_docstrings


def test_texts_are_balanced_distinct_and_repeatable() -> None:
    texts, labels = load_docstrings(80, seed=3)
    assert (texts, labels) == load_docstrings(80, seed=3)
    assert texts != load_docstrings(80, seed=4)[0]
    assert len(set(texts)) == 80
    assert {labels.count(library) for library in MODULES} == {20}


def test_an_exact_fraction_of_the_labels_is_made_wrong() -> None:
    labels = ["a", "b", "c", "d"] * 10
    given, is_wrong = make_wrong(labels, 0.25, np.random.default_rng(0))
    assert is_wrong.sum() == 10
    assert [g != label for g, label in zip(given, labels, strict=True)] == is_wrong.tolist()
    assert set(given) == set(labels)


def test_a_score_counts_what_is_flagged_and_wrong() -> None:
    score = AuditScore("texts", Path(), 100, 20, 16, 12, 0.18)
    assert score.precision == 0.75
    assert score.recall == 0.6
    nothing = AuditScore("texts", Path(), 100, 0, 0, 0, None)
    assert audit_rows([score, nothing])[2:] == [
        ("flagged labels", "16", "0"),
        ("flagged and wrong (precision), %", "75.0", "–"),
        ("wrong labels found (recall), %", "60.0", "–"),
        ("estimated noise rate (true), %", "18.0 (20.0)", "– (0.0)"),
    ]
