"""Verdicts as data frames and back: what comes back, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_verdicts import NAN, assert_same_verdicts, make_verdicts, one_of_each

from discrimloss import DiscrimLoss, SampleIds, Verdicts
from discrimloss.judging.frames import COLUMNS
from discrimloss.judging.verdicts import LABELS

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
    for name in ("p_incorrect", "score", "weight", "average_loss"):
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
    verdicts.to_pandas().to_csv(tmp_path / "verdicts.csv", index_label="index")
    frame = pandas.read_csv(tmp_path / "verdicts.csv")
    assert_same_verdicts(Verdicts.from_pandas(frame, rule="threshold"), verdicts)
    assert Verdicts.from_pandas(frame).rule == "calibrated"


def test_a_csv_file_for_spreadsheets_is_sorted_and_reads_back(tmp_path: Path) -> None:
    verdicts = replace(many_verdicts(), given_label=["ant", "bee"] * 100)
    verdicts.to_csv(tmp_path / "verdicts.csv")
    frame = pandas.read_csv(tmp_path / "verdicts.csv")
    assert list(frame.columns) == [*COLUMNS, "index"]
    assert frame["index"].tolist() == verdicts.order.tolist()
    again = Verdicts.from_pandas(frame)
    np.testing.assert_array_equal(again.code, verdicts.code)
    np.testing.assert_allclose(again.p_incorrect, verdicts.p_incorrect, 1e-5)
    assert again.given_label is not None
    assert again.given_label.tolist() == ["ant", "bee"] * 100


LABELS_OF_EACH = {
    "names": (["a", "b", "a", "b", "a"], ["a", "b", None, "a", "a"]),
    "positions": ([0, 1, 0, 1, 0], [0, 1, 1, 0, 0]),
    "positions, one not known": ([0, 1, 0, 1, 0], np.array([0, 1, None, 0, 0], dtype=object)),
    "regression targets": ([0.1, 0.2, 0.3, 0.4, 0.5], [0.1, 0.2, NAN, 1 / 3, 0.5]),
}


@pytest.mark.parametrize("kind", LABELS_OF_EACH)
@pytest.mark.parametrize("ids", [None, ["one", "two", "three", "four", "five"], [9, 7, 5, 3, 1]])
@pytest.mark.parametrize("shuffled", [False, True])
def test_labels_ids_interval_and_notes_come_back(
    kind: str, ids: Any, shuffled: bool, tmp_path: Path
) -> None:
    given, suggested = LABELS_OF_EACH[kind]
    verdicts = replace(
        one_of_each(),
        given_label=given,
        suggested_label=suggested,
        ids=ids,
        noise_interval=(0.1, 0.3),
        notes=("The run was short.", "Class b has 2 samples."),
    )
    path = tmp_path / "verdicts.parquet"
    if shuffled:
        verdicts.to_pandas().iloc[[3, 1, 0, 4, 2]].to_parquet(path)
    else:
        verdicts.to_parquet(path)
    assert_same_verdicts(Verdicts.from_parquet(path), verdicts)


def test_what_is_not_known_is_null_and_comes_back_as_none(tmp_path: Path) -> None:
    verdicts = replace(one_of_each(), weight=None, average_loss=None)
    frame = verdicts.to_pandas()
    assert list(frame.columns) == list(COLUMNS)
    assert frame[["weight", "average_loss", "id", "given_label"]].isna().all(axis=None)
    verdicts.to_parquet(tmp_path / "verdicts.parquet")
    assert_same_verdicts(Verdicts.from_parquet(tmp_path / "verdicts.parquet"), verdicts)


def test_a_criterion_gives_the_same_verdicts_through_a_file(tmp_path: Path) -> None:
    names = [f"sample {number}" for number in range(40)]
    criterion = DiscrimLoss(epochs=2, ids=SampleIds([*names, "never seen"]))
    for epoch in (1, 2):
        criterion.set_epoch(epoch)
        criterion(torch.linspace(0.01, 3.0, 40) / epoch, names)
    verdicts = criterion.verdicts()
    verdicts.to_parquet(tmp_path / "verdicts.parquet")
    assert_same_verdicts(Verdicts.from_parquet(tmp_path / "verdicts.parquet"), verdicts)


# Files of 0.1.


def frame_of_0_1() -> Any:
    verdicts = one_of_each()
    return pandas.DataFrame(
        {
            "label": pandas.Categorical.from_codes(verdicts.code, categories=list(LABELS)),
            "p_incorrect": verdicts.p_incorrect,
            "weight": verdicts.weight,
            "average_loss": verdicts.average_loss,
        },
        index=pandas.RangeIndex(5, name="index"),
    )


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [3, 1, 0, 4, 2]])
def test_verdicts_of_0_1_are_read(order: list[int], tmp_path: Path) -> None:
    frame_of_0_1().iloc[order].to_parquet(tmp_path / "verdicts.parquet")
    assert_same_verdicts(Verdicts.from_parquet(tmp_path / "verdicts.parquet"), one_of_each())


def test_so_are_those_with_ids_as_their_index(tmp_path: Path) -> None:
    ids = ["one", "two", "three", "four", "five"]
    frame_of_0_1().set_axis(pandas.Index(ids, name="id")).to_parquet(tmp_path / "v.parquet")
    assert_same_verdicts(
        Verdicts.from_parquet(tmp_path / "v.parquet"), replace(one_of_each(), ids=ids)
    )


def test_so_are_those_of_a_training_run() -> None:
    frame = frame_of_0_1().assign(target=3, clean_target=3, score=-7.0)
    assert_same_verdicts(Verdicts.from_pandas(frame), one_of_each())


def test_so_are_those_of_an_audit() -> None:
    verdicts = replace(
        one_of_each(), given_label=list("ababa"), suggested_label=list("abbba"), ids=list("vwxyz")
    )
    frame = verdicts.to_pandas().drop(columns="score")
    frame = frame.assign(label_score=1 - frame["p_incorrect"], index=range(5))
    worst_first = frame.iloc[verdicts.order].reset_index(drop=True)
    assert_same_verdicts(Verdicts.from_pandas(worst_first), verdicts)


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
    frame = one_of_each().to_pandas().astype({"verdict": "string", "p_incorrect": "Float64"})
    assert frame["p_incorrect"].isna().sum() == 1
    assert_same_verdicts(Verdicts.from_pandas(frame), one_of_each())


# What is refused.


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda f: f.drop(columns=["p_incorrect", "verdict"]), "the columns verdict, p_incorrect"),
        (lambda f: f.iloc[1:], "every sample index from 0 to 3 once"),
        (lambda f: f.iloc[[0, 1, 1, 2, 3]], "every sample index from 0 to 4 once"),
        (lambda f: f.set_axis(list("abcde")), r"reset_index\(drop=True\)"),
        (lambda f: f.assign(verdict="wrong"), "hard, undecided, incorrect, unseen, but is 'wrong'"),
        (lambda f: f.assign(verdict=None), "but is None for sample 0"),
        (lambda f: f.assign(p_incorrect=0.5), "p_incorrect of sample 2 has a value, but .* unseen"),
        (lambda f: f.assign(index=0), "column index must hold every sample index from 0 to 4 once"),
        (lambda f: f.assign(average_loss=[NAN, 1, NAN, 1, 1]), "average_loss of sample 0 is miss"),
        (lambda f: f.assign(score=[0, 1, NAN, NAN, 1]), "score of sample 3 is missing"),
        (lambda f: f.assign(weight=[1, 1, 1, 1, NAN]), "weight of sample 4 is missing"),
        (lambda f: f.assign(weight="heavy"), "weight must contain numbers"),
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
