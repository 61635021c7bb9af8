"""Which label is suggested for each sample."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.judging.verdicts import EASY

RANKED_WITH_OTHER = 100
"""The most suspicious samples, for which the likeliest other class is suggested in any case."""


def suggest_other_classes(
    code: npt.NDArray[np.int8], score: Tensor, other: Tensor, otherwise: Tensor
) -> Tensor:
    """The likeliest other class for suspicious labels, so that a reviewer can compare the two.

    Args:
        code: verdicts, shape (samples,).
        score: of the labels, shape (samples,).
        other: the likeliest class other than the given one, shape (samples,).
        otherwise: what is suggested for the other samples, shape (samples,).
    """
    is_doubted = torch.from_numpy(code != EASY)
    top = min(RANKED_WITH_OTHER, len(score))
    is_doubted[score.nan_to_num(nan=-torch.inf).topk(top).indices] = True
    return torch.where(is_doubted, other, otherwise)
