"""Each pure function against its formula, and the closed-form derivatives against autograd."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from discrimloss import functional as F
from discrimloss.visits import group_visits

finite_losses = st.floats(-10.0, 10.0, width=32)
any_losses = st.one_of(*[finite_losses] * 5, st.sampled_from([math.nan, math.inf, -math.inf]))
rows_of_a_batch = st.lists(st.tuples(any_losses, st.integers(0, 4)), max_size=12)


def close(expected: object) -> object:
    return pytest.approx(expected, rel=1e-5, abs=1e-5)


# Early suppression and the threshold: functions of the epoch alone.


@pytest.mark.parametrize("suppressed_epochs", [0, 1, 3, 10])
def test_early_suppression_rises_in_equal_steps_and_stays_at_one(suppressed_epochs: int) -> None:
    for epoch in range(1, 15):
        expected = epoch / suppressed_epochs if epoch < suppressed_epochs else 1.0
        assert F.early_suppression(epoch, suppressed_epochs) == expected


@pytest.mark.parametrize("base", [0.3, 2.0])
@pytest.mark.parametrize("epoch", [1, 4, 5, 30])
def test_dynamic_threshold_is_the_papers_formula_for_a_positive_base(
    base: float, epoch: int
) -> None:
    a, p, q = 0.27, 0.54, 4.5
    rise = F.threshold_rise(epoch, switch_gain=a, switch_rate=p, switch_epoch=q)
    k_dyn = F.dynamic_threshold(torch.tensor(base), rise)
    assert float(k_dyn) == close((a * math.tanh(p * (epoch - q)) + a + 1) * base)


@pytest.mark.parametrize("base", [-1.5, 0.8])
def test_dynamic_threshold_runs_from_k1_to_k2(base: float) -> None:
    a, k1 = 0.4, torch.tensor(base)
    k2 = base + 2 * a * abs(base)
    long_before = F.threshold_rise(-1e6, switch_gain=a, switch_rate=0.5, switch_epoch=10)
    long_after = F.threshold_rise(1e6, switch_gain=a, switch_rate=0.5, switch_epoch=10)
    assert float(F.dynamic_threshold(k1, long_before)) == close(base)
    assert float(F.dynamic_threshold(k1, long_after)) == close(k2)


@pytest.mark.parametrize("base", [-3.0, -0.1, 0.1, 3.0])
def test_dynamic_threshold_rises_whatever_the_sign_of_the_base(base: float) -> None:
    thresholds = [
        float(F.dynamic_threshold(torch.tensor(base), F.threshold_rise(epoch, 0.27, 0.54, 5.0)))
        for epoch in range(1, 11)
    ]
    assert all(before < after for before, after in pairwise(thresholds))


# The history.


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("losses_seen", [[2.0], [2.0, 4.0, 0.0], [-1.0, 3.0, 3.0, -2.0]])
def test_average_loss_is_the_weighted_mean_of_the_losses_seen(
    decay: float, losses_seen: list[float]
) -> None:
    history = torch.zeros(1)
    for loss in losses_seen:
        history = F.update_history(history, torch.tensor([loss]), decay)

    # The newest loss has weight 1, the one before rho, then rho^2, …
    importance = [decay**age for age in reversed(range(len(losses_seen)))]
    weighted = sum(w * loss for w, loss in zip(importance, losses_seen, strict=True))
    average = F.average_loss(history, torch.tensor([float(len(losses_seen))]), decay)
    assert float(average) == close(weighted / sum(importance))


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 0.999])
def test_history_mass_is_one_minus_the_power_of_the_decay(decay: float) -> None:
    visits = torch.tensor([1.0, 2.0, 7.0, 32767.0])
    expected = [1 - decay ** int(n) for n in visits]
    assert F.history_mass(visits, decay).tolist() == close(expected)


# The loss and its derivatives.

Terms = tuple[Tensor, Tensor, float, float, float]


def random_terms(regularization: float) -> Terms:
    """Average, log weight, threshold, suppression, regularization: the arguments of the loss."""
    generator = torch.Generator().manual_seed(0)
    average = torch.randn(9, generator=generator, dtype=torch.float64)
    log_weight = torch.randn(9, generator=generator, dtype=torch.float64)
    return average.requires_grad_(), log_weight.requires_grad_(), 0.6, 0.3, regularization


with_and_without_regularization = pytest.mark.parametrize("regularization", [0.0, 0.2])


@with_and_without_regularization
def test_discrim_loss_is_the_papers_formula(regularization: float) -> None:
    average, log_weight, threshold, suppression, _ = terms = random_terms(regularization)
    delta = log_weight.exp()
    expected = suppression * (average - threshold) / delta + regularization * delta.log() ** 2
    torch.testing.assert_close(F.discrim_loss(*terms), expected)


@with_and_without_regularization
def test_discrim_loss_passes_gradcheck(regularization: float) -> None:
    average, log_weight, *constants = random_terms(regularization)

    def loss(average: Tensor, log_weight: Tensor) -> Tensor:
        return F.discrim_loss(average, log_weight, *constants)

    assert torch.autograd.gradcheck(loss, (average, log_weight))


@with_and_without_regularization
def test_weight_gradient_is_the_derivative_by_log_weight(regularization: float) -> None:
    terms = random_terms(regularization)
    (by_log_weight,) = torch.autograd.grad(F.discrim_loss(*terms).sum(), terms[1])
    torch.testing.assert_close(F.weight_gradient(*terms), by_log_weight)


@with_and_without_regularization
def test_weight_gradient_is_delta_times_the_derivative_by_delta(regularization: float) -> None:
    average, log_weight, *constants = random_terms(regularization)
    delta = log_weight.detach().exp().requires_grad_()
    loss = F.discrim_loss(average, delta.log(), *constants)
    (by_delta,) = torch.autograd.grad(loss.sum(), delta)
    torch.testing.assert_close(F.weight_gradient(average, log_weight, *constants), delta * by_delta)


@with_and_without_regularization
def test_model_gradient_is_the_derivative_by_the_average(regularization: float) -> None:
    average, log_weight, _, suppression, _ = terms = random_terms(regularization)
    (by_average,) = torch.autograd.grad(F.discrim_loss(*terms).sum(), average)
    torch.testing.assert_close(F.model_gradient(log_weight, suppression), by_average)


@pytest.mark.parametrize("function", [F.discrim_loss, F.weight_gradient])
def test_epoch_terms_may_be_tensors(function: Callable[..., Tensor]) -> None:
    average, log_weight, threshold, suppression, regularization = random_terms(0.2)
    as_tensors = (torch.tensor(threshold).double(), torch.tensor(suppression).double())
    torch.testing.assert_close(
        function(average, log_weight, *as_tensors, regularization),
        function(average, log_weight, threshold, suppression, regularization),
        check_dtype=False,
        rtol=1e-6,
        atol=1e-6,
    )


# Rows of the same sample.


@given(rows=rows_of_a_batch)
def test_group_visits_agrees_with_a_loop_over_a_dict(rows: list[tuple[float, int]]) -> None:
    finite_losses_of: dict[int, list[float]] = {}
    for loss, sample in rows:
        if math.isfinite(loss):
            finite_losses_of.setdefault(sample, []).append(loss)
    mean_of = {sample: sum(own) / len(own) for sample, own in finite_losses_of.items()}

    visits = group_visits(
        torch.tensor([loss for loss, _ in rows]),
        torch.tensor([sample for _, sample in rows], dtype=torch.int64),
    )

    assert visits.mean_loss.tolist() == close([mean_of.get(sample, 0.0) for _, sample in rows])
    assert visits.counts.tolist() == [sample in mean_of for _, sample in rows]
    assert int(visits.number) == len(mean_of)
    assert float(visits.means.sum()) == close(sum(mean_of.values()))
    row_of_place = [rows[row][1] for row in visits.order.tolist()]
    present = zip(visits.present.tolist(), row_of_place, strict=True)
    assert sorted(sample for counts, sample in present if counts) == sorted(mean_of)
    assert float(visits.means.abs().sum()) == close(sum(map(abs, mean_of.values())))
