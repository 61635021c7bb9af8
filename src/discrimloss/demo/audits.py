"""Audits images and texts with known wrong labels, and counts how many are found."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.audit import audit
from discrimloss.auditing.result import AuditResult
from discrimloss.demo.docstrings import load_docstrings
from discrimloss.demo.experiment import NoisyDigits
from discrimloss.files.atomic_write import atomic_write

TEXTS = 1200
TEXT_NOISE = 0.1
IMAGE_FILE, TEXT_FILE = "digits.npz", "docstrings.csv"
IMAGE_AUDIT, TEXT_AUDIT = "audit-images", "audit-texts"
NOTHING = "–"


@dataclass(frozen=True)
class AuditScore:
    """The result of an audit, compared with the known wrong labels."""

    title: str
    directory: Path
    samples: int
    wrong_labels: int
    flagged_labels: int
    flagged_and_wrong: int
    estimated_noise_rate: float | None

    @property
    def precision(self) -> float | None:
        """Fraction of the flagged labels that are wrong."""
        return self.flagged_and_wrong / self.flagged_labels if self.flagged_labels else None

    @property
    def recall(self) -> float | None:
        """Fraction of the wrong labels that are flagged."""
        return self.flagged_and_wrong / self.wrong_labels if self.wrong_labels else None


def audit_digits(digits: NoisyDigits, directory: Path, overwrite: bool) -> AuditScore:
    """Write the images and labels of a run to a file, and audit the file."""
    source = directory / IMAGE_FILE
    with atomic_write(source) as unfinished, unfinished.open("wb") as file:
        np.savez(
            file,
            images=(digits.images * 255).round().astype(np.uint8),
            labels=digits.labels.target.numpy(),
            ids=np.array([f"digit {row}" for row in digits.rows]),
        )
    out = directory / IMAGE_AUDIT
    result = audit(source, "labels", id="ids", threads=1, out=out, overwrite=overwrite)
    return _score("digits (images)", out, result, digits.labels.is_wrong.numpy())


def audit_docstrings(
    directory: Path, seed: int, overwrite: bool, samples: int = TEXTS
) -> AuditScore:
    """Write docstrings of four libraries, some with wrong labels, to a CSV file, and audit it."""
    texts, true_labels = load_docstrings(samples, seed)
    labels, is_wrong = make_wrong(true_labels, TEXT_NOISE, np.random.default_rng(seed))
    source = directory / TEXT_FILE
    with (
        atomic_write(source) as unfinished,
        unfinished.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(["text", "library"])
        writer.writerows(zip(texts, labels, strict=True))
    out = directory / TEXT_AUDIT
    result = audit(source, "library", text="text", threads=1, out=out, overwrite=overwrite)
    return _score("docstrings (texts)", out, result, is_wrong)


def make_wrong(
    labels: Sequence[str], fraction: float, generator: np.random.Generator
) -> tuple[list[str], npt.NDArray[np.bool_]]:
    """Replace a fraction of the labels with other classes.

    Returns:
        The new labels, and a mask that is True for wrong ones.
    """
    names = sorted(set(labels))
    given = list(labels)
    is_wrong = np.zeros(len(labels), dtype=bool)
    is_wrong[generator.choice(len(labels), round(fraction * len(labels)), replace=False)] = True
    for position in np.flatnonzero(is_wrong):
        others = [name for name in names if name != labels[position]]
        given[position] = others[generator.integers(len(others))]
    return given, is_wrong


def _score(
    title: str, directory: Path, result: AuditResult, is_wrong: npt.NDArray[np.bool_]
) -> AuditScore:
    is_flagged = result.verdicts.verdict == "incorrect"
    return AuditScore(
        title=title,
        directory=directory,
        samples=len(is_wrong),
        wrong_labels=int(is_wrong.sum()),
        flagged_labels=int(is_flagged.sum()),
        flagged_and_wrong=int((is_flagged & is_wrong).sum()),
        estimated_noise_rate=result.noise_rate,
    )


def audit_rows(scores: Iterable[AuditScore]) -> list[tuple[str, ...]]:
    """Return the rows of the results table: a title, and a cell for each audit."""
    scores = list(scores)
    return [
        ("labels", *(f"{score.samples:,}" for score in scores)),
        ("wrong labels", *(f"{score.wrong_labels:,}" for score in scores)),
        ("flagged labels", *(f"{score.flagged_labels:,}" for score in scores)),
        ("flagged and wrong (precision), %", *(_percent(score.precision) for score in scores)),
        ("wrong labels found (recall), %", *(_percent(score.recall) for score in scores)),
        (
            "estimated noise rate (true), %",
            *(
                f"{_percent(score.estimated_noise_rate)} "
                f"({_percent(score.wrong_labels / score.samples)})"
                for score in scores
            ),
        ),
    ]


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f}"
