"""Why a sample is suspicious: similar samples, words, columns, how a network learned it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from discrimloss import AuditResult, Verdicts, audit
from discrimloss.auditing.evidence.clues import column_clues, word_clues
from discrimloss.auditing.evidence.learning import learning_sentence
from discrimloss.auditing.evidence.why import Evidence, Explained
from discrimloss.auditing.out_of_fold.ngrams import weighted_ngrams

WORDS = {"sea": "boat wave fish salt sail", "sky": "cloud wing star wind bird"}


def texts() -> pd.DataFrame:
    """Texts of two topics; the first six have the label of the other topic."""
    generator = np.random.default_rng(0)
    topics = [("sea", "sky")[row % 2] for row in range(120)]
    found = [" ".join(generator.choice(WORDS[topic].split(), 6)) for topic in topics]
    labels = [("sky", "sea")[row % 2] if row < 6 else t for row, t in enumerate(topics)]
    return pd.DataFrame({"text": found, "topic": labels})


# The parts.


def test_every_ngram_of_a_text_is_named() -> None:
    found = weighted_ngrams(["red boat", "red boat sinks", "sinks fast"], "word", (1, 2))
    assert sorted(found.names("red boat sinks").values()) == ["boat", "red", "red boat", "sinks"]
    assert set(found.names("red boat sinks")) == set(found.matrix[1].indices)


def test_words_that_are_more_frequent_in_the_suggested_class() -> None:
    frame = texts()
    ngrams = weighted_ngrams(frame["text"].tolist(), "word", (1, 1))
    target = (frame["topic"] == "sky").to_numpy().astype(np.int64)
    trusted = np.arange(120) >= 6
    rows, suggested = np.array([0, 1]), np.array([0, 1])
    found = word_clues(
        ngrams.matrix,
        lambda row: ngrams.names(frame["text"][row]),
        target,
        trusted,
        rows,
        suggested,
    )
    assert set(found[0].suggested) <= set(WORDS["sea"].split())
    assert set(found[1].suggested) <= set(WORDS["sky"].split())
    assert found[0].suggested
    assert found[0].given == found[1].given == ()


def test_words_that_most_texts_have_are_no_clues() -> None:
    """A word that stands out by its number of texts only says little."""
    target = np.arange(4000) % 2
    generator = np.random.default_rng(0)
    texts = [
        " ".join(
            ["boat" if label else "wind"]
            + (["its"] if generator.random() < (0.3 if label else 0.2) else [])
        )
        for label in target
    ]
    texts[0] = "boat its"
    ngrams = weighted_ngrams(texts, "word", (1, 1))
    found = word_clues(
        ngrams.matrix,
        lambda row: ngrams.names(texts[row]),
        target,
        np.arange(4000) > 0,
        np.array([0]),
        np.array([1]),
    )
    assert found[0].suggested == ("boat",)


def test_a_text_without_words_has_no_clues() -> None:
    empty = sparse.csr_matrix((3, 2))
    found = word_clues(
        empty, lambda row: {}, np.array([0, 1, 1]), np.ones(3, bool), np.array([0]), np.array([1])
    )
    assert found[0].suggested == ()


def test_columns_with_values_of_the_other_class() -> None:
    generator = np.random.default_rng(0)
    target = np.arange(200) % 2
    frame = pd.DataFrame(
        {
            "size": 10.0 * target + generator.normal(size=200),
            "noise": generator.normal(size=200),
            "colour": np.array(["red", "blue"])[target],
            "missing": np.full(200, np.nan),
            "vector": [[1.0, 2.0]] * 200,
        }
    )
    target[0] = 1  # its values are those of class 0
    found = column_clues(
        frame, target, ("ant", "bee"), np.arange(200) > 0, np.array([0]), np.array([0])
    )
    names = {clue.split(" is ")[0] for clue in found[0].suggested}
    assert names == {"size", "colour"}
    assert (
        "colour is red; this value occurs in 100 % of the samples labelled 'ant' and 0 % of those "
        "labelled 'bee'"
    ) in found[0].suggested
    assert found[0].given == ()


@pytest.mark.parametrize(
    ("predicted", "expected"),
    [
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "early, in epoch 1 of 10"),
        ([1, 0, 0, 0, 0, 0, 0, 0, 0, 0], "early, in epoch 2 of 10"),
        ([1, 1, 1, 1, 1, 1, 1, 0, 0, 0], "late, in epoch 8 of 10"),
        ([1, 1, 2, 1, 1, 1, 1, 1, 1, 1], "never learned the label 'ant': it predicted 'bee'"),
        ([0, 0, 0, 1, 1, 1, 1, 1, 1, 1], "did not retain the label 'ant'"),
        ([1, 1, 1, 1, 1, 0, 1, 0, 0, 1], "'ant': it predicted 'bee' in 2 of the last 5 epochs"),
        ([np.nan] * 7 + [0, 0, 0], None),
    ],
)
def test_how_a_network_learned(predicted: list[float], expected: str | None) -> None:
    values = np.array(predicted, dtype=np.float32)
    found = learning_sentence(values, np.arange(1, 11), 0, ("ant", "bee", "cow"))
    assert found is None if expected is None else expected in (found or "")


def test_evidence_survives_its_file(tmp_path: Path) -> None:
    one = Explained(("It is so.", "Surely."), (3, 1), (True, False), ("word",), ())
    Evidence({2: one, 5: Explained(("Alone.",))}).to_parquet(tmp_path / "evidence.parquet")
    again = Evidence.from_parquet(tmp_path / "evidence.parquet")
    assert dict(again) == {2: one, 5: Explained(("Alone.",))}
    assert again.sentences(6) == [None, None, "It is so. Surely.", None, None, "Alone."]
    Evidence().to_parquet(tmp_path / "nothing.parquet")
    assert len(Evidence.from_parquet(tmp_path / "nothing.parquet")) == 0


# In an audit.


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    out = tmp_path_factory.mktemp("audits") / "out"
    return audit(texts(), label="topic", text="text", encoder="none", out=out, progress=False)


def test_why_in_plain_words(result: AuditResult) -> None:
    why = result.why(0)
    assert why.id == "0"
    assert len(why.similar) == 5
    assert sum(other.label == "sea" for other in why.similar) >= 4
    assert set(" ".join(why.speaks_for).split()) <= set(WORDS["sea"].split())
    assert "most similar samples are labelled 'sea'" in str(why)
    assert f"Words that suggest 'sea': {', '.join(why.speaks_for)}." in why.sentences
    assert "Models that were not trained on this sample assign" in str(why)
    assert why.sentences[-1].startswith("The label is wrong with a probability of")


def test_why_of_others(result: AuditResult) -> None:
    easy = [
        index for index in np.flatnonzero(result.verdicts.code == 0) if index not in result.evidence
    ]
    assert "not suspicious" in str(result.why(str(easy[0])))
    with pytest.raises(KeyError, match="there is no sample with the id 'x'"):
        result.why("x")


def test_verdicts_carry_it(result: AuditResult) -> None:
    assert result.directory is not None
    frame = result.to_pandas()
    assert frame.loc[0, "why"] == str(result.why(0))
    kept = pd.read_parquet(result.directory / "verdicts.parquet")
    assert kept.loc[0, "why"] == str(result.why(0))
    table = pd.read_csv(result.directory / "verdicts.csv")
    assert table.set_index("index").loc[0, "why"] == str(result.why(0))
    assert len(Verdicts.from_parquet(result.directory / "verdicts.parquet")) == len(result)


def test_a_loaded_audit_says_the_same(result: AuditResult) -> None:
    assert result.directory is not None
    loaded = AuditResult.load(result.directory)
    assert loaded.why(0) == result.why(0)
    saved = AuditResult.load(result.directory, texts()).save(result.directory.parent / "saved")
    assert AuditResult.load(saved).why(0) == result.why(0)


def test_cards_and_review_show_it(result: AuditResult) -> None:
    from markupsafe import escape

    assert result.directory is not None
    page = (result.directory / "report.html").read_text(encoding="utf-8")
    worst = int(result.verdicts.order[0])
    for sentence in result.evidence[worst].sentences:
        assert str(escape(sentence)).replace(" %", "\u00a0%") in page
    session = AuditResult.load(result.directory, texts()).review_session()
    try:
        shown = session.sample(worst)
    finally:
        session.close()
    assert shown["why"] == list(result.evidence[worst].sentences)
    assert [one["label"] for one in shown["similar"]] == [
        one.label for one in result.why(worst).similar
    ]
    assert all(one["text"] for one in shown["similar"])


def test_regression_targets() -> None:
    generator = np.random.default_rng(0)
    size = generator.uniform(0, 10, 150)
    price = 3.0 * size + generator.normal(0, 0.1, 150)
    price[4] = 90.0
    frame = pd.DataFrame({"size": size, "price": price})
    found = audit(frame, label="price", regression=True, progress=False)
    text = str(found.why(4))
    assert "most similar samples have targets from" in text
    assert "times the median error" in text
