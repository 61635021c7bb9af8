"""Verdicts on labels, in the schema that every part of the library reads and writes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor

from discrimloss.errors import needs_extra
from discrimloss.files.atomic_write import atomic_write
from discrimloss.state.sample_ids import SampleId

if TYPE_CHECKING:
    import pandas

Rule = Literal["calibrated", "threshold"]

RULES = ("calibrated", "threshold")
LABELS = ("easy", "hard", "undecided", "incorrect", "unseen")
EASY, HARD, UNDECIDED, INCORRECT, UNSEEN = range(5)
INCORRECT_ABOVE = 0.5
"""A label is called incorrect if its probability of being wrong is above this."""
HARD_BELOW = 0.1
"""Largest probability of a hard sample. From this to `INCORRECT_ABOVE`, it is undecided."""
CANNOT_TELL = (
    "The predictions say too little about the labels to tell which of them are wrong, or how many."
)
"""The note of verdicts without a noise rate."""
LARGEST_LOG_ODDS = 120.0
"""Largest absolute score. Probabilities of 1 and 0 get this score and its negative."""


@dataclass(frozen=True, repr=False, eq=False)
class Verdicts:
    """One verdict per sample, in the order of the sample index.

    A criterion, a training run, an audit and `find_label_errors` all return this class. Fields that
    are not known are None: a criterion that sees only losses has no labels, and `find_label_errors`
    has no weights.

    Samples that were never in a training batch have the verdict ``"unseen"``. Their probability,
    score and average loss are NaN.
    """

    code: npt.NDArray[np.int8]
    """Position of each verdict in `LABELS`."""
    p_incorrect: npt.NDArray[np.float32]
    """Probability that the label is incorrect."""
    score: npt.NDArray[np.float32]
    """Log-odds that the label is incorrect. They rank samples whose probabilities round to 1."""
    average_loss: npt.NDArray[np.float32] | None = None
    """Moving average of the sample's loss, or its loss under the given predictions."""
    weight: npt.NDArray[np.float32] | None = None
    """``delta``. 1 is neutral; the larger, the smaller the sample's gradient."""
    given_label: npt.NDArray[Any] | None = None
    """Labels in the data: names (str objects), int64 positions or float64 regression targets."""
    suggested_label: npt.NDArray[Any] | None = None
    """The most probable label, of the same type as `given_label`. It differs from the given label
    if the verdict is incorrect."""
    ids: Sequence[SampleId] | None = None
    """Ids of the samples."""
    rule: Rule = "calibrated"
    """The rule for verdicts. See `DiscrimLoss.verdicts`."""
    noise_interval: tuple[float, float] | None = None
    """Interval that contains the fraction of wrong labels with a probability of about 90 %."""
    notes: tuple[str, ...] = ()
    """Sentences that describe limits of these verdicts."""
    can_tell_noise: bool = True
    """Whether `noise_rate` can be estimated. False if the predictions or losses carry too little
    information about the labels."""

    def __post_init__(self) -> None:
        for name in ("p_incorrect", "score", "average_loss", "weight"):
            _require_length(name, getattr(self, name), len(self.code))
        for name in ("given_label", "suggested_label"):
            labels = getattr(self, name)
            if labels is not None:
                labels = label_array(labels)
                _require_length(name, labels, len(self.code))
                object.__setattr__(self, name, labels)
        _require_length("ids", self.ids, len(self.code))

    def __len__(self) -> int:
        return len(self.code)

    @cached_property
    def verdict(self) -> npt.NDArray[np.str_]:
        """``"easy"``, ``"hard"``, ``"undecided"``, ``"incorrect"`` or ``"unseen"``."""
        return np.array(LABELS)[self.code]

    @property
    def label(self) -> npt.NDArray[np.str_]:
        """Another name of `verdict`, from version 0.1."""
        return self.verdict

    @property
    def counts(self) -> dict[str, int]:
        """Number of samples with each verdict."""
        number = np.bincount(self.code, minlength=len(LABELS))
        return {label: int(number[code]) for code, label in enumerate(LABELS)}

    @property
    def noise_rate(self) -> float | None:
        """Estimated fraction of wrong labels: the mean of `p_incorrect` over the samples seen.

        None if no sample was seen or if `can_tell_noise` is False.
        """
        seen = self.p_incorrect[self.code != UNSEEN]
        can_tell = self.can_tell_noise and len(seen) > 0
        return float(seen.mean(dtype=np.float64)) if can_tell else None

    @property
    def estimated_noise_rate(self) -> float:
        """The old name of `noise_rate`, from version 0.1. NaN instead of None."""
        warnings.warn(
            "estimated_noise_rate is now noise_rate; the old name will be removed in 0.3",
            DeprecationWarning,
            stacklevel=2,
        )
        return float("nan") if self.noise_rate is None else self.noise_rate

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """Sample indices, most suspicious first: by score, then average loss. Unseen last."""
        return np.concatenate(
            [self._worst_first(self._seen()), np.flatnonzero(self.code == UNSEEN)]
        )

    def most_suspicious(self, number: int) -> npt.NDArray[np.int64]:
        """Return the indices of the samples whose labels are most likely wrong, worst first.

        Args:
            number: maximum number of samples. Unseen samples are left out.
        """
        if number < 0:
            raise ValueError(f"number must not be negative, but is {number}")
        candidates = self._seen()
        if 0 < number < len(candidates):  # sort no more than the top
            score = self.score[candidates]
            candidates = candidates[score >= np.partition(score, -number)[-number]]
        return self._worst_first(candidates)[:number]

    def _seen(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self.code != UNSEEN)

    def _worst_first(self, candidates: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        keys: list[npt.NDArray[Any]] = [candidates, -self.score[candidates]]
        if self.average_loss is not None:
            keys.insert(1, -self.average_loss[candidates])
        worst: npt.NDArray[np.int64] = candidates[np.lexsort(keys)]
        return worst

    # `judging.frames` imports this module, so these methods import it when they are called.

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with one row per sample, in the order of the sample index.

        Its columns are ``id``, ``given_label``, ``suggested_label``, ``verdict``, ``p_incorrect``,
        ``score``, ``average_loss`` and ``weight``. Unknown values are null. ``attrs`` has ``rule``,
        ``noise_rate``, ``noise_interval`` and ``notes``; Parquet files keep them.
        """
        from discrimloss.judging.frames import verdicts_to_frame

        return verdicts_to_frame(self)

    @classmethod
    def from_pandas(cls, frame: pandas.DataFrame, rule: Rule | None = None) -> Verdicts:
        """Read verdicts from a data frame. The inverse of `to_pandas`.

        The frame needs the columns ``verdict`` and ``p_incorrect``. Other columns of `to_pandas`
        are read if present, and all others are ignored. Rows may be in any order if the sample
        index is in a column ``index`` or is the index of the frame. Frames of version 0.1 can be
        read too: they call the verdict ``label`` and have ids as their index.

        Args:
            frame: a frame as `to_pandas` returns it.
            rule: the rule that made the verdicts. By default that in the frame's ``attrs``, or
                ``"calibrated"`` if there is none.
        """
        from discrimloss.judging.frames import verdicts_from_frame

        return verdicts_from_frame(frame, rule)

    def to_parquet(self, path: str | Path, **further: Sequence[Any]) -> None:
        """Write `to_pandas()` to a Parquet file. The write is atomic.

        Args:
            path: the file.
            further: additional columns, one value per sample. `from_parquet` ignores them.
        """
        with atomic_write(Path(path)) as unfinished:
            self.to_pandas().assign(**further).to_parquet(unfinished)

    @classmethod
    def from_parquet(cls, path: str | Path) -> Verdicts:
        """Read the verdicts that `to_parquet`, a training run or an audit wrote."""
        return cls.from_pandas(import_pandas().read_parquet(path))

    def to_csv(self, path: str | Path, **further: Sequence[Any]) -> None:
        """Write a CSV file for spreadsheets, most suspicious first. The write is atomic.

        It has the columns of `to_pandas`, and ``index``, the position of the sample.

        Args:
            path: the file.
            further: additional columns, one value per sample.
        """
        frame = self.to_pandas().assign(index=np.arange(len(self)), **further).iloc[self.order]
        with atomic_write(Path(path)) as unfinished:
            frame.to_csv(unfinished, index=False, float_format="%.6g")

    def to_cleanlab(
        self, given_label: Any | None = None, predicted_label: Any | None = None
    ) -> pandas.DataFrame:
        """Return the data frame of cleanlab's ``Datalab.get_issues("label")``, one row per sample.

        ``is_label_issue`` is true if the verdict is incorrect. ``label_score`` is
        ``1 - p_incorrect``, so a low score is bad. An unseen sample is no issue and has the score
        1.

        Args:
            given_label: the labels in the data, one per sample: positions, names or regression
                targets. By default those of the verdicts.
            predicted_label: a model's prediction for each sample. By default `suggested_label`.
                If a column is not known, the frame does not have it.
        """
        from discrimloss.judging.frames import verdicts_to_cleanlab

        return verdicts_to_cleanlab(self, given_label, predicted_label)

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{number} {label} ({number / max(len(self), 1):.1%})"
            for label, number in self.counts.items()
            if number or label not in ("undecided", "unseen")
        )
        rate = "noise rate unknown"
        if self.noise_rate is not None:
            rate = f"estimated noise rate {self.noise_rate:.1%}"
        if self.noise_interval is not None:
            low, high = self.noise_interval
            rate += f" ({low:.1%} to {high:.1%})"
        notes = "".join(f"\n  note: {note}" for note in self.notes)
        return f"Verdicts({len(self)} samples: {counts}; {rate}; rule={self.rule!r}{notes})"


def log_odds(probability: Any) -> npt.NDArray[np.float32]:
    """Return finite log-odds of probabilities, float32. NaN stays NaN."""
    p = np.asarray(probability, dtype=np.float64)
    with np.errstate(divide="ignore"):
        odds = np.log(p) - np.log1p(-p)
    return np.asarray(np.clip(odds, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS), dtype=np.float32)


def label_array(labels: Any) -> npt.NDArray[Any]:
    """Return labels as int64 positions, float64 regression targets or, for names, objects.

    Args:
        labels: an array or a sequence. None marks an unknown name or position.
    """
    array = np.asarray(labels)
    kind = array.dtype.kind
    if kind in "iub":
        return array.astype(np.int64, copy=False)
    if kind == "f":
        return array.astype(np.float64, copy=False)
    return array.astype(object, copy=False)


def one_per_sample(values: Any, num_samples: int, name: str) -> npt.NDArray[Any]:
    """Return a list, array, tensor or column as an array of shape (num_samples,).

    Args:
        values: the values that the user passed.
        num_samples: the required number of values.
        name: name of the argument, for the error.
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    array = np.asarray(values)
    if array.shape != (num_samples,):
        raise ValueError(
            f"{name} must have one value for each of the {num_samples} samples, "
            f"but has the shape {array.shape}"
        )
    return array


def _require_length(name: str, column: Any, samples: int) -> None:
    if column is not None and len(column) != samples:
        raise ValueError(f"{name} has {len(column)} entries for {samples} samples")


def import_pandas() -> Any:
    """Import pandas, or raise an error that names the extra to install."""
    with needs_extra("pandas", "a data frame"):
        import pandas
        import pyarrow  # noqa: F401 - pandas writes Parquet with it
    return pandas
