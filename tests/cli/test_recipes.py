"""`discrimloss ls` and `discrimloss cp` from outside."""

from pathlib import Path
from typing import Any

import pytest
from command_line import refused, snapshot

from discrimloss.cli import main
from discrimloss.data.base import datasets
from discrimloss.models.base import models
from discrimloss.recipes import load_recipe, recipe_files
from discrimloss.registry import Registry
from discrimloss.training.methods.base import methods


def test_ls_lists_everything_that_can_be_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ls"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    sections: dict[str, list[str]] = {}
    for block in captured.out.split("\n\n"):
        heading, *lines = [line.rstrip() for line in block.strip("\n").splitlines()]
        sections[heading] = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert sections["recipe"] == sorted(recipe_files())
    for registry in (methods, datasets, models):
        assert sections[registry.kind] == registry.names()
    assert "discrimloss train RECIPE" in captured.out


@pytest.mark.parametrize("registry", [methods, datasets, models], ids=lambda r: r.kind)
def test_ls_tells_all_about_one(
    registry: Registry[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    table = {"method": "options", "dataset": "data", "model": "model"}[registry.kind]
    for name in registry.names():
        assert main(["ls", name]) == 0
        said = capsys.readouterr().out
        assert f"{registry.kind} {name}" in said
        assert registry.summary(name) in said
        for key in registry.options(name):
            assert f"\n{table}.{key}: " in said


def test_ls_shows_a_recipe_and_all_else_of_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "digits"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(recipe_files()["digits"].read_text(encoding="utf-8"))
    assert "dataset digits" in said


def test_ls_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "ls", "co_teachin")
    assert said.startswith("there is nothing named 'co_teachin': did you mean 'co_teaching'?")
    assert said.count(" digits,") == 1
    assert refused(capsys, "ls", "digits", "more").endswith("see `discrimloss ls --help`")


@pytest.mark.parametrize("name", sorted(recipe_files()))
def test_cp_copies(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "mine.toml"
    assert main(["cp", name, str(copy)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out == f"Copied to {copy}. Run it: discrimloss train {copy} --out DIR\n"
    assert snapshot(tmp_path) == {"mine.toml": recipe_files()[name].read_bytes()}
    assert load_recipe(str(copy)).as_dict() == load_recipe(name).as_dict() | {"recipe": "mine"}


def test_cp_into_a_directory_keeps_the_name(tmp_path: Path) -> None:
    assert main(["cp", "digits", str(tmp_path)]) == 0
    assert list(snapshot(tmp_path)) == ["digits.toml"]


def test_cp_never_overwrites_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("mine")
    sentence = refused(capsys, "cp", "digits", str(file))
    assert sentence == f"{file} exists already: pass --overwrite, or choose another file"
    assert snapshot(tmp_path) == {"mine.toml": b"mine"}
    assert main(["cp", "digits", str(file), "--overwrite"]) == 0
    assert snapshot(tmp_path) == {"mine.toml": recipe_files()["digits"].read_bytes()}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("digit", "a.toml"), "unknown recipe 'digit': did you mean 'digits'? Valid are "),
        (("digits", "no/where.toml"), "cannot write no/where.toml (no such file or directory)"),
        (("digits", "file/below.toml"), "cannot write file/below.toml (not a directory)"),
        (("digits",), "missing argument"),
        ((), "missing argument"),
    ],
)
def test_cp_refuses(
    arguments: tuple[str, ...],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    assert refused(capsys, "cp", *arguments).startswith(sentence)
    assert snapshot(tmp_path) == {"file": b"mine"}
