"""Python blocks of the README and of the pages run as printed, or are at least valid Python."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    "docs/distributed.md",
    "docs/ids.md",
    "docs/interop.md",
    "docs/lightning.md",
    "docs/other-losses.md",
    "docs/quick-start.md",
    "docs/skorch.md",
    "docs/verdicts.md",
]  # docs/huggingface.md is run with the tests of its integration


def python_blocks(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8") if (ROOT / page).exists() else ""
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_some_python(page: str) -> None:
    assert python_blocks(page), f"{page} has no ```python block"


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated")
def test_the_blocks_of_a_page_run_as_printed(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, block in enumerate(python_blocks(page), 1):
        name = f"block_{number}"
        exec(compile(block, f"{page}, {name}", "exec"), {"__name__": name})


@pytest.mark.parametrize("page", ["README.md", "docs/quick-start.md"])
def test_fragments_are_python(page: str) -> None:
    """Fragments cannot run alone, but must parse."""
    text = (ROOT / page).read_text(encoding="utf-8")
    fragments = re.findall(r"^```py\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert len(fragments) == 2
    for fragment in fragments:
        ast.parse(fragment)


def test_the_readme_fits_two_screens() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90
