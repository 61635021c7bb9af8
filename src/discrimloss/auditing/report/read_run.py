"""Makes the contents of a report from the directory of a training run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discrimloss.auditing.report.contents import ReportRun, Rows
from discrimloss.auditing.report.gallery import View, choose_gallery
from discrimloss.auditing.report.sample_table import make_table
from discrimloss.errors import DiscrimLossError
from discrimloss.judging.verdicts import import_pandas
from discrimloss.training.run_directory import (
    ENVIRONMENT,
    HISTORY_LINES,
    VERDICTS,
    RunDirectory,
    flat,
)
from discrimloss.training.sample_traces import Traces, read_traces, stack_traces

if TYPE_CHECKING:
    import pandas

    from discrimloss.training.config import RunConfig
    from discrimloss.training.run import TrainedRun

MOST_TRACED = 100_000
"""Maximum number of samples whose traces are read, drawn at random. Charts do not show more."""
SUGGESTING_EPOCHS = 5
"""Number of last epochs. The suggested label is the most frequent prediction in these epochs."""


def read_run(directory: Path) -> ReportRun:
    """Read a training run, finished or not. `with_gallery` adds samples to show.

    Args:
        directory: directory of the run.

    Raises:
        DiscrimLossError: the directory has no run, or its files cannot be read.
    """
    run = RunDirectory(directory)
    if not run.holds_run:
        where = "holds no run" if directory.is_dir() else "is not there"
        raise DiscrimLossError(
            f"{directory} {where}: pass the --out directory of `discrimloss train` or "
            "`discrimloss audit`"
        )
    run.require_intact()
    settings = dict(flat(run.config()))
    summary = run.summary() if run.is_finished else _environment(run)
    is_regression = settings.get("loss", "cross_entropy") != "cross_entropy"
    class_names = () if is_regression else tuple(summary.get("class_names") or ())
    samples = _read_samples(run, class_names, is_regression)
    if samples is not None and not is_regression:
        class_names = class_names or _names_in(samples)
    num_samples = None if samples is None else len(samples)
    traces, traced, num_traced = _read_traces(directory, num_samples)
    history = _read_history(run)
    return ReportRun(
        name=directory.absolute().name,
        summary=summary,
        history=history,
        samples=samples,
        traces=traces,
        traced=traced,
        num_samples=num_samples or num_traced,
        class_names=class_names,
        is_regression=is_regression,
        is_finished=run.is_finished,
        settings=settings,
        notes=tuple(summary.get("notes") or ()),
    )


def run_in_memory(name: str, config: RunConfig, run: TrainedRun) -> ReportRun:
    """Return the contents of a report on a training run that was not written to disk.

    Args:
        name: name of the run.
        config: settings of the run.
        run: results of the run.
    """
    traces = chosen = num_samples = None
    if run.traces is not None and run.traces.epochs:
        num_samples = len(next(iter(run.traces.epochs.values()))["loss"])
        chosen = _some_of(num_samples)
        traces = stack_traces(run.traces.epochs.items(), chosen)
    is_regression = config.loss != "cross_entropy"
    return ReportRun(
        name=name,
        summary=run.summary,
        history=run.history,
        samples=None,
        traces=traces,
        traced=chosen,
        num_samples=num_samples,
        class_names=() if is_regression else tuple(run.summary.get("class_names") or ()),
        is_regression=is_regression,
        settings=dict(flat(config.as_dict())),
        notes=tuple(run.summary.get("notes") or ()),
    )


def with_gallery(run: ReportRun, view: View | None, size: int, note: str = "") -> ReportRun:
    """Add samples to show, and a table of all suspicious ones, if the run has verdicts."""
    if run.samples is None:
        return run
    gallery = choose_gallery(run.samples, view, size, note)
    return replace(run, gallery=gallery, table=make_table(run.samples, view))


def _environment(run: RunDirectory) -> dict[str, Any]:
    """Read the facts about an unfinished run, such as its device."""
    try:
        found: dict[str, Any] = json.loads((run / ENVIRONMENT).read_text(encoding="utf-8"))
    except FileNotFoundError:  # stopped before it was written
        return {}
    except (OSError, ValueError) as error:
        raise DiscrimLossError(f"cannot read {run / ENVIRONMENT}: {error}") from error
    return found


def _read_history(run: RunDirectory) -> list[dict[str, Any]]:
    try:
        lines = (run / HISTORY_LINES).read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]
    except FileNotFoundError:  # no epoch is finished
        return []
    except (OSError, ValueError) as error:
        raise DiscrimLossError(f"cannot read {run / HISTORY_LINES}: {error}") from error


def _read_samples(
    run: RunDirectory, class_names: tuple[str, ...], is_regression: bool
) -> pandas.DataFrame | None:
    if not (run / VERDICTS).is_file():
        return None
    pd = import_pandas()
    try:
        verdicts = pd.read_parquet(run / VERDICTS).sort_index()
        verdicts = verdicts.rename(columns={"label": "verdict"})  # its name in 0.1
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise DiscrimLossError(f"cannot read {run / VERDICTS}: {reason}") from error
    missing = [name for name in ("target", "verdict", "p_incorrect") if name not in verdicts]
    if missing:
        raise DiscrimLossError(f"{run / VERDICTS} has no column {', '.join(missing)}: run it again")
    samples: pandas.DataFrame = pd.DataFrame(
        {
            "id": verdicts.index.astype(str),
            "given": _labels(verdicts["target"].to_numpy(), class_names, is_regression),
            "suggested": None,
            "verdict": verdicts["verdict"].astype(str).to_numpy(),
            "p_incorrect": verdicts["p_incorrect"].to_numpy(),
            "weight": verdicts["weight"].to_numpy(),
            "average_loss": verdicts["average_loss"].to_numpy(),
        }
    )
    if "clean_target" in verdicts:
        samples["is_wrong"] = (verdicts["clean_target"] != verdicts["target"]).to_numpy()
    suggested = _suggestions(run.path, len(samples), is_regression)
    if suggested is not None:
        labels = _labels(np.nan_to_num(suggested), class_names, is_regression)
        labels = labels.astype(object)
        labels[np.isnan(suggested)] = None
        samples["suggested"] = labels
    return samples


def _suggestions(run: Path, num_samples: int, is_regression: bool) -> Any:
    """Return the most frequent (or mean) prediction of each sample in the last epochs.

    It is NaN for samples that were not visited in these epochs.
    """
    traces = _traces_or_error(run, None, SUGGESTING_EPOCHS)
    if traces is None or traces.predicted.shape[1] != num_samples:
        return None
    predicted = traces.predicted[::-1]  # the last epoch first: it decides a tie
    seen = ~np.isnan(predicted)
    if is_regression:
        visits = seen.sum(axis=0)
        total = np.where(seen, predicted, 0.0).sum(axis=0)
        return np.where(visits > 0, total / np.maximum(visits, 1), np.nan)
    votes = (predicted[:, None, :] == predicted[None, :, :]).sum(axis=1)
    best = votes.argmax(axis=0)
    return np.take_along_axis(predicted, best[None], axis=0)[0]


def _labels(values: Any, class_names: tuple[str, ...], is_regression: bool) -> Any:
    if is_regression:
        return np.asarray(values, dtype=np.float64)
    positions = np.asarray(values).astype(np.int64)
    if not class_names:
        return positions.astype(str).astype(object)
    return np.array(class_names, dtype=object)[positions]


def _names_in(samples: pandas.DataFrame) -> tuple[str, ...]:
    """Return names for the classes of a dataset without names: the numbers that occur."""
    found = {str(name) for name in samples["given"]}
    found |= {str(name) for name in samples["suggested"] if name is not None}
    return tuple(sorted(found, key=lambda name: (len(name), name)))


def _read_traces(
    run: Path, num_samples: int | None
) -> tuple[Traces | None, Rows | None, int | None]:
    """Return the traces, their samples, and the number of all samples."""
    if num_samples is None:
        newest = _traces_or_error(run, None, 1)
        if newest is None:
            return None, None, None
        num_samples = newest.loss.shape[1]
    chosen = _some_of(num_samples)
    traces = _traces_or_error(run, chosen, None)
    if traces is not None and chosen is None and traces.loss.shape[1] != num_samples:
        raise DiscrimLossError(
            f"{run} has traces of {traces.loss.shape[1]:,} samples and verdicts on "
            f"{num_samples:,}: its files belong to different runs, so run it again"
        )
    return traces, chosen, num_samples


def _some_of(num_samples: int) -> Rows | None:
    """Return the samples whose traces are read, or None for all."""
    if num_samples <= MOST_TRACED:
        return None
    drawn = np.random.default_rng(0).choice(num_samples, MOST_TRACED, replace=False)
    return np.sort(drawn).astype(np.int64)


def _traces_or_error(run: Path, chosen: Rows | None, last: int | None) -> Traces | None:
    try:
        return read_traces(run, chosen, last)
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise DiscrimLossError(f"cannot read the traces in {run}: {error}") from error
