"""Types for users: a script passes mypy (with `make types`) and pyright in strict mode."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import discrimloss

SCRIPT = Path(__file__).with_name("user_script.py")
SOURCE = Path(discrimloss.__file__).parents[1]


def run(*command: str, directory: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", *command], cwd=directory, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_the_package_is_typed() -> None:
    assert (Path(discrimloss.__file__).parent / "py.typed").is_file()


@pytest.mark.slow  # pyright reads all of torch, and may have to be fetched first
def test_pyright_strict(tmp_path: Path) -> None:
    pytest.importorskip("pyright", reason="needs the extra `dev`")
    shutil.copy(SCRIPT, tmp_path)
    config = {"include": [SCRIPT.name], "typeCheckingMode": "strict", "extraPaths": [str(SOURCE)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    run("pyright", "--pythonpath", sys.executable, directory=tmp_path)
