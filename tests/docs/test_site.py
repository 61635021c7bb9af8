"""The documentation site builds without a warning, and lists the public surface."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import discrimloss
from discrimloss import losses

pytest.importorskip("mkdocs", reason="needs the extra `docs`")

ROOT = Path(__file__).parents[2]
API = ROOT / "docs" / "api"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built in strict mode: a warning or a dead link fails it."""
    out = tmp_path_factory.mktemp("site")
    finished = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return out


def documented(page: str) -> set[str]:
    text = (API / f"{page}.md").read_text("utf-8")
    return {name.rpartition(".")[2] for name in re.findall(r"^::: (\S+)", text, re.MULTILINE)}


def test_the_home_page_is_the_readme(site: Path) -> None:
    assert (site / "index.html").read_text("utf-8").count("<h1") == 1


def test_no_page_asks_another_host_for_anything(site: Path) -> None:
    for page in sorted(site.rglob("*.html")):
        loaded = re.findall(
            r"<(?:script|img|link)[^>]+(?:src|href)=\"(https?:[^\"]+)", page.read_text("utf-8")
        )
        assert [address for address in loaded if "canonical" not in address] == [], page.name


def test_examples_of_docstrings_are_code(site: Path) -> None:
    assert "<blockquote>" not in (site / "api" / "functional.html").read_text("utf-8")


def test_notebooks_are_pages_with_outputs(site: Path) -> None:
    page = (site / "tutorials" / "images.html").read_text("utf-8")
    assert 'class="notebook-output"' in page
    assert "data:image/png;base64" in page


def test_every_public_name_is_in_the_reference() -> None:
    names = {name for name in discrimloss.__all__ if not name.startswith("_")}
    assert names <= documented("audit") | documented("loss")
    assert set(losses.__all__) <= documented("losses")
