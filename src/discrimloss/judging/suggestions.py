"""Chooses the suggested label of each sample."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.judging.verdicts import EASY

RANKED_WITH_OTHER = 100
"""Number of most suspicious samples whose suggestion is always another class."""


def suggest_other_classes(
    code: npt.NDArray[np.int8], score: Tensor, other: Tensor, otherwise: Tensor
) -> Tensor:
    """Suggest the most likely other class for suspicious labels, so that reviewers can compare.

    Args:
        code: verdicts, shape (samples,).
        score: scores of the labels, shape (samples,).
        other: the most likely class other than the given one, shape (samples,).
        otherwise: suggestions for all other samples, shape (samples,).
    """
    is_doubted = torch.from_numpy(code != EASY)
    top = min(RANKED_WITH_OTHER, len(score))
    is_doubted[score.nan_to_num(nan=-torch.inf).topk(top).indices] = True
    return torch.where(is_doubted, other, otherwise)
