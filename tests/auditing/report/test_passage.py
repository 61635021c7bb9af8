"""Texts on cards begin with what their author wrote."""

import pytest

from discrimloss.auditing.report.passage import passage

POST = """From: someone@example.org (Some One)
Subject: Re: engines
Organization: University of
 Somewhere
Lines: 12

The engine stalls.

Why: nobody knows.
"""


def test_headers_of_a_post_are_left_out() -> None:
    assert passage(POST) == "The engine stalls.\n\nWhy: nobody knows."


@pytest.mark.parametrize(
    "text",
    [
        "Note: this text\nAnswer: has lines with colons",
        "Subject: one line only is no header\nand goes on",
        "From: a@b\nSubject: nothing below",
        "plain text",
        "",
        "Score: 3\nTime: 10:30\nthe game ended",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert passage(text) == text


def test_german_headers_and_the_line_of_a_mailbox() -> None:
    assert (
        passage("Von: a@b.de\nBetreff: Auto\n\nIch suche einen Motor.") == "Ich suche einen Motor."
    )
    assert passage("From a@b.de Mon Apr 5 1993\nSubject: car\n\nA motor.") == "A motor."
    assert passage("An: alle\nKein Brief") == "An: alle\nKein Brief"
