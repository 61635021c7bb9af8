"""What a report shows, wherever it came from: a training run, several of them, an audit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.health.data_health import DataHealth
from discrimloss.auditing.report.gallery import Gallery

if TYPE_CHECKING:
    import pandas

    from discrimloss.auditing.report.map_of_data import DataMap
    from discrimloss.auditing.report.sample_table import SampleTable
    from discrimloss.training.sample_traces import Traces

Rows = npt.NDArray[np.int64]
Names = npt.NDArray[np.str_]

ALL_SAMPLES = "all samples"
"""The group of samples without verdicts, such as those of an unfinished run."""


@dataclass(frozen=True)
class ReportRun:
    """A training run, or an audit's verdicts with the run behind them.

    Args:
        name: what to call it.
        summary: its metrics, as in ``summary.json``; may be empty.
        history: a row per epoch.
        samples: a row per sample, in the order of the sample index, with the columns ``id``,
            ``given``, ``suggested``, ``verdict``, ``p_incorrect``, ``weight``, ``average_loss``
            and, where the truth is known, ``is_wrong``; where samples are ranked, ``rank`` (0 is
            the worst). Labels are names of classes, or regression targets; ``suggested`` may be
            missing (None, NaN). None where there are no verdicts.
        traces: losses, weights and predictions of samples in each epoch, where they were kept.
        traced: which rows of `samples` the columns of `traces` belong to; None for all of them.
        num_samples: their number; None where it is not known.
        class_names: empty for a regression.
        is_regression: whether labels are regression targets.
        is_finished: whether the run has ended.
        settings: every setting by its dotted name, e.g. ``noise.rate``.
        gallery: samples to look at.
        table: all suspicious samples.
        map: where samples lie among the others.
        notes: what the reader should know.
        health: what is wrong with the data besides its labels; None if it was not checked.
    """

    name: str
    summary: dict[str, Any]
    history: list[dict[str, Any]]
    samples: pandas.DataFrame | None
    traces: Traces | None = None
    traced: Rows | None = None
    num_samples: int | None = None
    class_names: tuple[str, ...] = ()
    is_regression: bool = False
    is_finished: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    gallery: Gallery | None = None
    table: SampleTable | None = None
    map: DataMap | None = None
    notes: tuple[str, ...] = ()
    health: DataHealth | None = None

    @property
    def metric(self) -> str:
        """The metric of predictions: ``mae`` or ``accuracy``."""
        return "mae" if self.is_regression else "accuracy"

    def traced_column(self, name: str) -> Any:
        """A column of `samples` for the samples that have traces, or None if there is none."""
        if self.samples is None or name not in self.samples:
            return None
        values = self.samples[name].to_numpy()
        return values if self.traced is None else values[self.traced]

    def traced_verdicts(self) -> Names:
        """The verdict of each sample that has traces."""
        assert self.traces is not None
        verdicts = self.traced_column("verdict")
        if verdicts is None:
            return np.full(self.traces.loss.shape[1], ALL_SAMPLES)
        return np.asarray(verdicts, dtype=np.str_)

    def traced_rows(self) -> Rows:
        """The sample index of each sample that has traces."""
        assert self.traces is not None
        return np.arange(self.traces.loss.shape[1]) if self.traced is None else self.traced


@dataclass(frozen=True)
class ReportContents:
    """A whole report.

    Args:
        title: its heading.
        runs: at least one. Several runs are compared, unless it is an audit, where the first one
            represents the others, which differ only in the seed.
        subtitle: one line below the heading.
        is_audit: whether runs share their verdicts.
        directory: of the audit, for commands; empty where there is none.
        review_address: where the review page of this audit is; empty where there is none.
    """

    title: str
    runs: tuple[ReportRun, ...]
    subtitle: str = ""
    is_audit: bool = False
    directory: str = ""
    review_address: str = ""
