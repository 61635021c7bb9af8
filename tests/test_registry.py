"""Things found by name: a package is looked through, so that adding an entry is adding a file."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from discrimloss.data.base import datasets
from discrimloss.models.base import models
from discrimloss.options import OptionError
from discrimloss.registry import Registry
from discrimloss.training.methods.base import methods

PACKAGE = "registry_for_a_test"
BASE = f"""
from discrimloss.registry import Registry
things = Registry("thing", {PACKAGE!r})
"""
FUNCTION = """
from __future__ import annotations
from typing import Literal
from .base import things

@things.register("round")
def make_round(place: str, *, radius: float = 1.0, colour: Literal["red", "blue"], marks=3) -> None:
    '''A round thing.

    With more to say.
    '''
"""
CLASS = """
from __future__ import annotations
from .base import things

@things.register("square")
class Square:
    '''A square thing.'''
    def __init__(self, place: str, *, side: int | None = None) -> None:
        pass

@things.register("bare")
def make_bare(): pass
"""


@pytest.fixture
def things(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Registry[Callable[..., Any]]]:
    """A registry of a package that was just written, with one entry in each of two modules."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "base.py").write_text(BASE)
    (folder / "round.py").write_text(FUNCTION)
    (folder / "square.py").write_text(CLASS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module(f"{PACKAGE}.base").things
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_entries_are_found_without_a_list(things: Registry[Callable[..., Any]]) -> None:
    assert things.names() == ["bare", "round", "square"]
    assert things.get("round").__name__ == "make_round"
    assert things.summary("round") == "A round thing."
    assert things.summary("square") == "A square thing."
    assert things.summary("bare") == ""


def test_options_are_the_keyword_only_arguments(things: Registry[Callable[..., Any]]) -> None:
    options = things.options("round")
    assert list(options) == ["radius", "colour", "marks"]
    assert options["radius"].type is float
    assert options["radius"].default == 1.0
    assert options["colour"].is_required
    assert not options["radius"].is_required
    assert options["marks"].type is Any
    assert list(things.options("square")) == ["side"]
    assert things.options("bare") == {}


def test_options_are_checked(things: Registry[Callable[..., Any]]) -> None:
    assert things.check("round", {"radius": 2, "colour": "red"}, "thing") == {
        "radius": 2.0,
        "colour": "red",
    }
    for given, sentence in (
        ({}, "thing 'round' needs thing.colour, one of 'red', 'blue'"),
        (
            {"color": "red"},
            (
                "unknown key thing.color for thing 'round': did you mean 'thing.colour'? "
                "Valid are thing.radius, thing.colour, thing.marks"
            ),
        ),
        ({"colour": "redd"}, "thing.colour must be one of 'red', 'blue', not 'redd'"),
    ):
        with pytest.raises(OptionError) as error:
            things.check("round", given, "thing")
        assert str(error.value) == sentence


def test_an_unknown_name_lists_the_known_ones(things: Registry[Callable[..., Any]]) -> None:
    for name, hint in (
        ("rond", "did you mean 'round'? Valid are bare, round, square"),
        ("xyz", "valid are bare, round, square"),
    ):
        for ask in (things.get, things.options, things.summary):
            with pytest.raises(ValueError) as error:  # noqa: PT011 - the sentence is checked
                ask(name)
            assert str(error.value) == f"unknown thing {name!r}: {hint}"


def test_a_name_is_taken_once(things: Registry[Callable[..., Any]]) -> None:
    register = things.register("round")
    things.names()
    with pytest.raises(ValueError, match=r"^there are two things named 'round'$"):
        register(lambda: None)
    assert things.get("round").__name__ == "make_round"


def test_registries_do_not_share_entries() -> None:
    assert "plain" in methods.names()
    assert "plain" not in models.names()
    assert "mnist" in datasets.names()
    assert "mnist" not in methods.names()


@pytest.mark.parametrize("registry", [datasets, methods, models], ids=lambda r: r.kind)
def test_every_entry_says_what_it_is_and_what_can_be_set(registry: Registry[Any]) -> None:
    assert registry.names()
    for name in registry.names():
        assert registry.summary(name).endswith("."), name
        for option in registry.options(name).values():
            assert option.type is not Any, name
            # A config leaves out what is None, so None must be what its absence means.
            if type(None) in getattr(option.type, "__args__", ()):
                assert option.default is None, name
