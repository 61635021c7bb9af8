"""The notebooks of the tutorials: they run from top to bottom, and show what they claim."""

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from discrimloss import AuditResult

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
NOTEBOOKS = sorted(TUTORIALS.glob("*.ipynb"))


def code_cells(name: str) -> list[dict[str, Any]]:
    notebook = json.loads((TUTORIALS / f"{name}.ipynb").read_text("utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell; returns the value of its last expression, which a notebook would show."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "notebook", "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "notebook", "eval"), names)


def run_notebook(name: str, smaller: Mapping[str, str]) -> tuple[list[Any], dict[str, Any]]:
    """Run all cells at a reduced size; returns the values that they show, and all variables."""
    names: dict[str, Any] = {}
    shown = []
    sources = ["".join(cell["source"]) for cell in code_cells(name)]
    for old, new in smaller.items():
        assert sum(old in source for source in sources) == 1
        sources = [source.replace(old, new) for source in sources]
    for source in sources:
        shown.append(run_cell(source, names))
    return shown, names


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    return tmp_path


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stored_and_free_of_errors(path: Path) -> None:
    cells = code_cells(path.stem)
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert len(outputs) >= 3, "run `make notebooks`"
    assert {output["output_type"] for output in outputs} <= {
        "display_data",
        "execute_result",
        "stream",
    }
    assert all(cell["execution_count"] is None for cell in cells)


def precision_and_recall(printed: str) -> tuple[int, int]:
    precision, recall = map(int, re.findall(r"(\d+)%", printed)[:2])
    return precision, recall


def test_tables(empty_directory: Path) -> None:
    (_, result, table, found, labels), _ = run_notebook("tables", {"SAMPLES = 1797": "SAMPLES = 400"})
    assert isinstance(result, AuditResult)
    assert "<table>" in result._repr_html_()
    assert len(table) == 10
    hits, called, wrong = map(int, re.findall(r"\d+", found))
    assert hits > 0.8 * called
    assert hits > 0.6 * wrong
    before, after = map(float, re.findall(r"([\d.]+)%", labels))
    assert before == pytest.approx(90, abs=0.3)
    assert after > before + 4
    assert list(empty_directory.iterdir()) == []


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
def test_images(empty_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smaller = {"SAMPLES = 1797": "SAMPLES = 500", "EPOCHS = None": "EPOCHS = 10"}
    _, names = run_notebook("images", smaller)
    ranked = names["verdicts"].most_suspicious(len(names["wrong"]))
    assert len(set(ranked.tolist()) & set(names["wrong"].tolist())) > 0.5 * len(names["wrong"])
    assert "right labels before 90.0%" in capsys.readouterr().out
    assert list(empty_directory.iterdir()) == []


def test_texts(empty_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_notebook("texts", {"SAMPLES = 1200": "SAMPLES = 400"})
    precision, recall = precision_and_recall(capsys.readouterr().out.rpartition("precision")[2])
    assert precision > 40
    assert recall > 40
    assert list(empty_directory.iterdir()) == []


def test_regression(empty_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_notebook("regression", {"SAMPLES = 600": "SAMPLES = 200"})
    printed = capsys.readouterr().out
    precision, _ = precision_and_recall(printed.partition("precision")[2])
    assert precision > 50
    assert "do not predict the target well enough" in printed
    assert list(empty_directory.iterdir()) == []
