"""Make a release.

    python tools/release.py check --out dist   # build, try the wheel, write the notes
    python tools/release.py tag                # the same, then tag the commit

Before a release: set the version in `src/discrimloss/_version.py` and `CITATION.cff`, and give its
section in `CHANGELOG.md` a date.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIRED = ("discrimloss/py.typed", "discrimloss/recipes/mnist.toml")
"""Files that the wheel must contain besides the modules."""
FORBIDDEN = ("tests/", "benchmarks/", "docs/", "examples/", "tools/")
"""Directories that belong only to the repository."""
LARGEST_WHEEL = 2_000_000
"""Bytes."""
LARGEST_SDIST = 3_000_000
"""Bytes."""


class ReleaseError(Exception):
    """A problem of the release, in one sentence."""


def version_of(root: Path) -> str:
    """Return the version to release.

    Raises:
        ReleaseError: it is a development version, or the citation has another.
    """
    found = re.search(r'__version__ = "(.+)"', (root / "src/discrimloss/_version.py").read_text())
    if found is None:
        raise ReleaseError("src/discrimloss/_version.py has no __version__")
    version = found[1]
    if not re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", version):
        raise ReleaseError(f"{version} is not the version of a release: set it in _version.py")
    cited = re.search(r"^version: (.+)$", (root / "CITATION.cff").read_text(), re.MULTILINE)
    if cited is None or cited[1] != version:
        raise ReleaseError(f"CITATION.cff does not have the version {version}")
    return version


def notes_of(changelog: str, version: str) -> str:
    """Return the changelog section of a version, without its title.

    Raises:
        ReleaseError: there is none, it is empty, or it has no date.
    """
    parts = re.split(r"^## +(.+)$", changelog, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    for title, text in sections.items():
        name, _, date = title.partition(" ")
        if name != version:
            continue
        if not re.fullmatch(r"\(\d{4}-\d\d-\d\d\)", date):
            raise ReleaseError(f'the section "{title}" of CHANGELOG.md has no date (2026-01-31)')
        if not text.strip():
            raise ReleaseError(f'the section "{title}" of CHANGELOG.md is empty')
        return text.strip() + "\n"
    raise ReleaseError(f"CHANGELOG.md has no section {version}")


def check_contents(wheel: Path) -> None:
    """Check the contents of the wheel.

    Raises:
        ReleaseError: a file is missing or does not belong there, or the wheel is too large.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise ReleaseError(f"{wheel.name} lacks {', '.join(missing)}")
    strange = [name for name in names if name.startswith(FORBIDDEN)]
    if strange:
        raise ReleaseError(f"{wheel.name} holds {strange[0]}, which belongs to the repository only")
    if wheel.stat().st_size > LARGEST_WHEEL:
        raise ReleaseError(f"{wheel.name} has {wheel.stat().st_size:,} bytes: what made it grow?")


def check_source(sdist: Path) -> None:
    """Check the size of the source distribution.

    Raises:
        ReleaseError: it is too large, as with stored runs of benchmarks.
    """
    if sdist.stat().st_size > LARGEST_SDIST:
        raise ReleaseError(f"{sdist.name} has {sdist.stat().st_size:,} bytes: what made it grow?")


def try_wheel(wheel: Path, constraints: Path) -> None:
    """Install the wheel into an empty environment and use it, outside of the repository."""
    with tempfile.TemporaryDirectory() as place:
        venv.create(Path(place) / "env", with_pip=True)
        scripts = Path(place) / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        pip = [str(scripts / "python"), "-m", "pip", "install", "--quiet"]
        _run([*pip, "--constraint", str(constraints), f"{wheel}[demo]"], place)
        _run([str(scripts / "python"), "-c", "import discrimloss; discrimloss.DiscrimLoss"], place)
        for arguments in (["--version"], ["--help"], ["demo"]):
            _run([str(scripts / "discrimloss"), *arguments], place)


def check(root: Path, out: Path) -> str:
    """Build and check everything.

    Returns:
        The version.
    """
    version = version_of(root)
    notes = notes_of((root / "CHANGELOG.md").read_text("utf-8"), version)
    out = out.resolve()
    if out.exists() and any(out.iterdir()):
        raise ReleaseError(f"{out} is not empty: remove it, or pass another directory with --out")
    _run([sys.executable, "-m", "build", "--outdir", str(out)], root)
    wheels = list(out.glob(f"discrimloss-{version}-*.whl"))
    if len(wheels) != 1:
        raise ReleaseError(f"{out} has {len(wheels)} wheels of version {version}")
    check_contents(wheels[0])
    check_source(out / f"discrimloss-{version}.tar.gz")
    try_wheel(wheels[0], root / "constraints.txt")
    (out / "NOTES.md").write_text(notes, "utf-8")
    return version


def tag(root: Path, out: Path) -> None:
    """Check, then tag the commit."""
    if _output(["git", "status", "--porcelain"], root):
        raise ReleaseError("there are uncommitted changes: commit them first")
    name = f"v{version_of(root)}"
    if _output(["git", "tag", "--list", name], root):
        raise ReleaseError(f"the tag {name} exists already")
    check(root, out)
    _run(["git", "tag", "--annotate", name, "--message", f"discrimloss {name[1:]}"], root)
    print(f"tagged {name}; publish it with: git push origin {name}")


def _run(command: list[str], where: str | Path) -> None:
    print("$", *command, flush=True)
    if subprocess.run(command, cwd=where, check=False).returncode:
        raise ReleaseError(f"this command failed: {' '.join(command)}")


def _output(command: list[str], where: Path) -> str:
    return subprocess.run(command, cwd=where, check=True, capture_output=True, text=True).stdout


def main(arguments: list[str] | None = None) -> int:
    """Run a command. An error ends with a sentence and exit code 2."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["check", "tag"])
    parser.add_argument("--out", type=Path, default=Path("dist"), help="where the files go")
    parsed = parser.parse_args(arguments)
    try:
        if parsed.command == "check":
            print(f"version {check(ROOT, parsed.out)} can be released")
        else:
            tag(ROOT, parsed.out)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
