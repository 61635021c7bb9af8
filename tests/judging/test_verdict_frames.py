"""Verdicts as data frames and back: what comes back, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_verdicts import NAN, assert_same_verdicts, make_verdicts, one_of_each

from discrimloss import Verdicts

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

both_rules = pytest.mark.parametrize("rule", ["calibrated", "threshold"])


def many_verdicts(rule: Any = "calibrated") -> Verdicts:
    generator = np.random.default_rng(3)
    probability = generator.random(200).astype(np.float32)
    labels = np.array(["easy", "hard", "incorrect"])[generator.integers(0, 3, 200)]
    labels[::7], probability[::7] = "unseen", NAN
    loss = np.where(np.isnan(probability), NAN, 9.0 * probability)
    return make_verdicts(labels.tolist(), probability.tolist(), loss.tolist(), rule)


# What comes back.


@both_rules
def test_a_data_frame_gives_the_verdicts_back(rule: Any) -> None:
    verdicts = many_verdicts(rule)
    again = Verdicts.from_pandas(verdicts.to_pandas())
    assert_same_verdicts(again, verdicts)
    assert again.code.dtype == np.int8
    for name in ("p_incorrect", "weight", "average_loss"):
        assert getattr(again, name).dtype == np.float32
    assert again.most_suspicious(20).tolist() == verdicts.most_suspicious(20).tolist()


@both_rules
def test_so_does_a_parquet_file_with_its_rule(rule: Any, tmp_path: Path) -> None:
    verdicts = many_verdicts(rule)
    verdicts.to_parquet(tmp_path / "verdicts.parquet")
    assert_same_verdicts(Verdicts.from_parquet(tmp_path / "verdicts.parquet"), verdicts)
    frame = pandas.read_parquet(tmp_path / "verdicts.parquet")
    assert_same_verdicts(Verdicts.from_pandas(frame), verdicts)


def test_a_csv_file_too_but_for_its_rule(tmp_path: Path) -> None:
    verdicts = many_verdicts("threshold")
    verdicts.to_pandas().to_csv(tmp_path / "verdicts.csv")
    frame = pandas.read_csv(tmp_path / "verdicts.csv", index_col="index")
    assert_same_verdicts(Verdicts.from_pandas(frame, rule="threshold"), verdicts)
    assert Verdicts.from_pandas(frame).rule == "calibrated"


def test_rows_and_columns_may_come_in_any_order_with_others_among_them() -> None:
    verdicts = many_verdicts()
    frame = verdicts.to_pandas().assign(note="looked at", split=1)
    frame = frame.sort_values("p_incorrect")[sorted(frame.columns, reverse=True)]
    assert_same_verdicts(Verdicts.from_pandas(frame), verdicts)


def test_no_samples_at_all() -> None:
    nobody = make_verdicts([], [])
    assert_same_verdicts(Verdicts.from_pandas(nobody.to_pandas()), nobody)
    assert list(nobody.to_cleanlab([]).columns) == ["is_label_issue", "label_score", "given_label"]


def test_missing_values_may_be_pandas_own() -> None:
    frame = one_of_each().to_pandas().astype({"label": "string", "p_incorrect": "Float64"})
    assert frame["p_incorrect"].isna().sum() == 1
    assert_same_verdicts(Verdicts.from_pandas(frame), one_of_each())


# What is refused.


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda f: f.drop(columns=["weight", "label"]), "lacks the columns label, weight"),
        (lambda f: f.iloc[1:], "every sample index from 0 to 3 once"),
        (lambda f: f.iloc[[0, 1, 1, 2, 3]], "every sample index from 0 to 4 once"),
        (lambda f: f.set_axis(list("abcde")), r"reset_index\(drop=True\)"),
        (lambda f: f.assign(label="wrong"), "easy, hard, incorrect, unseen, but is 'wrong'"),
        (lambda f: f.assign(label=None), "but is None for sample 0"),
        (lambda f: f.assign(p_incorrect=0.5), "p_incorrect of sample 2 has a value, but .* unseen"),
        (lambda f: f.assign(average_loss=NAN), "average_loss of sample 0 is missing"),
        (lambda f: f.assign(weight=NAN), "weight of sample 0 is missing"),
        (lambda f: f.assign(weight="heavy"), "weight must hold numbers"),
        (lambda f: f.assign(p_incorrect=2 * f["p_incorrect"]), "between 0 and 1"),
    ],
)
def test_a_frame_that_does_not_fit(change: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Verdicts.from_pandas(change(one_of_each().to_pandas()))


def test_a_rule_that_is_none() -> None:
    frame = one_of_each().to_pandas()
    with pytest.raises(ValueError, match="calibrated, threshold, not 'guess'"):
        Verdicts.from_pandas(frame, rule="guess")  # type: ignore[arg-type]
    frame.attrs["rule"] = "gut feeling"
    with pytest.raises(ValueError, match="not 'gut feeling'"):
        Verdicts.from_pandas(frame)
