"""The release script: versions, notes and the contents of a wheel."""

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = load()
CHANGELOG = """# Changelog

## 0.3.0 (unreleased)

- not yet

## 0.2.0 (2026-12-01)

### Added

- something

## 0.1.0 (2026-01-01)
"""


def project(place: Path, version: str, cited: str) -> Path:
    (place / "src/discrimloss").mkdir(parents=True)
    (place / "src/discrimloss/_version.py").write_text(f'__version__ = "{version}"\n')
    (place / "CITATION.cff").write_text(f"cff-version: 1.2.0\nversion: {cited}\n")
    (place / "CHANGELOG.md").write_text(CHANGELOG)
    return place


def test_the_version_is_that_of_a_release_everywhere(tmp_path: Path) -> None:
    assert release.version_of(project(tmp_path / "a", "0.2.0", "0.2.0")) == "0.2.0"
    with pytest.raises(
        release.ReleaseError, match=r"0\.2\.0\.dev0 is not the version of a release"
    ):
        release.version_of(project(tmp_path / "b", "0.2.0.dev0", "0.2.0.dev0"))
    with pytest.raises(release.ReleaseError, match=r"CITATION\.cff does not have"):
        release.version_of(project(tmp_path / "c", "0.2.0", "0.1.0"))


def test_the_notes_are_the_section_of_the_version() -> None:
    assert release.notes_of(CHANGELOG, "0.2.0") == "### Added\n\n- something\n"


@pytest.mark.parametrize(
    ("version", "words"),
    [("0.3.0", "has no date"), ("0.1.0", "is empty"), ("0.4.0", r"no section 0\.4\.0")],
)
def test_a_section_that_cannot_be_released_is_refused(version: str, words: str) -> None:
    with pytest.raises(release.ReleaseError, match=words):
        release.notes_of(CHANGELOG, version)


def wheel(place: Path, *names: str) -> Path:
    path = place / "discrimloss-0.2.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


def test_the_wheel_holds_the_package_only(tmp_path: Path) -> None:
    release.check_contents(wheel(tmp_path, *release.REQUIRED))
    with pytest.raises(release.ReleaseError, match=r"lacks discrimloss/py\.typed"):
        release.check_contents(wheel(tmp_path, *release.REQUIRED[1:]))
    with pytest.raises(release.ReleaseError, match=r"holds tests/test_x\.py"):
        release.check_contents(wheel(tmp_path, *release.REQUIRED, "tests/test_x.py"))


def test_a_large_distribution_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sdist = tmp_path / "discrimloss-0.2.0.tar.gz"
    sdist.write_bytes(b"0" * 100)
    release.check_source(sdist)
    monkeypatch.setattr(release, "LARGEST_SDIST", 99)
    monkeypatch.setattr(release, "LARGEST_WHEEL", 99)
    with pytest.raises(release.ReleaseError, match=r"has 100 bytes: what made it grow"):
        release.check_source(sdist)
    with pytest.raises(release.ReleaseError, match="what made it grow"):
        release.check_contents(wheel(tmp_path, *release.REQUIRED))


def test_required_files_are_in_the_package() -> None:
    for name in release.REQUIRED:
        assert (ROOT / "src" / name).is_file()


def test_mistakes_end_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = project(tmp_path, "0.2.0", "0.2.0")
    (root / "dist").mkdir()
    (root / "dist" / "old").write_text("")
    monkeypatch.setattr(release, "ROOT", root)
    assert release.main(["check", "--out", str(root / "dist")]) == 2
    assert "is not empty" in capsys.readouterr().err
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    assert release.main(["tag"]) == 2
    assert "uncommitted changes" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("check_jsonschema") is None, reason="not installed")
def test_workflows_fit_the_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    files = [str(path) for path in sorted((ROOT / ".github/workflows").glob("*.yml"))]
    subprocess.run([*command, "vendor.github-workflows", *files], check=True)
