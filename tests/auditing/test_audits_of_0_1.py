"""Audits that discrimloss 0.1 wrote are reviewed and applied."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import refused

from discrimloss import AuditResult, DiscrimLossError, audit
from discrimloss.auditing.sources.base import SourceOptions
from discrimloss.cli import main

CLASSES = ["cat", "dog", "cat", "dog", "cat", "dog"]
TARGETS = [1.1, 2.2, 3.3, 4.4, 5.5, 6.6]
SUMMARY = {"samples": 6, "left_out": 1, "left_out_why": {"no label": 1}, "notes": ["a note"]}
SUGGESTED = {"cat": "dog", "dog": "cat"}


def write_source(path: Path, labels: list[str] | list[float]) -> Path:
    """A table whose row 2 has no label."""
    given: list[str | float | None] = [*labels]
    given.insert(2, None)
    pd.DataFrame({"x": np.arange(7) / 3, "kind": given}).to_csv(path, index=False)
    return path


def write_audit_of_0_1(directory: Path, source: Path, labels: list[str] | list[float]) -> None:
    """The files of a finished audit, as 0.1 wrote them: no version, verdicts worst first."""
    directory.mkdir()
    p_incorrect = np.array([0.1, 0.2, 0.05, 0.99, 0.3, 0.15], np.float32)
    suggested = [SUGGESTED[name] if isinstance(name, str) else name + 1 for name in labels]
    frame = pd.DataFrame(
        {
            "id": ["0", "1", "3", "4", "5", "6"],
            "given_label": labels,
            "suggested_label": suggested,
            "verdict": np.where(p_incorrect > 0.5, "incorrect", "easy"),
            "p_incorrect": p_incorrect,
            "label_score": 1 - p_incorrect,
            "average_loss": 2 * p_incorrect,
            "weight": 1 + p_incorrect,
            "index": np.arange(6),
        }
    )
    frame = frame.sort_values("p_incorrect", ascending=False, ignore_index=True)
    frame.to_parquet(directory / "verdicts.parquet")
    options = asdict(SourceOptions(str(source), "kind", regression=isinstance(labels[0], float)))
    settings = {
        "source": options,
        "fingerprint": "ef831baf43084031da197ba95821a1c1",
        "asked": options,
        "runs": 1,
        "seed": 0,
        "epochs": None,
    }
    (directory / "audit.json").write_text(json.dumps(settings), "utf-8")
    (directory / "summary.json").write_text(json.dumps(SUMMARY), "utf-8")


@pytest.mark.parametrize("labels", [CLASSES, TARGETS], ids=["classes", "regression"])
def test_it_is_reviewed_and_applied(labels: list[str] | list[float], tmp_path: Path) -> None:
    source, out = write_source(tmp_path / "some.csv", labels), tmp_path / "out"
    write_audit_of_0_1(out, source, labels)
    result = AuditResult.load(out)
    assert result.notes == result.verdicts.notes == ("1 sample left out: no label", "a note")
    session = result.review_session()
    try:
        assert session.about()["verdict_counts"]["incorrect"] == 1
        assert session.queue.verdicts.order[0] == 3
    finally:
        session.close()
    assert main(["apply", str(out), "--accept-suggestions", "0.9"]) == 0
    before, after = pd.read_csv(source), pd.read_csv(out / "corrected" / "some.csv")
    expected = before.copy()
    expected.loc[4, "kind"] = "cat" if labels is CLASSES else 5.4
    pd.testing.assert_frame_equal(after, expected)


@pytest.mark.parametrize("change", ["label", "id", "fewer"])
def test_a_changed_source_is_refused(
    change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = write_source(tmp_path / "some.csv", CLASSES), tmp_path / "out"
    write_audit_of_0_1(out, source, CLASSES)
    table = pd.read_csv(source)
    if change == "label":
        table.loc[0, "kind"] = "dog"
    elif change == "id":  # another row has no label: the labels are the same
        table["kind"] = ["cat", "dog", "cat", None, "dog", "cat", "dog"]
    else:
        table = table.iloc[:-1]
    table.to_csv(source, index=False)
    for command in (["review"], ["apply", "--accept-suggestions", "0.9"]):
        printed = refused(capsys, *command, str(out))
        assert "has changed since it was audited" in printed


def test_an_unfinished_one_is_not_resumed(tmp_path: Path) -> None:
    source, out = write_source(tmp_path / "some.csv", CLASSES), tmp_path / "out"
    write_audit_of_0_1(out, source, CLASSES)
    (out / "summary.json").unlink()
    with pytest.raises(DiscrimLossError, match="another version of discrimloss"):
        audit(source, "kind", regression=False, out=out, resume=True, progress=False)
