"""Digit Sum: the sum of a sequence of digits (Cirik et al. 2016). Generated, not downloaded.

The dataset is small. The difficulty of a sample is known: the length of its sequence.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from discrimloss.data.base import DataError, Split, TaskData, TensorInputs, datasets
from discrimloss.data.published_files import BuiltIn, obtained

NUM_DIGITS = 10
PADDING = 10  # the first symbol after the digits 0 to 9


@datasets.register("digitsum")
@obtained(BuiltIn("the sequences are generated"))
def load_digitsum(
    directory: Path,
    *,
    split_seed: int = 0,
    train_size: int = 1000,
    validation_size: int = 200,
    test_size: int = 200,
    min_length: int = 2,
    max_length: int = 20,
    per_length: int | None = None,
) -> TaskData:
    """Sums of 2 to 20 digits: 1,000 training samples, and 200 + 200 of the full length.

    Among the training samples, every length is equally frequent, and lengths are in ascending
    order. No sequence occurs twice, neither within a split nor in two splits.

    The paper reports 1,000 training samples. Its released generator, like that of Cirik et al.,
    makes about 1,000 for each length. ``per_length=1000`` does the same and gives 18,100 samples,
    because there are only 100 sequences of length 2.

    Args:
        directory: not used.
        split_seed: seed for drawing the sequences.
        train_size: total number of training samples.
        validation_size: number of validation samples, of the maximum length.
        test_size: number of test samples, of the maximum length.
        min_length: length of the shortest training sequences.
        max_length: length of the longest sequences.
        per_length: number of training samples of each length; replaces `train_size`. If a length
            has fewer sequences, all of them are used.
    """
    if not 1 <= min_length <= max_length:
        raise DataError(
            f"digitsum needs 1 <= min_length <= max_length, not {min_length} and {max_length}"
        )
    if min(train_size, test_size) < 1 or validation_size < 0:
        raise DataError("digitsum needs at least one training and one test sample")
    if per_length is not None and per_length < 1:
        raise DataError(f"digitsum needs a per_length of at least 1, not {per_length}")

    generator = torch.Generator().manual_seed(split_seed)
    held_out = validation_size + test_size
    if per_length is None:
        lengths = even_lengths(train_size, min_length, max_length)
    else:
        lengths = equal_lengths(per_length, min_length, max_length, held_out)
    blocks = []
    for length in range(min_length, max_length + 1):
        count = int((lengths == length).sum()) + (held_out if length == max_length else 0)
        blocks.append(padded(distinct_sequences(count, length, generator), max_length))
    sequences = torch.cat(blocks)

    train, validation, test = torch.split(sequences, [len(lengths), validation_size, test_size])
    return TaskData(
        train=_split(train),
        validation=_split(validation) if validation_size else None,
        test=_split(test),
        num_classes=None,
        input_shape=(max_length,),
        difficulty=lengths,
    )


def even_lengths(count: int, shortest: int, longest: int) -> Tensor:
    """Return `count` lengths in ascending order. Their frequencies differ by at most one.

    >>> even_lengths(5, 2, 4)
    tensor([2, 2, 3, 3, 4])
    """
    steps = torch.arange(count) * (longest - shortest + 1)
    return shortest + torch.div(steps, count, rounding_mode="floor")


def equal_lengths(each: int, shortest: int, longest: int, held_out: int) -> Tensor:
    """Return lengths in ascending order, each repeated `each` times.

    A length with fewer possible sequences is repeated once per sequence. `held_out` sequences of
    the greatest length are left for other splits.

    >>> torch.bincount(equal_lengths(50, 1, 3, held_out=0))[1:]
    tensor([10, 50, 50])
    """
    lengths = torch.arange(shortest, longest + 1)
    known = [NUM_DIGITS**length for length in lengths.tolist()]
    known[-1] -= held_out
    return lengths.repeat_interleave(torch.tensor([max(min(each, n), 0) for n in known]))


def distinct_sequences(count: int, length: int, generator: torch.Generator) -> Tensor:
    """Return digits of shape (count, length) without duplicate rows."""
    if count > NUM_DIGITS**length:
        raise DataError(
            f"digitsum has only {NUM_DIGITS**length} sequences of length {length}, {count} were "
            "requested: request fewer samples or a greater min_length"
        )
    found = torch.empty(0, length, dtype=torch.int64)
    while len(found) < count:
        drawn = torch.randint(NUM_DIGITS, (count, length), generator=generator)
        found = torch.unique(torch.cat([found, drawn]), dim=0)
    # `unique` sorts, so keeping the first rows would be biased: the rows are chosen at random.
    return found[torch.randperm(len(found), generator=generator)[:count]]


def padded(sequences: Tensor, width: int) -> Tensor:
    """Return the sequences with padding on the right, shape (count, width)."""
    return torch.nn.functional.pad(sequences, (0, width - sequences.shape[1]), value=PADDING)


def digit_sums(sequences: Tensor) -> Tensor:
    """Return the sum of each sequence without its padding, shape (count,), float32.

    >>> digit_sums(torch.tensor([[3, 4, PADDING], [9, 9, 1]]))
    tensor([ 7., 19.])
    """
    return sequences.masked_fill(sequences == PADDING, 0).sum(dim=1).float()


def _split(sequences: Tensor) -> Split:
    return Split(TensorInputs(sequences), digit_sums(sequences))
