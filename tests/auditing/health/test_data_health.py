"""The health of audited data: in the result, in its files, and again from disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from discrimloss import AuditResult, audit
from discrimloss.auditing.health.check import check_health, compare_samples
from discrimloss.auditing.health.data_health import ADVICE, TITLES, DataHealth, HealthEntry
from discrimloss.auditing.health.order import find_row_order
from discrimloss.auditing.sources.base import SourceOptions
from discrimloss.auditing.sources.open_source import open_source

WORDS = {"sea": "boat wave fish salt sail net", "sky": "cloud wing star wind bird moon"}


def messy_texts() -> pd.DataFrame:
    """Texts of two topics with a copy that has another label and one in another split."""
    generator = np.random.default_rng(0)
    topics = [("sea", "sky")[row % 2] for row in range(120)]
    texts = [" ".join(generator.choice(WORDS[topic].split(), 9)) for topic in topics]
    frame = pd.DataFrame({"text": texts, "topic": topics, "split": "train"})
    frame.loc[100:, "split"] = "test"
    frame.loc[1, "text"] = frame.loc[0, "text"].upper()  # a copy with the label of the other topic
    frame.loc[110, "text"] = frame.loc[2, "text"]  # a copy across splits
    frame.loc[7, "text"] = "..."
    frame.loc[8, "text"] = ""
    return frame.sample(frac=1.0, random_state=1).reset_index()


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return messy_texts()


@pytest.fixture(scope="module")
def result(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    out = tmp_path_factory.mktemp("audits") / "out"
    return audit(
        frame, label="topic", text="text", id="index", encoder="none", out=out, progress=False
    )


def test_problems_have_the_ids_of_their_samples(result: AuditResult) -> None:
    health = result.health
    assert set(health["conflicting_duplicates"].ids) == {"0", "1"}
    assert set(health["duplicates_across_splits"].ids) == {"2", "110"}
    assert {"0", "1", "2", "110"} <= set(health["exact_duplicates"].ids)
    broken = dict(zip(health["broken_samples"].ids, health["broken_samples"].remarks, strict=True))
    assert broken == {"7": "no letters or digits", "8": "left out: no text"}
    assert len(health["rare_classes"]) == 0
    with pytest.raises(KeyError, match="outliers"):
        health["nonsense"]


def test_the_summary_and_the_file_have_them_too(result: AuditResult) -> None:
    assert result.directory is not None
    entries = {entry["problem"]: entry for entry in result.summary["health"]}
    assert set(entries["conflicting_duplicates"]["ids"]) == {"0", "1"}
    table = pd.read_csv(result.directory / "health.csv", dtype={"id": str})
    conflict = table[table["problem"] == "conflicting_duplicates"]
    assert sorted(conflict["id"]) == ["0", "1"]
    assert result.verdicts.ids is not None
    assert [result.verdicts.ids[index] for index in conflict["index"].astype(int)] == conflict[
        "id"
    ].tolist()
    page = (result.directory / "report.html").read_text(encoding="utf-8")
    assert "Health of the data" in page
    assert "duplicates with different labels" in page


def test_a_loaded_audit_has_the_same_health(result: AuditResult) -> None:
    assert result.directory is not None
    loaded = AuditResult.load(result.directory)
    assert loaded.health.entries == result.health.entries
    pd.testing.assert_frame_equal(loaded.health.to_pandas(), result.health.to_pandas())
    assert "duplicates with different labels" in repr(loaded.health)
    assert "duplicates with different labels: 2" in repr(loaded)


def test_the_review_filters_by_problem(
    result: AuditResult, frame: pd.DataFrame, tmp_path: Path
) -> None:
    from discrimloss.auditing.review.queue import Filter
    from discrimloss.auditing.review.session import RequestError

    assert result.directory is not None
    session = AuditResult.load(result.directory, frame).review_session()
    try:
        counts = {one["problem"]: one["samples"] for one in session.about()["problem_counts"]}
        assert counts["conflicting_duplicates"] == 2
        assert counts["broken_samples"] == 1  # the row that was left out cannot be reviewed
        shown = session.samples(Filter(problem="conflicting_duplicates"), 0, None, 50)
        assert {row["id"] for row in shown["rows"]} == {"0", "1"}
        assert shown["progress"] == {"open": 2, "decided": 0, "skipped": 0}
        details = session.sample(shown["rows"][0]["index"])
        assert "duplicates with different labels" in {one["title"] for one in details["problems"]}
        with pytest.raises(RequestError, match="problem must be one of"):
            session.samples(Filter(problem="nonsense"), 0, None, 50)
    finally:
        session.close()


def test_every_problem_has_a_title_and_advice() -> None:
    assert list(TITLES) == list(ADVICE)


def test_healthy_data() -> None:
    health = DataHealth()
    assert len(health) == 0
    assert "no problem" in repr(health)
    assert health.to_csv() == "problem,id,index,group,remark\n"
    assert len(health.to_pandas()) == 0


def test_ids_with_commas_and_left_out_rows_survive_the_file() -> None:
    entry = HealthEntry("outliers", "Two.", ("a,b", "c\nd"), (4, -1), (), ("far", "left out: x"))
    health = DataHealth([entry])
    again = DataHealth.read(health.to_summary(), health.to_csv())
    assert again.entries == health.entries
    assert again.problems_of(4) == [("outliers", "far")]
    assert entry.row_index().tolist() == [4]


def test_duplicate_groups_that_share_a_sample_are_one() -> None:
    health = DataHealth(
        [
            HealthEntry("exact_duplicates", "", ("a", "b", "c", "d"), (0, 1, 4, 5), (0, 0, 1, 1)),
            HealthEntry("near_duplicates", "", ("b", "g", "x"), (1, 6, -1), (0, 0, 0)),
        ]
    )
    groups = health.duplicate_groups(8)
    assert groups[0] == groups[1] == groups[6] >= 0
    assert groups[4] == groups[5] >= 0
    assert groups[0] != groups[4]
    assert set(groups[[2, 3, 7]]) == {-1}
    assert DataHealth().duplicate_groups(3).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("others", [(), ("source",)])
def test_a_column_of_splits_is_not_learned_from(
    frame: pd.DataFrame, others: tuple[str, ...]
) -> None:
    # Copies of a text are copies of the row only if the other columns are the same as well.
    source = ["wire" if row in (0, 1, 2, 110) or row % 3 else "paper" for row in frame["index"]]
    named = frame.assign(source=source)[["index", "text", "topic", "split", *others]]
    found = audit(named, label="topic", id="index", encoder="none", progress=False)
    assert [column["name"] for column in found.summary["learned_from"]] == ["text", *others]
    assert any("'split' is not used: it contains the split" in note for note in found.notes)
    assert set(found.health["duplicates_across_splits"].ids) == {"2", "110"}
    assert set(found.health["conflicting_duplicates"].ids) == {"0", "1"}
    assert "no letters or digits" in found.health["broken_samples"].remarks


def test_a_folder_of_pictures_has_no_order(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for topic in ("sea", "sky"):
        (tmp_path / topic).mkdir()
        for number in range(60):
            pixels = generator.integers(0, 255, (4, 4, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / topic / f"{number:02}.png")
    source = open_source(SourceOptions(str(tmp_path)))
    points = generator.normal(size=(120, 8)) + 6.0 * source.target.numpy()[:, None]
    compared = compare_samples(source, points)
    assert find_row_order(compared.neighbours, np.zeros_like(compared.neighbours.index, bool))
    assert "row_order" not in [entry.problem for entry in check_health(source, compared, points)]
