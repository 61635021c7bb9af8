"""`discrimloss.audit`: find the wrong labels of data in memory or on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrimloss.errors import DiscrimLossError, needs_extra

if TYPE_CHECKING:
    from discrimloss.auditing.progress import ObserverOfRun
    from discrimloss.auditing.result import AuditResult


@needs_extra("audit", "an audit")
def audit(
    data: Any,
    label: str | None = None,
    *,
    text: str | None = None,
    image: str | None = None,
    id: str | None = None,
    regression: bool | None = None,
    encoder: str | None = None,
    columns: Sequence[str] | None = None,
    query: str | None = None,
    model: Any = "auto",
    runs: int = 1,
    epochs: int | None = None,
    seed: int = 0,
    threads: int = 0,
    noise_rate: float | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool | ObserverOfRun = True,
) -> AuditResult:
    """Find the wrong labels of a dataset.

    By default, labels are compared with cross-validated predictions of simple models. For images
    without an encoder, for regression targets of texts or images, and for very many classes, they
    are compared with the predictions of a network, which is trained once.

    No clean labels, no noise rate and no hyperparameters are needed. Nothing is written to disk
    unless `out` is given.

    Args:
        data: a pandas DataFrame; a pair ``(X, y)`` of arrays; a ``datasets.Dataset``; a torch
            ``Dataset`` of inputs and labels; or the path of a folder of images, a table, a file of
            features or a saved dataset.
        label: the column with the labels.
        text: the column with the texts to learn from. By default, columns of texts are detected.
        image: the column with images or with their paths.
        id: the column with the ids of the samples. By default, a column that is called ``id`` or
            similar and has a different value in each row. Without such a column, the id is the
            row's position or path.
        regression: whether labels are regression targets. By default, this is detected.
        encoder: a pretrained encoder for texts or images: a folder, ``package:NAME``, a name on
            the hub, or a file with the weights of an EfficientNet-Lite. By default, an encoder
            that is installed (``discrimloss[encoders]``) or in the hub's cache. ``"auto"`` may
            also download one from the hub. ``"none"`` uses no encoder.
        columns: the columns of a table to learn from. By default, all except those that identify
            rows or leak the label. The notes and the summary of the result list the columns and
            how each is read.
        query: the table or query of a database, or the sheet of a workbook.
        model: ``"auto"`` for the models that suit the kind of data best; ``"network"`` for a
            network trained with DiscrimLoss; or a scikit-learn estimator to cross-validate: a
            classifier with ``predict_proba``, or a regressor for regression targets. The
            estimator gets the texts, a data frame of the columns, or the features.
        runs: number of runs to average: cross-validations with different folds, or training runs.
        epochs: number of epochs of each training run. Selects the network.
        seed: seed of the first run.
        threads: number of CPU threads. 0 leaves the choice to torch.
        noise_rate: the fraction of wrong labels, if you know it, for instance because you checked
            100 random labels. By default, it is estimated. The ranking does not depend on it.
        out: a directory for the files of the audit, the same as those of ``discrimloss audit``.
            An audit with a directory can be resumed after a stop.
        resume: whether to resume a stopped audit in `out`.
        overwrite: whether to replace an earlier audit in `out`. It stays until the verdicts of the
            new one are known, or until its network begins to train.
        progress: whether to show a progress bar in a terminal or a notebook. Or a function that
            is called with the number of a run and its epochs, and returns an observer with the
            methods ``on_step(epoch, step, steps, samples)`` and ``on_epoch(row)``.

    Returns:
        The verdicts, the noise rate, a report, a review page and corrected data. See `AuditResult`.

    Raises:
        ValueError: an argument is out of its range.
        DiscrimLossError: the data cannot be audited, or `out` cannot be used. The message says
            what to do.

    Example::

        result = discrimloss.audit(frame, label="topic", text="text")
        result.to_pandas().head()
        fixed = result.apply(accept_suggestions=0.95)
    """
    from discrimloss.auditing.request import AuditSettings
    from discrimloss.auditing.run import run_audit
    from discrimloss.auditing.sources.base import SourceOptions
    from discrimloss.auditing.sources.open_source import absolute, in_python, open_data

    settings = AuditSettings(runs, epochs, seed, threads, model, noise_rate)
    if resume and overwrite:
        raise ValueError("resume continues and overwrite starts over: pass only one of them")
    if out is None and (resume or overwrite):
        raise ValueError("resume and overwrite need out, the directory of the audit")
    path = absolute(data) if isinstance(data, (str, Path)) else ""
    options = SourceOptions(
        path,
        label,
        text,
        image,
        id,
        regression,
        encoder,
        None if columns is None else tuple(columns),
        query,
    )
    try:
        return run_audit(
            lambda cache: open_data(data, options, cache),
            options,
            settings,
            out=None if out is None else Path(out),
            resume=resume,
            overwrite=overwrite,
            progress=progress,
        )
    except DiscrimLossError as error:
        error.args = (in_python(str(error)),)  # names of arguments, not of CLI options
        raise
