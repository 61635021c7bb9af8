"""Estimates wrong regression targets from out-of-fold predictions of simple models.

1. Gradient boosting predicts every target out of fold, once as a number and once by its rank. The
   scale with the higher held-out likelihood is kept: ranks suit skewed targets.
2. Boosting and a Gaussian process predict every target from the others. Each target is weighted by
   the probability that it is correct. The two predictions are blended by held-out likelihood, and a
   third model predicts the size of the errors. The noise model assumes that a correct target
   differs from its prediction by an error of that size, and that a wrong target is a random one of
   all targets. If there are few targets, this step is repeated with the new weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.out_of_fold.folds import FEW_SAMPLES, FOLDS, FOLDS_OF_FEW
from discrimloss.auditing.out_of_fold.gaussian_process import GaussianProcess
from discrimloss.auditing.out_of_fold.own_estimator import OwnEstimator
from discrimloss.judging.target_density import (
    LEAST_FOUND,
    ScaledTargets,
    TargetNoise,
    fit_target_noise,
    never_wrong,
)
from discrimloss.training.processes import divided, of_first

Array = npt.NDArray[np.float64]

ROUNDS, ROUNDS_OF_MANY = 2, 1
"""Number of rounds with weighted targets, for few and for many rows."""
MANY_ROWS = 1_250
MOST_ROWS_OF_PROCESS = 20_000
"""With more rows, only boosting is trained: it has enough data, and its cost grows slowly."""
MOST_FEATURES = 256
"""More features are replaced by this number of principal components."""
BLENDS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Fractions of the Gaussian process in a blend."""
SMALLEST_ERROR = 0.02
"""Smallest error size that is learned, as a fraction of the median error."""
LARGEST_FEATURE = 5.0


@dataclass(frozen=True)
class OutOfFoldRegression:
    """Predictions of regression targets, and the resulting estimates, shape (samples,) each."""

    prediction: Array
    """Out-of-fold predictions, in the unit of the targets."""
    error_scale: Array
    """The expected size of the error, in the unit of the scaled targets or ranks."""
    score: Array
    """Log-odds that the target is wrong."""
    noise_interval: tuple[float, float] | None
    """Interval of the fraction of wrong targets; None if the inputs do not predict the targets."""
    models: str
    """The models that were used."""

    @property
    def can_judge(self) -> bool:
        """Whether the inputs predict the target well enough to detect wrong targets."""
        return self.noise_interval is not None


def out_of_fold_regression(
    features: Any, target: Any, seed: int = 0, own: OwnEstimator | None = None
) -> OutOfFoldRegression:
    """Predict every target from the others, and estimate which are wrong.

    Args:
        features: shape (samples, features), finite numbers of a similar size.
        target: shape (samples,), finite.
        seed: seed of the folds and the models.
        own: predicts the targets instead of boosting and the Gaussian process. Boosting still
            predicts the size of the errors.
    """
    given = np.asarray(target, dtype=np.float64)
    inputs = _inputs(np.asarray(features, dtype=np.float64), seed)
    boosting = _Boosting(inputs, seed)
    if own is not None:
        return _with_own(own, boosting, given)
    process = None
    if len(given) <= MOST_ROWS_OF_PROCESS:
        process = GaussianProcess(_standardised(inputs), seed)
    found, prediction, scale = _first_round(boosting, given)
    blend = 0.0
    for _ in range(ROUNDS if len(given) <= MANY_ROWS else ROUNDS_OF_MANY):
        weight = of_first(partial(np.subtract, 1.0, found.p_incorrect))
        found, prediction, blend = _next_round(boosting, process, scale, weight)
    return _judged(found, scale.back(prediction), _description(blend, scale))


def _with_own(own: OwnEstimator, boosting: _Boosting, given: Array) -> OutOfFoldRegression:
    prediction = own.predict(boosting.folds, given, np.ones(len(given)))
    scales = [ScaledTargets(given, by_rank) for by_rank in (False, True)]
    fits = [fit_target_noise(scale, scale.of(prediction)) for scale in scales]
    best = of_first(lambda: int(np.argmax([fit.gain for fit in fits])))
    found, scale = fits[best], scales[best]
    for _ in range(ROUNDS if len(given) <= MANY_ROWS else ROUNDS_OF_MANY):
        weight = of_first(partial(np.subtract, 1.0, found.p_incorrect))
        prediction = own.predict(boosting.folds, given, weight)
        scaled = scale.of(prediction)
        log_scale = boosting.predict_log_scale(scaled, scale.target - scaled, weight)
        found = fit_target_noise(scale, scaled, log_scale)
    return _judged(found, prediction, own.name)


def _judged(found: TargetNoise, prediction: Array, models: str) -> OutOfFoldRegression:
    interval, score = found.noise_interval(), found.score
    if interval is None or found.fraction_found() < LEAST_FOUND:
        interval, score = None, never_wrong(score)
    return OutOfFoldRegression(prediction, found.scale, score, interval, models)


def _first_round(boosting: _Boosting, given: Array) -> tuple[TargetNoise, Array, ScaledTargets]:
    everything = np.ones(len(given))
    rounds = []
    for by_rank in (False, True):
        scale = ScaledTargets(given, by_rank)
        prediction = boosting.predict(scale.target, everything)
        rounds.append((fit_target_noise(scale, prediction), prediction, scale))
    return rounds[of_first(lambda: int(np.argmax([found.gain for found, _, _ in rounds])))]


def _next_round(
    boosting: _Boosting, process: GaussianProcess | None, scale: ScaledTargets, weight: Array
) -> tuple[TargetNoise, Array, float]:
    """Return the fitted noise, the predictions, and the weight of the Gaussian process in them."""
    prediction, blend = boosting.predict(scale.target, weight), 0.0
    if process is not None:
        other = process.leave_one_out(scale.target, weight)
        blends = [(1.0 - part) * prediction + part * other for part in BLENDS]
        fits = [fit_target_noise(scale, one) for one in blends]
        best = of_first(lambda: int(np.argmax([fit.gain for fit in fits])))
        prediction, blend = blends[best], BLENDS[best]
    log_scale = boosting.predict_log_scale(prediction, scale.target - prediction, weight)
    return fit_target_noise(scale, prediction, log_scale), prediction, blend


class _Boosting:
    """Gradient boosting with the same folds in every call.

    Args:
        features: shape (samples, features).
        seed: seed of the folds.
    """

    def __init__(self, features: Array, seed: int) -> None:
        from sklearn.model_selection import KFold

        self._features, self._seed = features, seed
        number = min(FOLDS_OF_FEW if len(features) <= FEW_SAMPLES else FOLDS, len(features))
        folds = KFold(number, shuffle=True, random_state=seed)
        self.folds = list(folds.split(features))
        """The training samples and the predicted samples of each fold."""

    def predict(self, target: Array, weight: Array) -> Array:
        """Return out-of-fold predictions, shape (samples,)."""
        return self._predict(self._features, target, weight, 80, 16, 8)

    def predict_log_scale(self, prediction: Array, error: Array, weight: Array) -> Array:
        """Return out-of-fold predictions of the log size of errors, shape (samples,)."""
        size = np.abs(error)
        log_size = np.log(size + SMALLEST_ERROR * float(np.median(size)) + 1e-9)
        log_size = np.maximum(log_size, np.quantile(log_size, 0.05))
        inputs = np.column_stack([self._features, prediction])
        return self._predict(inputs, log_size, weight, 30, 8, 20)

    def _predict(
        self, inputs: Array, target: Array, weight: Array, trees: int, leaves: int, leaf: int
    ) -> Array:
        from sklearn.ensemble import HistGradientBoostingRegressor

        def predicted(fold: tuple[Any, Any]) -> Array:
            trained, held_out = fold
            trusted = trained[weight[trained] > 0.5]
            trained = trusted if len(trusted) else trained
            model = HistGradientBoostingRegressor(
                max_iter=trees,
                max_leaf_nodes=leaves,
                min_samples_leaf=leaf,
                early_stopping=False,
                random_state=self._seed,
            )
            model.fit(inputs[trained], target[trained], sample_weight=weight[trained])
            return np.asarray(model.predict(inputs[held_out]))

        prediction = np.empty(len(target))
        for (_, held_out), one in zip(self.folds, divided(self.folds, predicted), strict=True):
            prediction[held_out] = one
        return prediction


def _inputs(features: Array, seed: int) -> Array:
    """Return the features that vary, or principal components of too many features."""
    features = features.reshape(len(features), -1)
    varying = features[:, features.std(0) > 0.0]
    if varying.shape[1] > MOST_FEATURES:
        from sklearn.decomposition import PCA

        components = min(MOST_FEATURES, len(varying))
        varying = PCA(components, random_state=seed).fit_transform(varying)
    return varying if varying.shape[1] else np.zeros((len(features), 1))


def _standardised(features: Array) -> Array:
    spread = features.std(0)
    scaled = (features - features.mean(0)) / np.where(spread > 0.0, spread, 1.0)
    return np.asarray(scaled / np.sqrt(1.0 + (scaled / LARGEST_FEATURE) ** 2))


def _description(blend: float, scale: ScaledTargets) -> str:
    models = "gradient boosting and a Gaussian process"
    if blend == 0.0:
        models = "gradient boosting"
    elif blend == 1.0:
        models = "a Gaussian process"
    return f"{models} on {'ranks of the targets' if scale.by_rank else 'the targets'}"
