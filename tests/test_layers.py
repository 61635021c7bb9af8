"""Imports point one way: a package may import what lies below it, and nothing beside or above."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import discrimloss

ROOT = Path(discrimloss.__file__).parent

LAYERS = (
    ("errors",),
    ("files",),
    ("state",),
    ("core",),
    ("judging",),
    ("losses",),
    ("integrations", "interop"),
    ("data", "models"),
    ("training",),
    ("recipes",),
    ("tuning",),
    ("auditing",),
    ("demo",),
    ("cli",),
)
"""From the bottom up. The core is what lies beside the packages: functional, loss and so on."""

AUDITING = (
    ("sources",),
    ("health",),
    ("evidence",),
    ("out_of_fold", "report", "review"),
    ("auditing",),
)
"""Within `auditing`, from the bottom up; the last are the modules beside the packages."""

FACADE = ("__init__.py", "_moved.py", "__main__.py")
"""They know every package by its address, and import none before it is used."""


BY_COMPUTED_NAME = {"__init__.py", "_moved.py", "registry.py", "auditing/sources/values.py"}
"""The façade; the registry, for modules of the package that owns it; and modules of pyarrow."""


def package_of(module: str) -> str:
    """The package right below `discrimloss` that a dotted name belongs to."""
    names = module.split(".")[1:]
    return names[0] if names and (ROOT / names[0]).is_dir() else "core"


def imported_modules(tree: ast.AST, package: str = "discrimloss") -> Iterator[str]:
    """Every module of ours that a file names: in imports, lazy or relative, and as public names.

    Args:
        tree: of the file.
        package: that the file lies in, for relative imports.
    """
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            source = ".".join([*(above if node.level else []), *([node.module or ""])]).rstrip(".")
            if source == "discrimloss":
                yield from (address(alias.name) for alias in node.names)
            else:
                yield source
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "discrimloss":
                yield address(node.attr)
        elif isinstance(node, ast.Call) and "import_module" in ast.dump(node.func):
            yield from (
                word.value
                for word in node.args
                if isinstance(word, ast.Constant) and isinstance(word.value, str)
            )


def address(name: str) -> str:
    """The module behind a public name of `discrimloss`, or behind a package."""
    return f"discrimloss.{discrimloss._MODULES.get(name, name)}"


def edges() -> dict[tuple[str, str], str]:
    """Pairs of packages of which the first imports the second, with a file that does."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        if path.parent == ROOT and path.name in FACADE:
            continue
        module = ".".join(("discrimloss", *path.relative_to(ROOT).with_suffix("").parts))
        package = module.rpartition(".")[0]
        for name in imported_modules(ast.parse(path.read_text(encoding="utf-8")), package):
            if name.startswith("discrimloss."):
                found.setdefault((package_of(module), package_of(name)), str(path))
    return found


def test_every_package_has_a_layer() -> None:
    packages = {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()}
    known = {name for layer in LAYERS for name in layer} - {"core"}
    assert packages <= known


def test_imports_point_down() -> None:
    level = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    upward = {
        (importer, imported, path)
        for (importer, imported), path in edges().items()
        if importer != imported and level[imported] >= level[importer]
    }
    assert upward == set()


def test_imports_within_auditing_point_down() -> None:
    level = {name: number for number, layer in enumerate(AUDITING) for name in layer}
    folder = ROOT / "auditing"
    upward = set()
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder).parts
        importer = inside[0] if len(inside) > 1 else "auditing"
        package = ".".join(("discrimloss", "auditing", *inside[:-1]))
        for name in imported_modules(ast.parse(path.read_text(encoding="utf-8")), package):
            if not name.startswith("discrimloss.auditing."):
                continue
            part = name.split(".")[2]
            imported = part if part in level else "auditing"
            if importer != imported and level[imported] >= level[importer]:
                upward.add((importer, name, str(path)))
    assert upward == set()


def test_corrected_data_needs_decisions_and_not_the_review_server() -> None:
    tree = ast.parse((ROOT / "auditing" / "apply.py").read_text(encoding="utf-8"))
    prefix = "discrimloss.auditing.review."
    imported = {name for name in imported_modules(tree) if name.startswith(prefix)}
    assert imported == {"discrimloss.auditing.review.decisions"}


@pytest.mark.parametrize(
    "program",
    [
        "import discrimloss.auditing",
        "from discrimloss.auditing.audit import audit",
        "def late():\n    from discrimloss.auditing.audit import audit",
        "def late():\n    importlib.import_module('discrimloss.auditing.audit')",
        "from discrimloss import auditing",
        "from discrimloss import audit",
        "import discrimloss\ndiscrimloss.audit(data)",
        "from ..auditing.audit import audit",
        "from .. import auditing",
        "if TYPE_CHECKING:\n    pass\nelse:\n    from discrimloss.auditing import audit",
    ],
)
def test_every_way_to_import_counts(program: str) -> None:
    modules = imported_modules(ast.parse(program), "discrimloss.judging")
    assert "auditing" in {package_of(name) for name in modules}


def test_only_registries_import_by_a_computed_name() -> None:
    """What a string names at run time cannot be seen here, so few may do it."""
    computed = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and "import_module" in ast.dump(node.func):
                computed |= {
                    str(path.relative_to(ROOT).as_posix())
                    for word in node.args
                    if not isinstance(word, ast.Constant)
                }
    assert computed == BY_COMPUTED_NAME


def test_imports_for_types_do_not_count() -> None:
    program = "if TYPE_CHECKING:\n    from discrimloss.loss import DiscrimLoss"
    assert list(imported_modules(ast.parse(program))) == []
