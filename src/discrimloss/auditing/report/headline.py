"""The figures at the top of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discrimloss.auditing.report.comparison import last_and_best
from discrimloss.auditing.report.contents import ReportRun

UNIT = "\N{NO-BREAK SPACE}%"


@dataclass(frozen=True)
class Headline:
    """One figure: a word, a number, and a small line below it."""

    word: str
    number: str
    detail: str = ""
    verdict: str = ""
    """Whose colour it has."""


def headlines(run: ReportRun) -> list[Headline]:
    """What to know first of a run."""
    found = []
    if run.num_samples is not None:
        classes = "" if run.is_regression else _counted(len(run.class_names), "class", "classes")
        found.append(Headline("samples", f"{run.num_samples:,}", classes))
    if run.samples is not None:
        found += _verdict_headlines(run.samples)
    found += _test_headline(run)
    found += _judged_headlines(run.summary)
    ended = int(run.history[-1]["epoch"]) if run.history else 0
    wanted = run.settings.get("epochs") or run.summary.get("epochs") or ended
    seconds = run.summary.get("seconds") or (run.history[-1].get("seconds") if ended else None)
    detail = "" if seconds is None else f"in {duration(float(seconds))}"
    if run.is_finished:
        found.append(Headline("epochs", f"{ended or wanted:,}", detail))
    else:
        found.append(Headline("epochs so far", f"{ended:,} of {wanted:,}", detail))
    return found


def _verdict_headlines(samples: Any) -> list[Headline]:
    verdict = samples["verdict"].to_numpy().astype(str)
    seen = verdict != "unseen"
    found = []
    if seen.any():
        estimated = float(np.mean(samples["p_incorrect"].to_numpy(dtype=np.float64)[seen]))
        true = ""
        if "is_wrong" in samples:
            true = f"truly {percent(float(samples['is_wrong'].mean()))}"
        found.append(Headline("wrong labels, estimated", percent(estimated), true))
    for name in ("incorrect", "hard", "easy", "unseen"):
        number = int((verdict == name).sum())
        if number or name != "unseen":
            share = percent(number / max(len(verdict), 1))
            found.append(Headline(name, f"{number:,}", share, name))
    return found


def _test_headline(run: ReportRun) -> list[Headline]:
    test = last_and_best(run)
    if test is None:
        return []
    last, best = test
    if run.is_regression:
        return [Headline("test error, last epoch", f"{last:.3g}", f"best {best:.3g}")]
    return [Headline("test accuracy, last epoch", f"{last:.1f}{UNIT}", f"best {best:.1f}{UNIT}")]


def _judged_headlines(summary: dict[str, Any]) -> list[Headline]:
    if summary.get("precision") is None or summary.get("recall") is None:
        return []
    auroc = f"AUROC {summary['auroc']:.3f}" if summary.get("auroc") is not None else ""
    numbers = f"{percent(summary['precision'])} / {percent(summary['recall'])}"
    return [Headline("precision / recall", numbers, auroc)]


def percent(share: float) -> str:
    """``12.3 %``; without the decimal where it says nothing."""
    return f"{100 * share:.1f}{UNIT}" if 0.0 < share < 1.0 else f"{100 * share:.0f}{UNIT}"


def duration(seconds: float) -> str:
    """``11 s``, ``4 min``, ``2.5 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}" if number else ""
