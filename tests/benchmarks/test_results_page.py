"""The page of results shows what is in the store."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("accelerate", reason="reading a stored result needs the extra train")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def results_page(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import results_page

    yield results_page
    sys.modules.pop("results_page")


def test_the_pages_are_those_of_the_results(
    results_page: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["results_page.py", "--check"])
    results_page.main()
    assert capsys.readouterr().out == "behind: none\n"


def test_a_page_that_is_behind_is_told_and_filled(
    results_page: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Before\n\n<!-- results: generalization brief=plain -->\nold\n<!-- end -->\nAfter\n"
    )
    monkeypatch.setattr(results_page, "PAGES", (page,))
    monkeypatch.setattr(sys, "argv", ["results_page.py", "--check"])
    with pytest.raises(SystemExit, match=r"page\.md do not show benchmarks/results"):
        results_page.main()
    monkeypatch.setattr(sys, "argv", ["results_page.py"])
    results_page.main()
    new = page.read_text()
    assert "old" not in new
    start = "Before\n\n<!-- results: generalization brief=plain -->\n\n| | 40 % | seeds |\n"
    assert new.startswith(start)
    assert "\n| CE | " in new
    assert new.endswith("|\n\n<!-- end -->\nAfter\n")
