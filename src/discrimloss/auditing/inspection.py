"""What an audit finds besides verdicts: the health of the data, and evidence for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor

from discrimloss.auditing.evidence.clues import Clues, column_clues, word_clues
from discrimloss.auditing.evidence.explain import Basis, Learned, MakeClues, Rows, find_evidence
from discrimloss.auditing.evidence.learning import learning_sentence
from discrimloss.auditing.evidence.why import Evidence
from discrimloss.auditing.health.check import check_health, compare_samples
from discrimloss.auditing.health.data_health import DataHealth
from discrimloss.auditing.out_of_fold.choose import ComparedInputs
from discrimloss.auditing.report.contents import ReportRun
from discrimloss.auditing.sources.base import AuditSource
from discrimloss.auditing.sources.columns import Columns
from discrimloss.auditing.sources.text import Texts
from discrimloss.judging.verdicts import Verdicts
from discrimloss.training.sample_traces import Traces, read_traces


def inspect_samples(
    source: AuditSource,
    inputs: ComparedInputs,
    verdicts: Verdicts,
    log_probabilities: Tensor | None = None,
    runs: Sequence[ReportRun | Path] = (),
) -> tuple[DataHealth, Evidence]:
    """Compare the samples with each other, to find problems of the data and to explain verdicts.

    Args:
        source: the audited source.
        inputs: the inputs by which samples are compared.
        verdicts: the verdicts of the audit, with ids and labels.
        log_probabilities: shape (samples, classes): predictions by models that were not trained
            on the sample, if there are any.
        runs: training runs of a network: in memory, or their directories.
    """
    compared = compare_samples(source, inputs.values, inputs.by_angle)
    health = check_health(source, compared, inputs.values)
    is_text = isinstance(source.contents, Texts)
    evidence = find_evidence(
        Basis(
            verdicts,
            source.target.numpy(),
            source.class_names,
            compared,
            None if log_probabilities is None else log_probabilities.numpy(),
            _clues(source, inputs),
            "Words" if is_text else "Columns",
            _learned(source, runs),
        )
    )
    return health, evidence


def _clues(source: AuditSource, inputs: ComparedInputs) -> MakeClues | None:
    contents, ngrams = source.contents, inputs.ngrams
    target = source.target.numpy()
    if isinstance(contents, Texts) and ngrams is not None:
        texts = contents.texts

        def of_words(rows: Rows, suggested: Rows, trusted: npt.NDArray[np.bool_]) -> list[Clues]:
            return word_clues(
                ngrams.matrix,
                lambda row: ngrams.names(texts[row]),
                target,
                trusted,
                rows,
                suggested,
            )

        return of_words
    if isinstance(contents, Columns):
        frame = contents.raw_inputs()
        names = source.class_names
        return lambda rows, suggested, trusted: column_clues(
            frame, target, names, trusted, rows, suggested
        )
    return None


def _learned(source: AuditSource, runs: Sequence[ReportRun | Path]) -> Learned | None:
    """Return a function that describes how the first run learned each sample.

    Return None if there is no run, or for regression.
    """
    if not runs or source.is_regression:
        return None
    run = runs[0]
    target = source.target.numpy()

    def of_rows(rows: Rows) -> list[str | None]:
        traces, place = _traces(run, rows)
        if traces is None:
            return [None] * len(rows)
        return [
            None
            if row not in place
            else learning_sentence(
                traces.predicted[:, place[row]],
                traces.epochs,
                int(target[row]),
                source.class_names,
            )
            for row in rows.tolist()
        ]

    return of_rows


def _traces(run: ReportRun | Path, rows: Rows) -> tuple[Traces | None, dict[int, int]]:
    """Return the traces of a run, and the column of each sample in them."""
    if isinstance(run, Path):
        return read_traces(run, rows), {row: place for place, row in enumerate(rows.tolist())}
    if run.traces is None:
        return None, {}
    return run.traces, {row: place for place, row in enumerate(run.traced_rows().tolist())}
