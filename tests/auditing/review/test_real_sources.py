"""Review and apply with sources as people have them: the result has the format of the input."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_fixtures import verdict_frame, write_audit
from command_line import refused, snapshot
from PIL import Image
from tiny_images import picture, write_colours

from discrimloss.auditing.directory import AuditDirectory
from discrimloss.auditing.result import AuditResult
from discrimloss.auditing.review.session import RequestError
from discrimloss.auditing.sources.base import SourceOptions
from discrimloss.auditing.sources.open_source import open_source
from discrimloss.cli import main


def audit_of(path: Path, directory: Path, **options: Any) -> AuditDirectory:
    """An audit that finds every label suspicious, the first sample most."""
    source = open_source(SourceOptions(str(path), **options))
    number = len(source)
    target = source.target.tolist()
    if source.class_names:
        suggested = [source.class_names[(t + 1) % len(source.class_names)] for t in target]
    else:
        suggested = [t + 1 for t in target]
    frame = verdict_frame(source, suggested, np.linspace(0.99, 0.8, number))
    return write_audit(directory, source, frame)


def review(audit: AuditDirectory, **decisions: Any) -> None:
    """Relabel samples by their names; None drops one."""
    session = AuditResult.load(audit.path).review_session()
    try:
        for name, label in decisions.items():
            request = {
                "event": f"e{session.source.ids.index(name)}",
                "tab": "t",
                "action": "drop" if label is None else "relabel",
                "index": session.source.ids.index(name),
                "label": label,
            }
            session.decide(request)
    finally:
        session.close()


def test_a_folder_of_images(tmp_path: Path) -> None:
    folder = write_colours(tmp_path / "photos")
    picture((9, 9, 200), (2000, 900)).save(folder / "blue" / "large.jpg")
    before = snapshot(folder)
    audit = audit_of(folder, tmp_path / "audit")
    review(
        audit, **{"red/0.png": "blue", "red/1.png": "violet", "green/2.png": None}
    )  # 0.png is taken in blue; violet is new
    session = AuditResult.load(audit.path).review_session()
    large = session.source.ids.index("blue/large.jpg")
    content, media_type = session.image(large)
    assert media_type == "image/jpeg"
    assert Image.open(io.BytesIO(content)).width > 1000  # to look at it closely
    assert Image.open(io.BytesIO(session.image(large, is_small=True)[0])).width < 300
    with pytest.raises(RequestError, match="name of a folder"):
        session.decide(
            {"event": "x", "tab": "t", "action": "relabel", "index": 0, "label": "../../up"}
        )
    session.close()
    assert main(["apply", str(audit.path)]) == 0
    result = snapshot(audit.path / "corrected" / "photos")
    assert sum(content is not None for content in result.values()) == 9
    assert result["violet/1.png"] == before["red/1.png"]
    assert result["blue/0.png"] == before["blue/0.png"]
    in_blue = [content for name, content in result.items() if name.startswith("blue/")]
    assert before["red/0.png"] in in_blue
    assert "green/2.png" not in result
    assert snapshot(folder) == before


def test_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["name;kind;size", *(f"n{i};{'tall' if i % 2 else 'small'};{i},5" for i in range(8))]
    table = tmp_path / "things.csv"
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    audit = audit_of(table, tmp_path / "audit", label="kind", id="name")
    review(audit, n0="tall", n3=None)
    assert main(["apply", str(audit.path)]) == 0
    expected = [row.replace("small", "tall") if "n0;" in row else row for row in rows]
    del expected[4]
    written = (audit.path / "corrected" / "things.csv").read_text("utf-8")
    assert written.splitlines() == expected
    capsys.readouterr()
    # The table has changed since: what was decided may not be about these rows.
    table.write_text("\n".join(rows[:-1]) + "\n", encoding="utf-8")
    assert "has changed" in refused(capsys, "apply", str(audit.path), "--overwrite")


def test_a_regression_of_lines_of_json(tmp_path: Path) -> None:
    rows = [{"x": i, "price": i * 1.25} for i in range(8)]
    table = tmp_path / "prices.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    audit = audit_of(table, tmp_path / "audit", label="price", regression=True)
    review(audit, **{"2": "7.5", "4": None})
    assert main(["apply", str(audit.path), "--out", str(tmp_path / "out")]) == 0
    written = (tmp_path / "out" / "prices.jsonl").read_text("utf-8").splitlines()
    expected = [row | ({"price": 7.5} if row["x"] == 2 else {}) for row in rows if row["x"] != 4]
    assert [json.loads(line) for line in written] == expected
