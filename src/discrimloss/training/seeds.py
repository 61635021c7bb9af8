"""Seeds for the purposes of a run, each derived from the seed of the run.

Order, noise and augmentation of an epoch depend only on the seed and the number of the epoch, so a
resumed run needs no generator states for them.
"""

from __future__ import annotations

import zlib

import numpy as np
import torch


def derived_seed(seed: int, purpose: str, *numbers: int) -> int:
    """Return a seed for one purpose, independent of the seeds for others.

    >>> derived_seed(1, "order", 2) == derived_seed(1, "order", 2)
    True
    >>> derived_seed(1, "order", 2) == derived_seed(1, "noise", 2)
    False
    """
    entropy = [seed, zlib.crc32(purpose.encode()), *numbers]
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1))


def derived_generator(
    seed: int, purpose: str, *numbers: int, device: torch.device | str = "cpu"
) -> torch.Generator:
    """Return a generator seeded with `derived_seed`."""
    return torch.Generator(device).manual_seed(derived_seed(seed, purpose, *numbers))
