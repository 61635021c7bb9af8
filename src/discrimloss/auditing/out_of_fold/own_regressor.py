"""A scikit-learn regressor of the user, cross-validated in place of ours."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.base import AuditSource, SourceError
from discrimloss.training.processes import divided

Array = npt.NDArray[np.float64]
LEAST_TRUST = 0.5
"""Targets that are less probably right are left out: many regressors take no weights."""


@dataclass(frozen=True)
class OwnRegressor:
    """A regressor and what it learns from."""

    estimator: Any
    inputs: Any
    """One row per sample: texts, a data frame of the columns, or an array of features."""

    @property
    def name(self) -> str:
        """For the summary."""
        return type(self.estimator).__name__

    def predict(self, folds: Sequence[tuple[Any, Any]], target: Array, trust: Array) -> Array:
        """Shape (samples,): out-of-fold predictions, in the unit of the targets.

        Args:
            folds: which samples are learned from, and which are predicted.
            target: given targets.
            trust: how probably each is right.
        """
        from sklearn.base import clone

        def predicted(fold: tuple[Any, Any]) -> Array:
            trained, held_out = fold
            trusted = trained[trust[trained] > LEAST_TRUST]
            rows = trusted if len(trusted) else trained
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a model that has not converged still predicts
                model = clone(self.estimator).fit(self._rows(rows), target[rows])
                return np.asarray(model.predict(self._rows(held_out)), np.float64).reshape(-1)

        prediction = np.empty(len(target))
        for (_, held_out), one in zip(folds, divided(folds, predicted), strict=True):
            prediction[held_out] = one
        if not np.isfinite(prediction).all():
            raise SourceError(f"model= {self.name} predicts values that are not finite")
        return prediction

    def _rows(self, rows: Any) -> Any:
        return self.inputs.iloc[rows] if hasattr(self.inputs, "iloc") else self.inputs[rows]


def own_regressor(source: AuditSource, estimator: Any) -> OwnRegressor:
    """The regressor of the user, which gets the inputs as they are.

    Raises:
        SourceError: it cannot be used.
    """
    from sklearn.base import is_regressor

    name = type(estimator).__name__
    if not hasattr(estimator, "fit") or not hasattr(estimator, "predict"):
        raise SourceError(
            f"model= is a {name} without fit and predict: give a scikit-learn regressor"
        )
    if not is_regressor(estimator):
        raise SourceError(
            f"model= is a {name}, which predicts classes, and these labels are regression "
            "targets: give a regressor, or regression=False"
        )
    inputs = source.contents.raw_inputs()
    if inputs is None:
        raise SourceError("model= an estimator learns from texts, tables and features, not images")
    return OwnRegressor(estimator, inputs)
