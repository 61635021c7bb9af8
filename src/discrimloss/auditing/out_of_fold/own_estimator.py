"""A scikit-learn estimator from the user, cross-validated instead of the default models.

If the estimator cannot be used or fails, the audit ends with a message that names the estimator,
its inputs, and what to do.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.out_of_fold.candidates import Candidate
from discrimloss.auditing.out_of_fold.folds import rows_of
from discrimloss.auditing.sources.base import AuditSource, SourceError
from discrimloss.training.processes import divided

Array = npt.NDArray[np.float64]
LEAST_TRUST = 0.5
"""Targets that are less likely to be correct are left out: many regressors take no weights."""
SUM_TOLERANCE = 0.01
"""Largest difference between 1 and the sum of the probabilities of a sample."""
LONGEST_REASON = 200
"""Maximum number of characters of the estimator's own message."""
MOST_COLUMNS = 5

CLASSIFIER, REGRESSOR = "classifier", "regressor"


@dataclass(frozen=True)
class OwnEstimator:
    """An estimator and its inputs."""

    estimator: Any
    inputs: Any
    """One row per sample: texts, a data frame of the columns, or an array of features."""

    @property
    def name(self) -> str:
        """Name for the summary and for messages."""
        return type(self.estimator).__name__

    def candidate(self) -> Candidate:
        """Return the classifier as a model to cross-validate."""
        make = partial(OwnModel, self.estimator)
        return Candidate(self.name, self.inputs, make, takes_weights=False)

    def predict(self, folds: Sequence[tuple[Any, Any]], target: Array, trust: Array) -> Array:
        """Return the regressor's out-of-fold predictions, shape (samples,), in the targets' unit.

        Args:
            folds: training samples and predicted samples of each fold.
            target: given targets.
            trust: probability that each target is correct.
        """

        def predicted(fold: tuple[Any, Any]) -> Array:
            trained, held_out = fold
            trusted = trained[trust[trained] > LEAST_TRUST]
            rows = trusted if len(trusted) else trained
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a model that has not converged still predicts
                model = OwnModel(self.estimator).fit(rows_of(self.inputs, rows), target[rows])
                return model.predict(rows_of(self.inputs, held_out))

        prediction = np.empty(len(target))
        for (_, held_out), one in zip(folds, divided(folds, predicted), strict=True):
            prediction[held_out] = one
        return prediction


class OwnModel:
    """A clone of an estimator with checked predictions and clear errors.

    Args:
        estimator: the user's estimator.
    """

    def __init__(self, estimator: Any) -> None:
        self._estimator, self._name = estimator, type(estimator).__name__
        self.classes_: npt.NDArray[np.int64]
        """The class of each column of `predict_proba`."""

    def fit(self, inputs: Any, target: Any) -> OwnModel:
        """Fit the clone.

        Args:
            inputs: one row per sample.
            target: regression targets, or positions of classes (int64). If classes are missing, the
                estimator gets 0, 1, 2, ... instead, because some estimators accept nothing else.
        """
        from sklearn.base import clone

        is_classes = np.issubdtype(target.dtype, np.integer)
        known, positions = np.unique(target, return_inverse=True) if is_classes else (None, target)
        labels = "" if known is None else f" and labels from 0 to {len(known) - 1}"
        with self._explained("fit", inputs, labels):
            self._model = clone(self._estimator, safe=False)
            self._model.fit(inputs, positions)
        if known is not None:
            self.classes_ = known[self._positions_of_columns(len(known))]
        return self

    def predict(self, inputs: Any) -> Array:
        """Return finite regression targets, shape (samples,)."""
        with self._explained("predict", inputs):
            found = np.asarray(self._model.predict(inputs), np.float64)
        if found.shape not in ((len(inputs),), (len(inputs), 1)):
            raise SourceError(
                f"predict of model= {self._name} returns the shape {found.shape} for "
                f"{_described(inputs)}: it must return one number for each row, shape "
                f"({len(inputs)},)"
            )
        self._require_finite("predict", found, inputs)
        return found.reshape(-1)

    def predict_proba(self, inputs: Any) -> Array:
        """Return probabilities, shape (samples, classes), with columns as in `classes_`."""
        with self._explained("predict_proba", inputs):
            found = np.asarray(self._model.predict_proba(inputs), np.float64)
        expected = (len(inputs), len(self.classes_))
        if found.shape != expected:
            raise SourceError(
                f"predict_proba of model= {self._name} returns the shape {found.shape} for "
                f"{_described(inputs)} and {expected[1]} classes: it must return {expected}, a "
                "column for each of its classes_"
            )
        self._require_finite("predict_proba", found, inputs)
        if found.min() < 0.0 or np.abs(found.sum(1) - 1.0).max() > SUM_TOLERANCE:
            raise SourceError(
                f"predict_proba of model= {self._name} returns values from {found.min():.3g} to "
                f"{found.max():.3g} with row sums from {found.sum(1).min():.3g} to "
                f"{found.sum(1).max():.3g} for {_described(inputs)}: it must return probabilities "
                "that sum to 1 in each row; wrap it in a CalibratedClassifierCV, or take a softmax"
            )
        return found

    def _positions_of_columns(self, number: int) -> npt.NDArray[np.int64]:
        """Return the class of each column of ``predict_proba``, as the position of a label."""
        learned = getattr(self._model, "classes_", None)
        if learned is None:
            raise SourceError(
                f"model= {self._name} has no classes_ after fit, so the columns of predict_proba "
                "cannot be told apart: set self.classes_ = numpy.unique(y) in fit"
            )
        columns: npt.NDArray[Any] = np.asarray(learned)
        if columns.ndim != 1 or sorted(columns.tolist(), key=str) != sorted(range(number), key=str):
            raise SourceError(
                f"model= {self._name} has the classes_ {columns.tolist()} after it was fitted to "
                f"labels from 0 to {number - 1}: classes_ must hold each of these labels once; use "
                "an estimator that learns all classes"
            )
        return columns.astype(np.int64)

    def _require_finite(self, method: str, found: Array, inputs: Any) -> None:
        broken = int((~np.isfinite(found)).any(axis=tuple(range(1, found.ndim))).sum())
        if broken:
            raise SourceError(
                f"{method} of model= {self._name} returns values that are not finite in {broken} "
                f"of {len(inputs)} rows, for {_described(inputs)}: scale the inputs, regularise "
                "the estimator, or leave out model="
            )

    @contextmanager
    def _explained(self, method: str, inputs: Any, labels: str = "") -> Iterator[None]:
        try:
            yield
        except Exception as error:
            reason = " ".join(str(error).split())
            if len(reason) > LONGEST_REASON:
                reason = reason[:LONGEST_REASON].rstrip() + " ..."
            raise SourceError(
                f"{method} of model= {self._name} raises {type(error).__name__} "
                f"({reason or 'without a message'}) for {_described(inputs)}{labels}: "
                f"{_advice(inputs)}"
            ) from error


def own_estimator(source: AuditSource, estimator: Any) -> OwnEstimator:
    """Return the user's estimator with its inputs.

    Raises:
        SourceError: the estimator cannot be used for this source.
    """
    wanted = REGRESSOR if source.is_regression else CLASSIFIER
    name = type(estimator).__name__
    if inspect.isclass(estimator):
        raise SourceError(
            f"model= is the class {estimator.__name__}: pass an estimator, such as "
            f"model={estimator.__name__}()"
        )
    kind = _kind(estimator)
    if source.is_regression and kind not in (REGRESSOR, None):
        raise SourceError(
            f"model= {name} is a {kind}, but these labels are regression targets: pass a "
            "regressor, or regression=False to audit them as classes"
        )
    if not source.is_regression and kind not in (CLASSIFIER, None):
        raise SourceError(
            f"model= {name} is a {kind}, but these labels are classes: pass a classifier with "
            "predict_proba, or regression=True if they are regression targets"
        )
    needed = ("fit", "predict" if source.is_regression else "predict_proba")
    missing = [method for method in needed if not hasattr(estimator, method)]
    if missing == ["predict_proba"]:
        raise SourceError(
            f"model= {name} has no predict_proba, but an audit needs probabilities: pass a "
            "classifier that has it, or wrap this one in a CalibratedClassifierCV"
        )
    if missing:
        raise SourceError(
            f"model= is a {name} without {' and '.join(missing)}: pass a scikit-learn {wanted}, or "
            "leave out model="
        )
    inputs = source.contents.raw_inputs()
    if inputs is None:
        raise SourceError(
            f"model= {name} cannot learn from images: audit their features as (X, y), or leave "
            "out model="
        )
    return OwnEstimator(estimator, inputs)


def _kind(estimator: Any) -> str | None:
    """Return the kind of an estimator according to scikit-learn, or None if unknown."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    try:
        found = getattr(estimator, "_estimator_type", None) if tags is None else tags()
    except (AttributeError, TypeError):  # a class that does not call its base classes
        return None
    kind = found if isinstance(found, str) else getattr(found, "estimator_type", None)
    return None if kind is None else str(kind).replace("_", " ")


def _described(inputs: Any) -> str:
    """Describe the inputs of an estimator, such as "an array of shape (96, 4)"."""
    if hasattr(inputs, "iloc"):
        columns = [f"{name!r} ({inputs[name].dtype})" for name in inputs.columns[:MOST_COLUMNS]]
        more = len(inputs.columns) - len(columns)
        rest = f" and {more} more" if more else ""
        return f"a data frame of {len(inputs)} rows with {', '.join(columns)}{rest}"
    if inputs.dtype == object:
        return f"an array of {len(inputs)} texts"
    return f"an array of shape {inputs.shape}"


def _advice(inputs: Any) -> str:
    if hasattr(inputs, "iloc"):
        return (
            "if it takes no such columns, encode categories and fill in missing values before it, "
            "in a Pipeline"
        )
    if inputs.dtype == object:
        return (
            "it gets plain texts, not a column: put a vectorizer first, as in "
            "make_pipeline(TfidfVectorizer(), LogisticRegression())"
        )
    return "fit it to these rows without the audit to find the cause"
