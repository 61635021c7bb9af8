"""Audits that cross-validate simple models: texts, tables, features, and a user's estimator."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discrimloss import AuditResult, audit
from discrimloss.auditing.out_of_fold import choose, regression
from discrimloss.auditing.sources import word_vectors
from discrimloss.auditing.sources.column_features import ordinal_values
from discrimloss.auditing.sources.columns import plan_columns
from discrimloss.cli import main

WORDS = {"sea": "boat wave fish salt sail", "sky": "cloud wing star wind bird"}
SAMPLES, WRONG = 120, 12


def texts() -> tuple[list[str], list[str]]:
    """Texts of two topics; the first `WRONG` have the label of the other topic."""
    generator = np.random.default_rng(0)
    topics = [("sea", "sky")[row % 2] for row in range(SAMPLES)]
    found = [" ".join(generator.choice(WORDS[topic].split(), 6)) for topic in topics]
    labels = [("sky", "sea")[row % 2] if row < WRONG else t for row, t in enumerate(topics)]
    return found, labels


def table() -> pd.DataFrame:
    """Numbers, a category and missing values; the first `WRONG` rows have a wrong label."""
    generator = np.random.default_rng(1)
    true = np.arange(SAMPLES) % 2
    size = 4.0 * true + generator.normal(size=SAMPLES)
    size[::17] = np.nan
    colour = np.where(generator.random(SAMPLES) < 0.9, np.array(["red", "blue"])[true], "red")
    given = np.where(np.arange(SAMPLES) < WRONG, 1 - true, true)
    return pd.DataFrame({"size": size, "colour": colour, "kind": np.array(["a", "b"])[given]})


def found(result: AuditResult) -> int:
    """How many of the first `WRONG` samples of the list have a wrong label."""
    return int((result.verdicts.order[:WRONG] < WRONG).sum())


@pytest.mark.parametrize("encoder", [None, "auto", "none"])
def test_texts(encoder: str | None) -> None:
    result = audit(texts(), encoder=encoder, progress=False)
    assert found(result) == WRONG
    assert result.noise_rate == pytest.approx(WRONG / SAMPLES, abs=0.05)
    assert "TF-IDF + logistic regression" in result.summary["model"]
    assert "10-fold cross-validation" in result.summary["model"]
    assert result.verdicts.average_loss is not None


def test_without_word_vectors_a_note_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "has_word_vectors", lambda: False)
    with_note = audit(texts(), progress=False)
    assert choose.WITHOUT_VECTORS in with_note.notes
    assert "word vectors" not in with_note.summary["model"]
    refused = audit(texts(), encoder="none", progress=False)
    assert choose.WITHOUT_VECTORS not in refused.notes


def test_texts_of_one_word_are_compared_by_their_characters() -> None:
    generator = np.random.default_rng(0)
    labels = np.arange(200) % 2
    names = ["".join(generator.choice(list("abcde" if one else "vwxyz"), 9)) for one in labels]
    result = audit((names, labels.astype(str)), encoder="none", progress=False)
    assert "characters" in result.summary["model"]
    assert result.verdicts.counts["easy"] == 200


def test_tables() -> None:
    result = audit(table(), "kind", progress=False)
    assert found(result) >= WRONG - 1
    assert result.noise_rate == pytest.approx(WRONG / SAMPLES, abs=0.05)
    assert "; 10-fold cross-validation" in result.summary["model"]


def test_runs_have_other_folds_and_are_combined() -> None:
    one, other, both = (
        audit(table(), "kind", progress=False, **options)
        for options in ({}, {"seed": 1}, {"runs": 2})
    )
    mean = (one.verdicts.p_incorrect + other.verdicts.p_incorrect) / 2
    np.testing.assert_allclose(both.verdicts.p_incorrect, mean, atol=1e-6)


def test_trees_get_numbers_and_positions_of_categories() -> None:
    frame = pd.DataFrame({"number": [1.5, np.inf, 3.0], "word": ["b", None, "a"]})
    values = ordinal_values(frame, plan_columns(frame).used)
    np.testing.assert_array_equal(values, np.array([[1.5, 1.0], [np.nan, np.nan], [3.0, 0.0]]))


class TestEstimators:
    def test_one_of_the_user_is_cross_validated(self) -> None:
        from sklearn.ensemble import RandomForestClassifier

        points = table()[["size"]].fillna(2.0).to_numpy()
        result = audit(
            (points, table()["kind"]),
            model=RandomForestClassifier(20, random_state=0),
            progress=False,
        )
        assert result.summary["model"].startswith("RandomForestClassifier 100%")
        assert found(result) >= WRONG - 4

    def test_a_pipeline_gets_texts(self) -> None:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.naive_bayes import MultinomialNB
        from sklearn.pipeline import make_pipeline

        model = make_pipeline(CountVectorizer(), MultinomialNB())
        assert found(audit(texts(), model=model, progress=False)) == WRONG

    def test_a_pipeline_gets_columns(self) -> None:
        from sklearn.compose import make_column_transformer
        from sklearn.naive_bayes import GaussianNB
        from sklearn.pipeline import make_pipeline

        columns = make_column_transformer(
            ("passthrough", ["size"]), verbose_feature_names_out=False
        )
        frame = table().fillna({"size": 2.0})
        result = audit(frame, "kind", model=make_pipeline(columns, GaussianNB()), progress=False)
        assert found(result) >= WRONG - 4

    def test_a_regressor_judges_regression_targets(self) -> None:
        from sklearn.linear_model import LinearRegression

        generator = np.random.default_rng(0)
        points = generator.normal(size=(300, 2))
        right = 50.0 + points @ [3.0, -2.0] + 0.1 * generator.normal(size=300)
        given = right.copy()
        given[:20] = right[20:40]
        result = audit((points, given), model=LinearRegression(), progress=False)
        assert result.summary["model"] == "LinearRegression; cross-validation"
        is_far = np.abs(given - right) > 1.0
        assert (result.verdicts.verdict[is_far] == "incorrect").mean() > 0.9
        assert (result.verdicts.verdict[20:] == "incorrect").sum() <= 3
        np.testing.assert_allclose(result.verdicts.suggested_label, right, atol=0.6)

    def test_a_regressor_gets_texts(self) -> None:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.linear_model import Ridge
        from sklearn.pipeline import make_pipeline

        generator = np.random.default_rng(0)
        stars = generator.uniform(0.0, 1.0, 200)
        words = [" ".join(["good"] * round(20 * s) + ["bad"] * round(20 - 20 * s)) for s in stars]
        given = stars + 10.0
        given[:10] = 21.0 - given[:10]
        model = make_pipeline(CountVectorizer(), Ridge())
        result = audit((words, given), model=model, regression=True, progress=False)
        is_far = np.abs(given - 10.0 - stars) > 0.4
        assert set(np.flatnonzero(is_far)) <= set(result.verdicts.order[: is_far.sum() + 2])


class TestCommand:
    def test_it_says_what_predicted_and_resumes_to_the_same(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        table().to_csv(tmp_path / "table.csv", index=False)
        command = ["audit", str(tmp_path / "table.csv"), "--label", "kind"]
        out = tmp_path / "audit"
        assert main([*command, "--out", str(out)]) == 0
        assert "Predicted by: " in capsys.readouterr().out
        assert not (out / "runs").exists()
        summary = json.loads((out / "summary.json").read_text("utf-8"))
        assert "cross-validation" in summary["model"]
        (out / "summary.json").unlink()  # as if it had been stopped
        before = (out / "verdicts.csv").read_bytes()
        assert main([*command, "--out", str(out), "--resume"]) == 0
        assert (out / "verdicts.csv").read_bytes() == before

    def test_the_network_can_be_chosen(self, tmp_path: Path) -> None:
        table().to_csv(tmp_path / "table.csv", index=False)
        command = ["audit", str(tmp_path / "table.csv"), "--label", "kind", "--model", "network"]
        assert main([*command, "--epochs", "2", "--out", str(tmp_path / "audit")]) == 0
        summary = json.loads((tmp_path / "audit/summary.json").read_text("utf-8"))
        assert summary["model"] == "network trained with DiscrimLoss"
        assert "--model network" in summary["command"]
        assert (tmp_path / "audit/runs/1").is_dir()


@pytest.mark.skipif(not word_vectors.has_word_vectors(), reason="wordllama is not installed")
def test_word_vectors_know_what_words_mean() -> None:
    vectors = word_vectors.mean_word_vectors(["a small dog", "a little puppy", "tax law", ""])
    assert vectors.shape == (4, 256)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 0], atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2


def test_the_summary_names_the_models_of_regression_targets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 2))
    targets = 3.0 * features[:, 0] + features[:, 1] + 0.1 * generator.normal(size=200)
    few = audit((features, targets), regression=True, progress=False)
    assert "a Gaussian process" in few.summary["model"]
    monkeypatch.setattr(regression, "MOST_ROWS_OF_PROCESS", 100)
    many = audit((features, targets), regression=True, progress=False)
    assert many.summary["model"].startswith("gradient boosting on ")
    assert many.summary["model"].endswith("; cross-validation")


def test_wrong_labels_are_found_where_all_classes_are_small() -> None:
    generator = np.random.default_rng(0)
    labels = np.arange(8 * 40) % 40
    is_wrong = np.zeros(len(labels), dtype=bool)
    is_wrong[generator.choice(len(labels), 32, replace=False)] = True
    given = np.where(is_wrong, (labels + generator.integers(1, 40, len(labels))) % 40, labels)
    centres = 6.0 * generator.normal(size=(40, 12))
    points = centres[labels] + generator.normal(size=(len(labels), 12))
    verdicts = audit((points, given), regression=False, progress=False).verdicts
    found = verdicts.p_incorrect > 0.5
    assert found[is_wrong].mean() > 0.7
    assert found[~is_wrong].mean() < 0.02
