"""Easy, hard or incorrect: what a training run says of every sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.calibration import calibrate
from discrimloss.state.exchange import WHOLE_TABLE, Shards
from discrimloss.state.sample_ids import SampleId
from discrimloss.state.table import NOT_KNOWN, YES

if TYPE_CHECKING:
    import pandas

Rule = Literal["calibrated", "threshold"]

RULES = ("calibrated", "threshold")
LABELS = ("easy", "hard", "incorrect", "unseen")
EASY, HARD, INCORRECT, UNSEEN = range(4)
INCORRECT_ABOVE = 0.5  # of the probability


@dataclass(frozen=True, repr=False, eq=False)
class Verdicts:
    """One verdict per sample, in the order of the sample index.

    Samples that were never in a training batch are ``"unseen"``; their probability and average loss
    are NaN.
    """

    code: npt.NDArray[np.int8]
    """Position of each verdict in `LABELS`."""
    p_incorrect: npt.NDArray[np.float32]
    """Probability that the label is incorrect."""
    weight: npt.NDArray[np.float32]
    """``delta``: 1 is neutral, large is distrusted."""
    average_loss: npt.NDArray[np.float32]
    """``Avg(l)``."""
    rule: Rule
    ids: Sequence[SampleId] | None = None
    """Names of the samples, where they have any."""

    def __len__(self) -> int:
        return len(self.code)

    @cached_property
    def label(self) -> npt.NDArray[np.str_]:
        """``"easy"``, ``"hard"``, ``"incorrect"`` or ``"unseen"``."""
        return np.array(LABELS)[self.code]

    @property
    def counts(self) -> dict[str, int]:
        """How many samples got each verdict."""
        number = np.bincount(self.code, minlength=len(LABELS))
        return {label: int(number[code]) for code, label in enumerate(LABELS)}

    @property
    def estimated_noise_rate(self) -> float:
        """Share of incorrect labels among the samples seen: the mean of their probabilities."""
        seen = self.p_incorrect[self.code != UNSEEN]
        return float(seen.mean(dtype=np.float64)) if len(seen) else float("nan")

    def completed(self, whole: Callable[[Tensor], Tensor]) -> Verdicts:
        """Those of all processes, from what makes a process's column the whole one."""
        columns = ("code", "p_incorrect", "weight", "average_loss")
        found: dict[str, Any] = {
            name: whole(torch.from_numpy(getattr(self, name))).numpy() for name in columns
        }
        return replace(self, **found)

    def most_suspicious(self, number: int) -> npt.NDArray[np.int64]:
        """Indices of the samples whose labels are most likely incorrect, worst first."""
        if number < 0:
            raise ValueError(f"number must not be negative, but is {number}")
        candidates = np.flatnonzero(self.code != UNSEEN)
        probability = self.p_incorrect[candidates]
        if 0 < number < len(candidates):  # sort no more than the top
            cut = np.partition(probability, -number)[-number]
            candidates, probability = (
                candidates[probability >= cut],
                probability[probability >= cut],
            )
        order = np.lexsort((candidates, -self.average_loss[candidates], -probability))
        worst: npt.NDArray[np.int64] = candidates[order[:number]].astype(np.int64)
        return worst

    # `verdict_frames` knows this module, so it is imported where it is needed.

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame with one row per sample, indexed by sample index, or by name if it has."""
        from discrimloss.judging.frames import verdicts_to_frame

        return verdicts_to_frame(self)

    def to_parquet(self, path: str | Path) -> None:
        """Write `to_pandas()` to a Parquet file, all of it or nothing."""
        with atomic_write(Path(path)) as unfinished:
            self.to_pandas().to_parquet(unfinished)

    @classmethod
    def from_pandas(cls, frame: pandas.DataFrame, rule: Rule | None = None) -> Verdicts:
        """Verdicts from a data frame: the inverse of `to_pandas()`.

        Columns may come in any order, with others among them, and rows too, as long as the index
        holds every sample index once. Only unseen samples may lack a probability or an average
        loss.

        Args:
            frame: with the columns of `to_pandas()`.
            rule: which rule made the verdicts; by default what the frame says in its ``attrs``, or
                ``"calibrated"`` where it says nothing.
        """
        from discrimloss.judging.frames import verdicts_from_frame

        return verdicts_from_frame(frame, rule)

    @classmethod
    def from_parquet(cls, path: str | Path) -> Verdicts:
        """Read what `to_parquet` wrote."""
        return cls.from_pandas(import_pandas().read_parquet(path))

    def to_cleanlab(self, given_label: Any, predicted_label: Any | None = None) -> pandas.DataFrame:
        """The data frame of cleanlab's ``Datalab.get_issues("label")``, one row per sample.

        ``is_label_issue`` is true where the verdict is incorrect. ``label_score`` is
        ``1 - p_incorrect``: low is bad. An unseen sample is no issue and has the score 1, because
        nothing is known against it.

        Args:
            given_label: the labels trained on, one per sample: positions, names or numbers.
            predicted_label: what a model says of each sample. Without it the frame has no such
                column: a criterion sees losses, and cannot know what the right label is.
        """
        from discrimloss.judging.frames import verdicts_to_cleanlab

        return verdicts_to_cleanlab(self, given_label, predicted_label)

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{number} {label} ({number / max(len(self), 1):.1%})"
            for label, number in self.counts.items()
            if number or label != "unseen"
        )
        rate = f"estimated noise rate {self.estimated_noise_rate:.1%}"
        return f"Verdicts({len(self)} samples: {counts}; {rate}; rule={self.rule!r})"


def judge_samples(
    averages: Callable[[], Iterable[Tensor]],
    learned_early: Tensor,
    weights: Tensor,
    loss_scale: float,
    thresholds: tuple[float, float],
    rule: Rule = "calibrated",
    shards: Shards = WHOLE_TABLE,
    p_incorrect: Tensor | None = None,
) -> Verdicts:
    """Verdicts of all samples, in one pass after the calibration.

    Args:
        averages: gives ``Avg(l)`` of all samples in chunks; NaN where never visited.
        learned_early: shape (num_samples,), as in `SampleTable`.
        weights: shape (num_samples,), ``delta``.
        loss_scale: of the first epoch.
        thresholds: ``k1`` and ``k2``.
        rule: see `DiscrimLoss.verdicts`.
        shards: how the samples are divided among processes; each gets the verdicts of its own.
        p_incorrect: shape (num_samples,): probabilities from elsewhere, in place of a calibration.
    """
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, not {rule!r}")
    k1, k2 = thresholds
    calibration = calibrate(averages, loss_scale, shards) if p_incorrect is None else None
    codes: list[Any] = []
    probabilities: list[Any] = []
    losses: list[Any] = []
    start = 0
    for average in averages():
        rows = slice(start, start + len(average))
        flags = learned_early[rows]
        start += len(average)
        if calibration is not None:
            probability = calibration(average)
        elif p_incorrect is not None:
            probability = p_incorrect[rows].to(average).masked_fill(average.isnan(), torch.nan)
        code = torch.full_like(flags, HARD)
        code[torch.where(flags == NOT_KNOWN, average < k1, flags == YES)] = EASY
        # Being incorrect at the end outweighs having been learned early.
        code[probability > INCORRECT_ABOVE if rule == "calibrated" else average > k2] = INCORRECT
        code[average.isnan()] = UNSEEN
        for parts, part in ((codes, code), (probabilities, probability), (losses, average)):
            parts.append(part.cpu().numpy())
    return Verdicts(
        code=np.concatenate(codes),
        p_incorrect=np.concatenate(probabilities),
        weight=weights.cpu().numpy(),
        average_loss=np.concatenate(losses),
        rule=rule,
    )


def import_pandas() -> Any:
    """Pandas, or a sentence that says how to get it."""
    try:
        import pandas
        import pyarrow  # noqa: F401 - what pandas writes Parquet with
    except ImportError as error:
        raise ImportError(
            "data frames need pandas and pyarrow: pip install 'discrimloss[pandas]'"
        ) from error
    return pandas
