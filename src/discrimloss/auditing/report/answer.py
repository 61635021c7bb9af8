"""The first screen of a report: how many labels are wrong, in which classes, and what to do."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.report import statistics
from discrimloss.auditing.report.contents import ReportContents, ReportRun
from discrimloss.auditing.report.wording import about_minutes, counted, percent, percent_range

MOST_GROUPS = 6
MOST_PAIRS = 3
SECONDS_EACH = 4
"""Estimated time for a decision on a sample."""
MANY = 300
"""From this number of incorrect labels on, the report recommends decisions in groups."""
SURE = 0.95
"""Suggestions with at least this probability can be accepted without a review."""


@dataclass(frozen=True)
class GroupBar:
    """A class, or a range of the target, with its estimated number of wrong labels."""

    name: str
    wrong: str
    """The number, in words."""
    fraction: float
    """Wrong labels as a fraction of the labels of the group."""
    width: float
    """Width of the bar, in percent of the longest one."""


@dataclass(frozen=True)
class Step:
    """A recommended step, and its command."""

    words: str
    command: str = ""


@dataclass(frozen=True)
class Answer:
    """The content of the first screen."""

    sentence: str
    details: list[str]
    groups: list[GroupBar]
    groups_note: str
    pairs: list[tuple[str, str, int]]
    """The most frequent pairs: given class, suggested class, number of incorrect labels."""
    steps: list[Step]


def find_answer(run: ReportRun, contents: ReportContents) -> Answer | None:
    """Return the content of the first screen, or None if there are no verdicts yet."""
    if run.samples is None or not len(run.samples):
        return None
    verdict = run.samples["verdict"].to_numpy().astype(str)
    if (verdict == "unseen").all():
        return None
    rate, interval = noise_of(run)
    incorrect = int((verdict == "incorrect").sum())
    is_known = rate is not None
    groups, groups_note = _groups(run) if is_known else ([], _UNKNOWN)
    return Answer(
        _sentence(rate, interval, "noise_given" in run.summary),
        _details(run, verdict, rate, interval),
        groups,
        groups_note,
        [] if run.is_regression else _pairs(run),
        _steps(run, contents, incorrect, is_known, _hidden(rate, verdict) > 0),
    )


_UNKNOWN = "The distribution of wrong labels over the classes is unknown too."


def noise_of(run: ReportRun) -> tuple[float | None, Sequence[float] | None]:
    """Return the noise rate and its interval from the summary.

    If the summary has no rate, it is the mean label-error probability of all samples with a
    verdict other than "unseen".
    """
    assert run.samples is not None
    if "noise_estimated" in run.summary:
        rate = run.summary["noise_estimated"]
        return (None if rate is None else float(rate)), run.summary.get("noise_interval")
    seen = run.samples[run.samples["verdict"].astype(str) != "unseen"]
    mean = float(seen["p_incorrect"].mean())
    return (mean if mean == mean else None), run.summary.get("noise_interval")


def _sentence(rate: float | None, interval: Sequence[float] | None, is_given: bool) -> str:
    if rate is None:
        return "The number of wrong labels cannot be estimated."
    about = f"About {percent(rate)} of the labels are wrong"
    if is_given:
        return f"{about}, the noise rate that you gave."
    if rate < 0.0005:
        about = "Almost no label is wrong"
    if not interval:
        return f"{about}."
    unbroken = percent_range(interval).replace(" ", "\N{NO-BREAK SPACE}")
    return f"{about} ({unbroken})."


def _details(
    run: ReportRun,
    verdict: npt.NDArray[np.str_],
    rate: float | None,
    interval: Sequence[float] | None,
) -> list[str]:
    samples, seen = len(verdict), int((verdict != "unseen").sum())
    found = []
    if rate is not None:
        number = f"That is about {round(rate * seen):,} of {seen:,} labels"
        if interval:
            number += f", between {round(interval[0] * seen):,} and {round(interval[1] * seen):,}"
        found.append(f"{number}.")
    incorrect = int((verdict == "incorrect").sum())
    if incorrect:
        found.append(f"{counted(incorrect, 'label is', 'labels are')} called incorrect.")
    else:
        found.append("No label is called incorrect.")
    if rest := _hidden(rate, verdict):
        found.append(f"About {rest:,} more are wrong among the other samples.")
    assert run.samples is not None
    if "is_wrong" in run.samples:
        true = int(run.samples["is_wrong"].sum())
        found.append(f"Truly wrong: {true:,} ({percent(true / samples)}).")
    return found


def _hidden(rate: float | None, verdict: npt.NDArray[np.str_]) -> int:
    """Estimate the number of wrong labels not called incorrect. 0 if there are few or no rate."""
    incorrect = int((verdict == "incorrect").sum())
    rest = 0 if rate is None else round(rate * int((verdict != "unseen").sum())) - incorrect
    return rest if rest > max(5, 0.1 * incorrect) else 0


def _groups(run: ReportRun) -> tuple[list[GroupBar], str]:
    """Return the classes with the most wrong labels first, or ranges of a target in order."""
    assert run.samples is not None
    found = statistics.class_noise(run.samples, run.is_regression, MOST_GROUPS, *noise_of(run))
    expected = [group.count * group.estimated for group in found]
    if not run.is_regression:
        order = np.argsort([-number for number in expected], kind="stable")
        found, expected = [found[n] for n in order], [expected[n] for n in order]
    shown, most = found[:MOST_GROUPS], max([*expected, 1e-9])
    bars = [
        GroupBar(
            group.name,
            f"about {number:,.0f} of {group.count:,}{_between(group)}"
            if number >= 0.5
            else f"almost none of {group.count:,}",
            group.estimated,
            100 * number / most if number >= 0.5 else 0.0,
        )
        for group, number in zip(shown, expected, strict=False)
    ]
    if most < 0.5:
        return [], "No range stands out." if run.is_regression else "No class stands out."
    rest = len(found) - len(shown)
    left = sum(expected[MOST_GROUPS:])
    return bars, f"{counted(rest, 'other class has', 'other classes have')} about {left:,.0f}." if (
        rest
    ) else ""


def _between(group: statistics.GroupNoise) -> str:
    if group.interval is None:
        return ""
    low, high = (round(end * group.count) for end in group.interval)
    return f" ({low:,} to {high:,})"


def _pairs(run: ReportRun) -> list[tuple[str, str, int]]:
    assert run.samples is not None
    found = statistics.confusion(run.samples)
    return list(
        zip(found.given, found.suggested, (int(count) for count in found.counts), strict=True)
    )[:MOST_PAIRS]


def _step_without_incorrect(undecided: int, review: str) -> Step:
    if not undecided:
        return Step(
            "No change is necessary. To see the samples whose labels are most likely wrong:",
            review,
        )
    return Step(
        f"Predictions contradict {counted(undecided, 'label')}: either the label or the prediction "
        "is wrong. Review the first of them before you trust the labels:",
        review,
    )


def _steps(
    run: ReportRun,
    contents: ReportContents,
    incorrect: int,
    is_known: bool,
    has_hidden_ones: bool,
) -> list[Step]:
    assert run.samples is not None
    if not contents.is_audit:
        look = "Review the samples below, most suspicious first, and correct labels in your data."
        return [Step(look)] if incorrect else [Step(f"No change is necessary. {look}")]
    place = shlex.quote(contents.directory) if contents.directory else ""
    review = f"discrimloss review {place}" if place else "result.review()"
    steps = []
    if not is_known:
        steps.append(
            Step("Do not drop or relabel anything automatically: the notes below say why.")
        )
    undecided = int((run.samples["verdict"].astype(str) == "undecided").sum())
    if not incorrect:
        return [*steps, _step_without_incorrect(undecided, review)]
    words = (
        f"Review the {counted(incorrect, 'incorrect label')}, most suspicious first. This takes "
        f"about {about_minutes(incorrect * SECONDS_EACH / 60)} at {SECONDS_EACH} seconds each."
    )
    if incorrect >= MANY:
        words += " You can decide on groups of similar samples at once."
    if undecided and has_hidden_ones:
        words += f" Continue with the {undecided:,} undecided ones."
    steps.append(Step(words, review))
    sure = int((run.samples["p_incorrect"].to_numpy(dtype=np.float64) >= SURE).sum())
    if sure:
        apply = (
            f"discrimloss apply {place} --accept-suggestions {SURE}"
            if place
            else f"result.apply(accept_suggestions={SURE})"
        )
        what = "predicted target" if run.is_regression else "suggested class"
        steps.append(
            Step(
                f"Or accept the {what} of {counted(sure, 'label')} with P(wrong) of at least "
                f"{percent(SURE)}. Check a few of them first.",
                apply,
            )
        )
    return steps
