"""Estimators of the user: what cannot be used, or fails, ends the audit with one clear sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from discrimloss import AuditResult, DiscrimLossError, audit
from discrimloss.auditing.out_of_fold.own_estimator import LONGEST_REASON, OwnModel
from discrimloss.cli import main

ROWS = 60
POINTS = np.random.default_rng(0).normal(size=(ROWS, 2)) + 4.0 * (np.arange(ROWS) % 2)[:, None]
CLASSES = np.array(["a", "b"])[np.arange(ROWS) % 2]
TARGETS = POINTS @ [2.0, 1.0]


class Plain:
    """An estimator that is not derived from scikit-learn's. Predicts what training suggests."""

    def fit(self, inputs: Any, target: Any) -> None:
        self.classes_ = np.unique(target)
        self.mean = float(np.mean(target))

    def predict(self, inputs: Any) -> Any:
        return np.full(len(inputs), self.mean)

    def predict_proba(self, inputs: Any) -> Any:
        return np.full((len(inputs), len(self.classes_)), 1.0 / len(self.classes_))


class Deaf(Plain):
    def fit(self, inputs: Any, target: Any) -> None:
        raise RuntimeError("no\nGPU " + "x" * 2 * LONGEST_REASON)


class Mute(Plain):
    def predict(self, inputs: Any) -> Any:
        raise KeyError("weights")

    def predict_proba(self, inputs: Any) -> Any:
        raise KeyError("weights")


class Lost(Plain):
    def predict(self, inputs: Any) -> Any:
        return np.where(np.arange(len(inputs)) == 1, np.nan, self.mean)

    def predict_proba(self, inputs: Any) -> Any:
        found = super().predict_proba(inputs)
        found[1] = np.nan
        return found


class Wide(Plain):
    def predict(self, inputs: Any) -> Any:
        return np.zeros((len(inputs), 3))

    def predict_proba(self, inputs: Any) -> Any:
        return np.full((len(inputs), 3), 1 / 3)


class Flat(Plain):
    def predict_proba(self, inputs: Any) -> Any:
        return np.full(len(inputs), 0.5)


class Short(Plain):
    def predict(self, inputs: Any) -> Any:
        return np.zeros(len(inputs) - 1)

    def predict_proba(self, inputs: Any) -> Any:
        return super().predict_proba(inputs)[:-1]


class Logits(Plain):
    def predict_proba(self, inputs: Any) -> Any:
        return np.tile([-3.0, 4.0], (len(inputs), 1))


class Unnamed(Plain):
    def fit(self, inputs: Any, target: Any) -> None:
        super().fit(inputs, target)
        self.__dict__["classes"] = self.__dict__.pop("classes_")


class Narrow(Plain):
    def fit(self, inputs: Any, target: Any) -> None:
        super().fit(inputs, target)
        self.classes_ = self.classes_[:1]


class Words(Plain):
    def fit(self, inputs: Any, target: Any) -> None:
        super().fit(inputs, target)
        self.classes_ = np.array(["a", "b"])


class Unfit:
    def predict(self, inputs: Any) -> Any:
        return np.zeros(len(inputs))

    predict_proba = predict


def of_classes(model: Any, points: Any = POINTS) -> AuditResult:
    return audit((points, CLASSES), model=model, progress=False)


def of_targets(model: Any, points: Any = POINTS) -> AuditResult:
    return audit((points, TARGETS), model=model, regression=True, progress=False)


def refusal(model: Any, do: Any, *data: Any) -> str:
    with pytest.raises(DiscrimLossError) as caught:
        do(model, *data)
    sentence = str(caught.value)
    assert caught.value.exit_code == 2
    assert "\n" not in sentence
    assert not sentence.endswith(".")
    assert "model=" in sentence
    return sentence


def test_an_estimator_that_fails_leaves_the_earlier_audit(tmp_path: Path) -> None:
    place = tmp_path / "audit"
    audit((POINTS, CLASSES), model=Plain(), out=place, progress=False)
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    with pytest.raises(DiscrimLossError, match="Deaf"):
        audit((POINTS, CLASSES), model=Deaf(), out=place, overwrite=True, progress=False)
    assert {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("do", [of_classes, of_targets])
class TestBoth:
    def test_a_class_is_not_an_estimator(self, do: Any) -> None:
        sentence = refusal(Plain, do)
        assert sentence == "model= is the class Plain: pass an estimator, such as model=Plain()"

    def test_without_fit(self, do: Any) -> None:
        assert "Unfit without fit: pass a scikit-learn" in refusal(Unfit(), do)
        assert "object without fit and predict" in refusal(object(), do)
        assert "NoneType without fit and predict" in refusal(None, do)

    def test_an_error_in_fit(self, do: Any) -> None:
        sentence = refusal(Deaf(), do)
        assert sentence.startswith("fit of model= Deaf raises RuntimeError (no GPU x")
        labels = " and labels from 0 to 1" if do is of_classes else ""
        assert f"x ...) for an array of shape (54, 2){labels}: fit it to these rows" in sentence

    def test_an_error_in_predict(self, do: Any) -> None:
        assert "of model= Mute raises KeyError ('weights') for an array" in refusal(Mute(), do)

    def test_predictions_that_are_not_finite(self, do: Any) -> None:
        sentence = refusal(Lost(), do)
        assert "of model= Lost returns values that are not finite in 1 of 6 rows" in sentence

    @pytest.mark.parametrize("model", [Wide(), Short()])
    def test_predictions_of_another_shape(self, do: Any, model: Any) -> None:
        sentence = refusal(model, do)
        assert f"model= {type(model).__name__} returns the shape (" in sentence
        assert "it must return " in sentence

    def test_an_estimator_that_is_not_of_scikit_learn_can_be_used(self, do: Any) -> None:
        assert do(Plain()).summary["model"].startswith("Plain")

    def test_texts_and_columns_are_named(self, do: Any) -> None:
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        model = RandomForestClassifier(2) if do is of_classes else RandomForestRegressor(2)
        texts = [f"word{row} and more of it" for row in range(ROWS)]
        sentence = refusal(model, do, texts)
        assert "ValueError (could not convert string to float" in sentence
        assert "for an array of 54 texts" in sentence
        assert ": it gets plain texts, not a column: put a vectorizer first" in sentence
        frame = pd.DataFrame({"x": POINTS[:, 0], "size": np.array(["S", "L"])[np.arange(ROWS) % 2]})
        frame["label"] = CLASSES if do is of_classes else TARGETS
        with pytest.raises(DiscrimLossError) as caught:
            audit(frame, "label", model=model, progress=False)
        assert "a data frame of 54 rows with 'x' (float64), 'size' (object)" in str(caught.value)


class TestClassifiers:
    def test_a_regressor_is_refused(self) -> None:
        from sklearn.linear_model import LinearRegression

        sentence = refusal(LinearRegression(), of_classes)
        assert "LinearRegression is a regressor, but these labels are classes" in sentence

    def test_one_without_probabilities_is_refused(self) -> None:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import LinearSVC

        assert "LinearSVC has no predict_proba, but" in refusal(LinearSVC(), of_classes)
        pipeline = make_pipeline(StandardScaler(), LinearSVC())
        assert "Pipeline has no predict_proba, but" in refusal(pipeline, of_classes)

    def test_a_class_is_missing(self) -> None:
        sentence = refusal(Narrow(), of_classes)
        assert "Narrow has the classes_ [0] after it was fitted to labels from 0 to 1" in sentence

    def test_other_names_of_classes(self) -> None:
        assert "Words has the classes_ ['a', 'b'] after" in refusal(Words(), of_classes)

    def test_no_names_of_classes(self) -> None:
        assert "Unnamed has no classes_ after fit" in refusal(Unnamed(), of_classes)

    def test_one_column(self) -> None:
        sentence = refusal(Flat(), of_classes)
        assert "returns the shape (6,) for an array of shape (6, 2) and 2 classes" in sentence

    def test_values_that_are_not_probabilities(self) -> None:
        sentence = refusal(Logits(), of_classes)
        assert "Logits returns values from -3 to 4 with row sums from 1 to 1" in sentence

    def test_positions_have_no_gap_where_a_class_is_missing_in_training(self) -> None:
        seen = []

        class Strict(Plain):
            def fit(self, inputs: Any, target: Any) -> None:
                seen.append(np.unique(target).tolist())
                super().fit(inputs, target)

        model = OwnModel(Strict()).fit(np.zeros((4, 1)), np.array([0, 2, 5, 5]))
        assert seen == [[0, 1, 2]]
        np.testing.assert_array_equal(model.classes_, [0, 2, 5])

    def test_images_are_refused(self) -> None:
        from sklearn.naive_bayes import GaussianNB

        pictures = np.zeros((ROWS, 16, 16, 3), np.uint8)
        assert "GaussianNB cannot learn from images" in refusal(GaussianNB(), of_classes, pictures)


class TestRegressors:
    def test_a_classifier_is_refused(self) -> None:
        from sklearn.naive_bayes import GaussianNB

        sentence = refusal(GaussianNB(), of_targets)
        assert "GaussianNB is a classifier, but these labels are regression targets" in sentence

    def test_something_else_is_refused(self) -> None:
        from sklearn.cluster import KMeans

        assert "KMeans is a clusterer, but these labels" in refusal(KMeans(2), of_targets)

    def test_one_column_is_enough(self) -> None:
        from sklearn.linear_model import LinearRegression

        class Column(LinearRegression):  # type: ignore[misc]
            def predict(self, inputs: Any) -> Any:
                return super().predict(inputs)[:, None]

        one, other = of_targets(Column()), of_targets(LinearRegression())
        np.testing.assert_array_equal(one.verdicts.score, other.verdicts.score)


def test_the_command_line_has_no_estimators(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pd.DataFrame({"x": POINTS[:, 0], "label": CLASSES}).to_csv(tmp_path / "table.csv")
    command = ["audit", str(tmp_path / "table.csv"), "--label", "label", "--model", "GaussianNB()"]
    assert main([*command, "--out", str(tmp_path / "audit")]) == 2
    assert "--model must be auto or network, not GaussianNB(); in Python" in capsys.readouterr().err
    assert not (tmp_path / "audit").exists()
