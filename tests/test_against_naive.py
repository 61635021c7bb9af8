"""Random training runs, step by step, against `NaiveDiscrimLoss`."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_reference import NaiveDiscrimLoss

from discrimloss import DiscrimLoss

NUM_SAMPLES = 5

Row = tuple[int, float]  # sample index, task loss
Run = list[list[list[Row]]]  # epochs of batches of rows

ordinary_losses = st.floats(-2.0, 6.0, width=32)
broken_losses = st.sampled_from([math.nan, math.inf, -math.inf])
losses = st.one_of(*[ordinary_losses] * 9, broken_losses)
# Few samples and up to eight rows: most batches hold some sample twice and leave another out.
batches = st.lists(st.tuples(st.integers(0, NUM_SAMPLES - 1), losses), max_size=8)
runs = st.lists(st.lists(batches, max_size=3), min_size=1, max_size=4)

hyperparameters = st.fixed_dictionaries(
    {
        "switch_gain": st.sampled_from([0.0, 0.27, 1.0]),
        "switch_rate": st.sampled_from([0.54, 5.0]),
        "switch_epoch": st.sampled_from([1.0, 2.5]),
        "suppressed_epochs": st.sampled_from([0, 1, 3]),
        "regularization": st.sampled_from([0.0, 0.1]),
        "history_decay": st.sampled_from([0.0, 0.9]),
        "weight_lr": st.sampled_from([0.05, 0.2]),
        "weight_range": st.sampled_from([(0.5, 4.0), (1.4, 20.0), (0.1, 1.5)]),
    }
)


def close(expected: Any) -> Any:
    # The module keeps float32, the naive loss works in float64.
    return pytest.approx(expected, rel=2e-4, abs=2e-4, nan_ok=True)


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("threshold", ["bounded_split", "split", "ema", "mean", 0.7, -0.7])
@settings(max_examples=80)
@given(chosen=hyperparameters, run=runs)
def test_every_step_agrees_with_the_naive_loss(
    variant: str, threshold: Any, chosen: dict[str, Any], run: Run
) -> None:
    chosen = chosen | {"threshold": threshold, "variant": variant}
    criterion = DiscrimLoss(NUM_SAMPLES, reduction="none", **chosen)
    naive = NaiveDiscrimLoss(NUM_SAMPLES, **chosen)

    for epoch, epoch_batches in enumerate(run, start=1):
        criterion.set_epoch(epoch)
        naive.set_epoch(epoch)
        if naive.k1_comes_from_split:
            naive.k1 = float(criterion.k1)  # where the cut stands is test_histogram's concern
        visited_this_epoch: set[int] = set()

        for batch in epoch_batches:
            index = [sample for sample, _ in batch]
            inner = torch.tensor([loss for _, loss in batch], requires_grad=True)
            values = criterion(inner, torch.tensor(index, dtype=torch.int64))
            values.sum().backward()
            naive_values, naive_gradients = naive.step(inner.tolist(), index)

            assert inner.grad is not None
            assert values.tolist() == close(naive_values)
            assert inner.grad.tolist() == close(naive_gradients)
            if not math.isnan(naive.k1):  # that is, once a finite loss was seen
                assert float(criterion.k1) == close(naive.k1)
                assert criterion.k_dyn == close(naive.k_dyn)
            assert criterion.sample_weights.tolist() == close(naive.delta)
            assert visit_counts(criterion) == naive.visits

            visited_this_epoch |= {sample for sample, loss in batch if math.isfinite(loss)}
            # The released code corrects by the epoch, so there an average is only defined for
            # samples that the epoch has reached.
            compared = visited_this_epoch if variant == "released" else range(NUM_SAMPLES)
            averages = criterion.average_losses.tolist()
            assert [averages[i] for i in compared] == close([naive.average[i] for i in compared])


def visit_counts(criterion: DiscrimLoss) -> list[int]:
    counts: list[int] = criterion.state_dict()["table.visits"].tolist()
    return counts
