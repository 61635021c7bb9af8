"""The contents of a report on a training run, several runs, or an audit."""

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
    """A training run, or the verdicts of an audit with its training run.

    Args:
        name: name of the run.
        summary: its metrics, as in ``summary.json``. May be empty.
        history: a row per epoch.
        samples: a row per sample, in the order of the sample index, with the columns ``id``,
            ``given``, ``suggested``, ``verdict``, ``p_incorrect``, ``weight``, ``average_loss``
            and, if the truth is known, ``is_wrong``; if samples are ranked, ``rank`` (0 is the most
            suspicious). Labels are class names or regression targets. ``suggested`` may be missing
            (None, NaN). None if there are no verdicts.
        traces: losses, weights and predictions of samples in each epoch, if they were recorded.
        traced: the rows of `samples` to which the columns of `traces` belong; None for all rows.
        num_samples: number of samples; None if unknown.
        class_names: names of the classes. Empty for regression.
        is_regression: whether labels are regression targets.
        is_finished: whether the run has ended.
        settings: every setting by its dotted name, e.g. ``noise.rate``.
        gallery: samples to show.
        table: all suspicious samples.
        map: positions of samples on a map of the data.
        notes: notes for the reader.
        health: problems of the data besides its labels; None if it was not checked.
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
        """Return a column of `samples` for samples with traces, or None if it does not exist."""
        if self.samples is None or name not in self.samples:
            return None
        values = self.samples[name].to_numpy()
        return values if self.traced is None else values[self.traced]

    def traced_verdicts(self) -> Names:
        """Return the verdict of each sample with traces."""
        assert self.traces is not None
        verdicts = self.traced_column("verdict")
        if verdicts is None:
            return np.full(self.traces.loss.shape[1], ALL_SAMPLES)
        return np.asarray(verdicts, dtype=np.str_)

    def traced_rows(self) -> Rows:
        """Return the sample index of each sample with traces."""
        assert self.traces is not None
        return np.arange(self.traces.loss.shape[1]) if self.traced is None else self.traced


@dataclass(frozen=True)
class ReportContents:
    """A whole report.

    Args:
        title: heading of the report.
        runs: at least one run. Several runs are compared. For an audit, only the first one is
            shown, because the others differ only in the seed.
        subtitle: one line below the heading.
        is_audit: whether all runs have the same verdicts.
        directory: directory of the audit, for commands. Empty if there is none.
        review_address: address of the review page of this audit. Empty if there is none.
    """

    title: str
    runs: tuple[ReportRun, ...]
    subtitle: str = ""
    is_audit: bool = False
    directory: str = ""
    review_address: str = ""
