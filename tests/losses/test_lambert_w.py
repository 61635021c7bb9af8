"""Lambert W against its definition, known values, and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import lambertw

from discrimloss.losses.lambert_w import BRANCH_POINT, lambert_w

DTYPES = [torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_known_values(dtype: torch.dtype) -> None:
    known = {
        BRANCH_POINT: -1.0,
        -0.5 * math.log(2.0): -math.log(2.0),  # -log 2 * exp(-log 2)
        0.0: 0.0,
        1.0: 0.5671432904097838,  # the omega constant
        math.e: 1.0,
        2.0 * math.exp(2.0): 2.0,
        30.0 * math.exp(30.0): 30.0,
    }
    found = lambert_w(torch.tensor(list(known), dtype=dtype))
    assert found.dtype == dtype
    torch.testing.assert_close(found, torch.tensor(list(known.values()), dtype=dtype))


@pytest.mark.parametrize(
    ("dtype", "largest", "rtol"), [(DTYPES[0], 38, 1e-6), (DTYPES[1], 300, 1e-14)]
)
def test_scipy_says_the_same(dtype: torch.dtype, largest: int, rtol: float) -> None:
    points = np.concatenate(
        [
            np.linspace(-0.36, 3.0, 2000),
            np.logspace(-30, largest, 2000),
            -np.logspace(-30, -0.5, 2000),
        ]
    )
    x = torch.tensor(points, dtype=dtype)
    expected = torch.from_numpy(lambertw(x.double().numpy()).real)
    torch.testing.assert_close(lambert_w(x).double(), expected, rtol=rtol, atol=0.0)


@pytest.mark.parametrize(("dtype", "atol"), [(DTYPES[0], 3e-6), (DTYPES[1], 1e-14)])
def test_near_the_branch_point(dtype: torch.dtype, atol: float) -> None:
    # x = w exp(w) for a w = -1 + t: x + 1/e is (1 - (1 - t) exp(t)) / e, which has no cancellation
    # in its own series, t^2/2 + t^3/3 + t^4/8 + ... + t^k (k - 1) / k!.
    t = torch.logspace(-7, -0.7, 300, dtype=torch.float64)
    above = sum((k - 1) / math.factorial(k) * t**k for k in range(2, 16)) / math.e
    x = (BRANCH_POINT + above).to(dtype)
    # What was rounded off x moves W by dx / ((1 + w) exp(w)), and 1 + w is t.
    rounding = torch.finfo(dtype).eps / t
    assert ((lambert_w(x).double() - (t - 1.0)).abs() <= rounding + atol).all()


def test_it_is_exact_for_the_numbers_next_to_the_branch_point() -> None:
    x = [torch.tensor(BRANCH_POINT)]
    for _ in range(3):
        x.append(torch.nextafter(x[-1], torch.tensor(0.0)))
    assert x[0].item() == float.fromhex("-0x1.78b564p-2")
    # W of these very numbers, worked out with fifty digits.
    expected = torch.tensor([-1.0, -0.999664956838846, -0.999476353672997, -0.999339597562504])
    torch.testing.assert_close(lambert_w(torch.stack(x)), expected, rtol=0.0, atol=1e-7)


def test_outside_of_its_domain() -> None:
    x = torch.tensor([-0.3679, -1.0, -torch.inf, torch.nan, torch.inf])
    w = lambert_w(x)
    assert w[:4].isnan().all()
    assert w[4] == torch.inf
    assert lambert_w(torch.tensor(torch.finfo(torch.float32).max)).isfinite()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_lifted(dtype: torch.dtype) -> None:
    w = lambert_w(torch.tensor([0.0, 1.0], dtype=dtype))
    assert w.dtype == torch.float32
    assert w[1].item() == pytest.approx(0.56714329, rel=1e-6)


def test_it_has_no_gradient_and_keeps_the_shape() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    assert lambert_w(x).shape == (2, 3)
    assert not lambert_w(x).requires_grad
    assert lambert_w(torch.empty(0)).shape == (0,)
