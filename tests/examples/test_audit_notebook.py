"""`examples/audit_notebook.ipynb`: its cells run in order, and the labels get better."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from discrimloss import AuditResult

NOTEBOOK = Path(__file__).parents[2] / "examples" / "audit_notebook.ipynb"


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell; returns the value of its last expression, which a notebook would show."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


@pytest.mark.usefixtures("quick_verdicts")
def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells)
    names: dict[str, Any] = {}
    shown = []
    for cell in cells:
        source = "".join(cell["source"]).replace("EPOCHS = None", "EPOCHS = 6")
        shown.append(run_cell(source, names))
    _, result, table, found, labels = shown
    assert isinstance(result, AuditResult)
    assert "<table>" in result._repr_html_()
    assert len(table) == 10
    hits, called, wrong = map(int, re.findall(r"\d+", found))
    assert hits > 0.8 * called
    assert hits > 0.6 * wrong
    before, after = map(float, re.findall(r"([\d.]+)%", labels))
    assert before == pytest.approx(90, abs=0.2)
    assert after > before + 4
    assert list(tmp_path.iterdir()) == []
