"""The audit, and other ways to find wrong labels.

A method is a function from samples to a `Finding`. Methods that use the same cross-validation or
training run share it through `Shared`. The time of each method includes everything that it needs.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from benchmarks.audit_figures import Finding
from benchmarks.audit_network import (
    TrainedNetwork,
    Training,
    train,
    with_threshold_samples,
)
from benchmarks.audit_sets import FOLDS, Samples
from discrimloss import audit

AUM_PERCENTILE = 99
"""Percentile of the margins of threshold samples, as in the paper."""
MIXTURE = {"max_iter": 10, "tol": 1e-2, "reg_covar": 5e-4}
"""The options with which DivideMix fits its mixture."""
NEIGHBOURS = 10
SMALLEST_PROBABILITY = 1e-6
RESIDUALS_FLAGGED = 3.0
"""Threshold in standard deviations, which are estimated from the median absolute deviation."""
MEDIAN_TO_DEVIATION = 1.4826
Array = npt.NDArray[Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Method:
    """A way to find wrong labels."""

    title: str
    find: Callable[[Shared], Finding]
    needs: tuple[str, ...] = ()
    """Parts of `Shared` that the method uses. Their time counts as its own."""


class Shared:
    """Samples, and results that several methods share. Each result is made once and timed.

    Args:
        samples: the samples with their given labels.
        seed: seed of the networks.
        training: settings of the networks' training.
    """

    def __init__(self, samples: Samples, seed: int, training: Training | None = None) -> None:
        self.samples, self.seed = samples, seed
        self.training = training or Training()
        self.seconds: dict[str, float] = {}

    @cached_property
    def labels(self) -> Array:
        """The given labels, as positions in the classes that occur. Rivals know only these."""
        positions: Array = np.unique(self.samples.target, return_inverse=True)[1]
        return positions

    @property
    def classes(self) -> int:
        """Classes that occur among the given labels."""
        return int(self.labels.max()) + 1

    @cached_property
    def out_of_fold(self) -> Array:
        """Probabilities of the simple model for the kind, shape (samples, classes)."""
        return self._timed("out_of_fold", lambda: out_of_fold(self.samples, self.labels))

    @cached_property
    def residuals(self) -> Array:
        """Regression targets minus their out-of-fold predictions."""
        return self._timed("residuals", lambda: out_of_fold_residuals(self.samples))

    @cached_property
    def network(self) -> TrainedNetwork:
        """A network trained on all labels."""
        return self._timed("network", lambda: self._train(self.labels, self.classes))

    @cached_property
    def threshold_network(self) -> tuple[TrainedNetwork, npt.NDArray[np.bool_]]:
        """A network trained with threshold samples, and a mask of these samples."""
        labels, is_threshold = with_threshold_samples(self.labels, self.classes, self.seed)
        network = self._timed("threshold_network", lambda: self._train(labels, self.classes + 1))
        return network, is_threshold

    def _train(self, labels: Array, classes: int) -> TrainedNetwork:
        return train(self.samples.features, labels, classes, self.seed, self.training)

    def _timed(self, name: str, make: Callable[[], T]) -> T:
        started = time.process_time()
        made = make()
        self.seconds[name] = time.process_time() - started
        return made


def run_method(method: Method, shared: Shared) -> tuple[Finding, float]:
    """Return the finding of a method, and its CPU seconds, including those of all it needs."""
    for need in method.needs:
        getattr(shared, need)
    started = time.process_time()
    finding = method.find(shared)
    own = time.process_time() - started
    return finding, own + sum(shared.seconds[need] for need in method.needs)


# ------------------------------------------------------------------------------------ the audit


def find_audit(shared: Shared, noise_rate: float | None = None) -> Finding:
    """Run `discrimloss.audit` with its defaults, or with a given noise rate."""
    samples = shared.samples
    options: dict[str, Any] = {"threads": 1, "noise_rate": noise_rate, "progress": False}
    if samples.kind in ("features", "images"):
        result = audit((samples.inputs, samples.target), **options)
    else:
        is_regression = samples.kind == "regression"
        labels = samples.target if is_regression else [f"class {n}" for n in samples.target]
        result = audit(
            samples.inputs.assign(given_label=labels),
            "given_label",
            text="text" if samples.kind == "texts" else None,
            regression=is_regression,
            **options,
        )
    verdicts = result.verdicts
    if len(verdicts) != len(samples.target):
        raise ValueError(f"the audit left out {len(samples.target) - len(verdicts)} samples")
    suspicion = np.empty(len(verdicts))
    suspicion[verdicts.order] = -np.arange(len(verdicts), dtype=np.float64)  # the worst come first
    return Finding(
        verdicts.verdict == "incorrect",
        result.noise_rate,
        suspicion,
        verdicts.p_incorrect.astype(np.float64),
        result.noise_interval,
    )


# --------------------------------------------------------------------------------------- rivals


def out_of_fold(samples: Samples, labels: Array) -> Array:
    """Return out-of-fold probabilities, shape (samples, classes)."""
    from sklearn.model_selection import StratifiedKFold

    inputs, make = simple_model(samples)
    made = np.full((len(labels), int(labels.max()) + 1), SMALLEST_PROBABILITY)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rare classes; models that have not converged
        for fitted, held in folds.split(np.zeros(len(labels)), labels):
            if len(np.unique(labels[fitted])) < 2:
                continue
            model = make().fit(inputs[fitted], labels[fitted])
            made[np.ix_(held, model.classes_)] += model.predict_proba(inputs[held])
    return made / made.sum(1, keepdims=True)


def simple_model(samples: Samples) -> tuple[Any, Callable[[], Any]]:
    """Return the inputs and the model for a kind of data."""
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    if samples.kind == "texts":
        words = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2))
        inputs = words.fit_transform(samples.inputs["text"])
        return inputs, lambda: LogisticRegression(C=10, max_iter=300)
    if samples.kind == "tables":
        inputs = numeric_columns(samples)
        return inputs, lambda: HistGradientBoostingClassifier(random_state=0)
    if samples.kind == "images":
        return samples.features, lambda: ExtraTreesClassifier(100, random_state=0)
    return samples.features, lambda: LogisticRegression(C=0.01, max_iter=300)


def numeric_columns(samples: Samples) -> Array:
    """Return the columns of a table as numbers. Categories become their positions."""
    import pandas as pd

    numbers = {
        name: column if pd.api.types.is_numeric_dtype(column) else pd.factorize(column)[0]
        for name, column in samples.inputs.items()
    }
    values: Array = pd.DataFrame(numbers).to_numpy(np.float64)
    return values


def find_cleanlab(shared: Shared) -> Finding:
    """Run cleanlab with its defaults."""
    from cleanlab.count import num_label_issues
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    labels, probabilities = shared.labels, shared.out_of_fold
    quality = get_label_quality_scores(labels, probabilities)
    return Finding(
        find_label_issues(labels, probabilities, n_jobs=1),
        num_label_issues(labels, probabilities) / len(labels),
        -quality,
        1.0 - quality,
    )


def find_low_confidence(shared: Shared) -> Finding:
    """Score labels by their probability minus the mean probability of their class.

    A label is flagged if another class has a higher probability after its mean is subtracted.
    """
    labels, probabilities = shared.labels, shared.out_of_fold
    own = probabilities[np.arange(len(labels)), labels]
    counts = np.maximum(np.bincount(labels, minlength=shared.classes), 1)
    average = np.bincount(labels, own, shared.classes) / counts
    flagged = (probabilities - average).argmax(1) != labels
    return Finding(flagged, float(flagged.mean()), average[labels] - own)


def find_neighbours(shared: Shared) -> Finding:
    """Use the vote of the nearest neighbours in feature space: SimiFeat (Zhu et al., 2022)."""
    from sklearn.neighbors import NearestNeighbors

    features, labels = shared.samples.features, shared.labels
    number = min(NEIGHBOURS, len(labels) - 1)
    search = NearestNeighbors(n_neighbors=number, metric="cosine").fit(features)
    distances, rows = search.kneighbors()
    votes = np.zeros((len(labels), shared.classes))
    everyone = np.repeat(np.arange(len(labels)), number)
    np.add.at(votes, (everyone, labels[rows].ravel()), 1.0 - distances.ravel() / 2.0)
    votes /= votes.sum(1, keepdims=True)
    flagged = votes.argmax(1) != labels
    return Finding(flagged, float(flagged.mean()), -votes[np.arange(len(labels)), labels])


def find_aum(shared: Shared) -> Finding:
    """Use the area under the margin (Pleiss et al., 2020).

    The run on all labels ranks the labels, and the run with threshold samples flags them. In the
    second run, threshold samples have no margin of their own label. They get that of the first run.
    """
    plain = shared.network.margins
    network, is_threshold = shared.threshold_network
    cut = np.percentile(network.margins[is_threshold], AUM_PERCENTILE)
    flagged = np.where(is_threshold, plain, network.margins) < cut
    return Finding(flagged, float(flagged.mean()), -plain)


def find_small_loss(shared: Shared) -> Finding:
    """Use the losses of the trained network, as in DivideMix (Li et al., 2020)."""
    return small_loss(shared.network.losses, shared.seed)


def small_loss(losses: Array, seed: int) -> Finding:
    """Fit two normal distributions. Labels of the one with the larger losses are flagged."""
    from sklearn.mixture import GaussianMixture

    low, high = float(losses.min()), float(losses.max())
    scaled = ((losses.astype(np.float64) - low) / max(high - low, 1e-12))[:, None]
    mixture = GaussianMixture(2, random_state=seed, **MIXTURE)
    with warnings.catch_warnings():
        # DivideMix stops after ten iterations, whether the fit has converged or not.
        warnings.filterwarnings("ignore", "Best performing initialization did not converge")
        mixture.fit(scaled)
    p_incorrect = mixture.predict_proba(scaled)[:, mixture.means_[:, 0].argmax()]
    return Finding(
        p_incorrect > 0.5,
        float(p_incorrect.mean()),
        losses.astype(np.float64),
        p_incorrect,
    )


# ----------------------------------------------------------------------------------- regression


def out_of_fold_residuals(samples: Samples) -> Array:
    """Return targets minus out-of-fold predictions of gradient boosting."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import cross_val_predict

    model = HistGradientBoostingRegressor(random_state=0)
    inputs = numeric_columns(samples)
    residuals: Array = samples.target - cross_val_predict(model, inputs, samples.target, cv=FOLDS)
    return residuals


def find_residuals(shared: Shared) -> Finding:
    """Rank by absolute residuals. Flag those beyond three robust standard deviations."""
    sizes = np.abs(shared.residuals)
    flagged = sizes > RESIDUALS_FLAGGED * MEDIAN_TO_DEVIATION * np.median(sizes)
    return Finding(flagged, float(flagged.mean()), sizes)


def find_datalab(shared: Shared) -> Finding:
    """Run cleanlab's Datalab on the same predictions. Its scores are not probabilities."""
    from cleanlab import Datalab

    target = shared.samples.target
    lab = Datalab({"label": target}, task="regression", label_name="label", verbosity=0)
    lab.find_issues(pred_probs=target - shared.residuals, issue_types={"label": {}})
    return _from_issues(lab.get_issues("label"), "label_score")


def find_clean_learning(shared: Shared) -> Finding:
    """Run cleanlab's regression, which cross-validates gradient boosting itself."""
    from cleanlab.regression.learn import CleanLearning
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = CleanLearning(model=HistGradientBoostingRegressor(random_state=0), seed=0)
    issues = model.find_label_issues(numeric_columns(shared.samples), shared.samples.target)
    return _from_issues(issues, "label_quality")


def _from_issues(issues: Any, score: str) -> Finding:
    flagged = issues["is_label_issue"].to_numpy(np.bool_)
    return Finding(flagged, float(flagged.mean()), -issues[score].to_numpy(np.float64))


OURS = "audit"
CLASS_METHODS = {
    OURS: Method("audit", find_audit),
    "cleanlab": Method("cleanlab", find_cleanlab, ("out_of_fold",)),
    "confidence": Method("confidence", find_low_confidence, ("out_of_fold",)),
    "neighbours": Method("neighbours", find_neighbours),
    "aum": Method("AUM", find_aum, ("network", "threshold_network")),
    "small loss": Method("small loss", find_small_loss, ("network",)),
}
REGRESSION_METHODS = {
    OURS: Method("audit", find_audit),
    "cleanlab": Method("cleanlab", find_clean_learning),
    "datalab": Method("Datalab", find_datalab, ("residuals",)),
    "residuals": Method("residuals", find_residuals, ("residuals",)),
}


def methods_of(kind: str) -> dict[str, Method]:
    """Return all methods for a kind of data, ours first."""
    return REGRESSION_METHODS if kind == "regression" else CLASS_METHODS
