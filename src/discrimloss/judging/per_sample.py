"""Values that come from outside, one for each sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor


def one_per_sample(values: Any, num_samples: int, name: str) -> npt.NDArray[Any]:
    """A list, array, tensor or column as an array of shape (num_samples,)."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    array = np.asarray(values)
    if array.shape != (num_samples,):
        raise ValueError(
            f"{name} must have one value for each of the {num_samples} samples, "
            f"but has the shape {array.shape}"
        )
    return array
