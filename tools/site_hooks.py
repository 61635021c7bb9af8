"""MkDocs hooks: add pages from outside `docs/` to the site, and adjust the links to them.

The README is the home page. The results of the benchmarks, the examples and the files at the root
of the repository are pages too, so that each text exists only once. On disk, all links are relative
to the file, as code hosts expect. On the site, they lead to the page made from the file.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = {
    ROOT / "README.md": "index.md",
    ROOT / "CHANGELOG.md": "changelog.md",
    ROOT / "CONTRIBUTING.md": "contributing.md",
    ROOT / "SECURITY.md": "security.md",
    ROOT / "CODE_OF_CONDUCT.md": "code-of-conduct.md",
}
LINK = re.compile(r"(?P<open>\]\()(?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)

_on_site: dict[Path, str] = {}
"""The place of each file of the repository on the site."""
_on_disk: dict[str, Path] = {}
"""The reverse."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside `docs/`, and replace notebooks by pages."""
    _on_site.clear()
    _on_disk.clear()
    for file in list(files):
        path = Path(str(file.abs_src_path)).resolve()
        if path.suffix == ".ipynb":
            files.remove(file)
            name = str(Path(file.src_uri).with_suffix(".md").as_posix())
            _add_page(files, config, path, name, notebook_page(path))
        elif DOCS in path.parents:
            _register(path, file.src_uri)
    for path, name in PAGES.items():
        _add_page(files, config, path, name, path.read_text("utf-8"))
    for path in sorted((ROOT / "benchmarks/results").rglob("*")):
        if path.is_file():
            name = path.relative_to(ROOT).as_posix()
            if path.suffix == ".md":
                _add_page(files, config, path, name, path.read_text("utf-8"))
            else:
                _add_asset(files, config, path, name)
    for path in sorted((ROOT / "examples").glob("*.py")):
        name = path.relative_to(ROOT).with_suffix(".md").as_posix()
        _add_page(files, config, path, name, script_page(path))
    tuned = ROOT / "benchmarks/results/tuned"
    _add_page(files, config, tuned, "benchmarks/results/tuned.md", folder_page(tuned))
    _add_asset(files, config, ROOT / "LICENSE", "LICENSE.txt")
    _add_asset(files, config, ROOT / "CITATION.cff", "CITATION.cff")
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to their file on the site. Broken links stay, and MkDocs warns.

    Pages without a section have no menu, so that wide results tables have more space.
    """
    if page.parent is None:
        page.meta.setdefault("hide", ["navigation"])
    here = _on_disk.get(page.file.src_uri)
    if here is None:
        return markdown

    def adjusted(found: re.Match[str]) -> str:
        target = (here.parent / found["path"]).resolve()
        if target not in _on_site:
            return found[0]
        start = posixpath.dirname(page.file.src_uri)
        path = posixpath.relpath(_on_site[target], start or ".")
        return f"{found['open']}{path}{found['anchor'] or ''})"

    parts = FENCE.split(markdown)  # code is not changed
    return "".join(part if n % 2 else LINK.sub(adjusted, part) for n, part in enumerate(parts))


def folder_page(folder: Path) -> str:
    """Return a page that lists the files of a folder."""
    names = [path.relative_to(folder.parent).as_posix() for path in sorted(folder.rglob("*"))]
    links = [f"- [{name}]({name})" for name in names if (folder.parent / name).is_file()]
    return "\n".join([f"# {folder.name}", "", *links]) + "\n"


def script_page(path: Path) -> str:
    """Return an example as a page: the first line of its docstring, then the code."""
    code = path.read_text("utf-8")
    title = code.removeprefix('"""').partition("\n")[0].rstrip(' ."').partition('"""')[0]
    return f"# {path.name}\n\n{title}.\n\n```python\n{code}```\n"


def notebook_page(path: Path) -> str:
    """Return a notebook as a page, with its stored outputs."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    parts = []
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts += [f"```python\n{source}\n```", *map(_output, cell["outputs"])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        inside = f'<img alt="output of the cell" src="data:image/png;base64,{_image(data)}">'
    elif "text/html" in data:
        inside = re.sub(r"<style.*?</style>|\n\s*", "", "".join(data["text/html"]), flags=re.DOTALL)
    else:
        text = "".join(data.get("text/plain", output.get("text", "")))
        return f'<div class="notebook-output" markdown>\n\n```text\n{text.rstrip()}\n```\n\n</div>'
    return f'<div class="notebook-output">{inside}</div>'


def _image(data: dict[str, Any]) -> str:
    image = "".join(data["image/png"])
    return base64.b64encode(base64.b64decode(image)).decode()


def _register(path: Path, name: str) -> None:
    _on_site[path.resolve()] = name
    _on_disk[name] = path.resolve()


def _add_page(files: Files, config: MkDocsConfig, path: Path, name: str, content: str) -> None:
    # Only the home page has a place in the navigation; the others are reached by links.
    inclusion = InclusionLevel.INCLUDED if _in_navigation(name) else InclusionLevel.NOT_IN_NAV
    files.append(File.generated(config, name, content=content, inclusion=inclusion))
    _register(path, name)


def _add_asset(files: Files, config: MkDocsConfig, path: Path, name: str) -> None:
    files.append(File.generated(config, name, abs_src_path=str(path)))
    _register(path, name)


def _in_navigation(name: str) -> bool:
    return name == "index.md" or name.startswith("tutorials/")
