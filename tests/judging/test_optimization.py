"""Minimising smooth functions, and the gradients that are written out for it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from discrimloss.judging.calibration import _Mixture
from discrimloss.judging.noise_likelihood import RARE_NOISE, LabelLikelihood, mistaken_classes
from discrimloss.judging.optimization import minimize


def rosenbrock(place: Tensor) -> Tensor:
    steps = 100.0 * (place[1:] - place[:-1].square()).square()
    return (steps + (1.0 - place[:-1]).square()).sum()


def test_minimum_of_a_curved_valley() -> None:
    start = torch.tensor([-1.2, 1.0, -0.5, 0.8], dtype=torch.float64)
    value, place = minimize(rosenbrock, start, iterations=200, tolerance=1e-9)
    assert value < 1e-12
    torch.testing.assert_close(place, torch.ones_like(place))


def test_a_function_that_is_infinite_beyond_an_edge() -> None:
    start = torch.tensor([5.0], dtype=torch.float64)
    value, place = minimize(lambda x: (x - x.log()).sum(), start, iterations=50, tolerance=1e-9)
    torch.testing.assert_close(place, torch.ones_like(place))
    assert value == pytest.approx(1.0)


def test_the_value_is_infinite_where_it_is_not_a_number() -> None:
    start = torch.tensor([-1.0], dtype=torch.float64)
    assert minimize(lambda x: x.log().sum(), start, 5, 1e-6)[0] == torch.inf


def numeric_gradient(function: Callable[[Tensor], Tensor], place: Tensor) -> Tensor:
    step = 1e-6
    rows = torch.eye(len(place), dtype=place.dtype) * step
    return torch.stack([(function(place + r) - function(place - r)) / (2 * step) for r in rows])


@pytest.mark.parametrize(
    ("classes", "has_spread"), [(2, False), (5, False), (40, False), (40, True)]
)
def test_gradient_of_the_noise_model(classes: int, has_spread: bool) -> None:
    generator = torch.Generator().manual_seed(classes)
    logits = 3.0 * torch.randn(200, classes, generator=generator, dtype=torch.float64)
    given = torch.randint(classes, (200,), generator=generator)
    spread = mistaken_classes(logits, given) if has_spread else None
    problem = LabelLikelihood(logits, given, prior=2.0, spread=spread)
    place = problem._start(0.3, -1.0)
    place += 0.3 * torch.randn(len(place), generator=generator, dtype=torch.float64)
    value, gradient = problem.objective(place)

    def posterior(parameters: Tensor) -> Tensor:
        likelihood = problem.model(parameters).log_joint(logits, given).logsumexp(1).sum()
        centre = torch.zeros_like(parameters)
        centre[1] = RARE_NOISE
        prior = 0.5 * (problem._prior_precision() * (parameters - centre).square()).sum()
        return (prior - likelihood) / 200

    place.requires_grad_()
    by_autograd = posterior(place)
    torch.testing.assert_close(value, by_autograd.detach())
    torch.testing.assert_close(gradient, torch.autograd.grad(by_autograd, place)[0])


def test_wrong_labels_of_a_class_are_distributed_as_predictions_say() -> None:
    probabilities = torch.tensor([[0.1, 0.9, 0.0], [0.2, 0.1, 0.7]], dtype=torch.float64)
    spread = mistaken_classes((probabilities + 1e-30).log(), torch.tensor([0, 1]))
    # Class 1 is taken for class 0 alone, class 0 and class 2 for class 1; a tenth is even.
    expected = torch.tensor(
        [[0, 0.95, 0.05], [0.95, 0, 0.05], [0.05, 0.95, 0]], dtype=torch.float64
    )
    torch.testing.assert_close(spread, expected)


def test_gradient_of_the_mixture_of_losses() -> None:
    generator = torch.Generator().manual_seed(0)
    centers = torch.linspace(-3.5, 2.5, 256, dtype=torch.float64)
    counts = torch.randint(0, 30, (256,), generator=generator).double()
    mixture = _Mixture(centers, counts, 300.0, float(centers[1] - centers[0]))
    for objective, parameters in ((mixture.objective, 9), (mixture.one_component_objective, 4)):
        place = torch.randn(parameters, generator=generator, dtype=torch.float64)
        numeric = numeric_gradient(lambda at, f=objective: f(at)[0], place)
        torch.testing.assert_close(objective(place)[1], numeric, rtol=1e-5, atol=1e-7)
