"""What a person set against what can be set: conversions, and one sentence for each mistake."""

from typing import Any, Literal, Optional, Union

import pytest

from discrimloss.options import (
    Option,
    OptionError,
    check_options,
    checked_value,
    describe_type,
    did_you_mean,
)

Colour = Literal["red", "green"]


@pytest.mark.parametrize(
    ("value", "expected", "result"),
    [
        (3, int, 3),
        (-3, int, -3),
        (2.5, float, 2.5),
        (3, float, 3.0),  # a whole number is a number
        (True, bool, True),
        ("word", str, "word"),
        ("", str, ""),
        ("red", Colour, "red"),
        (1, Literal[1, 2], 1),
        (1.0, Literal[1, 2], 1),
        ([1, 2], tuple[int, ...], (1, 2)),
        ([], tuple[int, ...], ()),
        ((1, 2), list[float], [1.0, 2.0]),
        ([1, 20], tuple[float, float], (1.0, 20.0)),
        ([1, "a"], tuple[int, str], (1, "a")),
        ({"a": 1}, dict, {"a": 1}),
        ({"a": 1}, dict[str, int], {"a": 1}),
        (None, int | None, None),
        ("none", int | None, None),
        ("none", Optional[str], None),  # noqa: UP045 - the old way to write it
        ("none", Literal["none", "some"], "none"),
        (4, int | None, 4),
        (4, float | None, 4.0),
        (3, float | int, 3),
        (3, Union[int, float], 3),  # noqa: UP007 - the old way to write it
        ("red", Colour | float | None, "red"),
        (1, Colour | float | None, 1.0),
        ([1, 2], tuple[float, float] | None, (1.0, 2.0)),
        ({"anything": [1]}, Any, {"anything": [1]}),
    ],
)
def test_what_fits_is_converted(value: Any, expected: Any, result: Any) -> None:
    converted = checked_value(value, expected, "key")
    assert converted == result
    assert type(converted) is type(result)


@pytest.mark.parametrize(
    ("value", "expected", "words"),
    [
        ("3", int, "a whole number"),
        (3.0, int, "a whole number"),
        (True, int, "a whole number"),  # Python counts True as 1; a person does not
        (True, float, "a number"),
        ("2.5", float, "a number"),
        (1, bool, "true or false"),
        ("true", bool, "true or false"),
        (3, str, "a text"),
        (None, str, "a text"),
        ("none", int, "a whole number"),
        ("blue", Colour, "one of 'red', 'green'"),
        (3, Literal[1, 2], "one of 1, 2"),
        (5, tuple[int, ...], "a list, each a whole number"),
        ("12", tuple[int, ...], "a list, each a whole number"),
        ([1, "a"], tuple[int, ...], "a list, each a whole number"),
        ([True], list[int], "a list, each a whole number"),
        ([1.0], tuple[float, float], "a list of 2"),
        ([1.0, 2.0, 3.0], tuple[float, float], "a list of 2"),
        ([1.0, "b"], tuple[float, float], "a list of 2"),
        ([], dict, "a table"),
        ("a", dict[str, int], "a table"),
        ("x", int | None, "a whole number or 'none'"),
        ("blue", Colour | float, "one of 'red', 'green' or a number"),
    ],
)
def test_what_does_not_fit_is_told_in_words(value: Any, expected: Any, words: str) -> None:
    with pytest.raises(OptionError) as error:
        checked_value(value, expected, "some.key")
    assert str(error.value) == f"some.key must be {words}, not {value!r}"


def test_a_type_without_words_has_its_name() -> None:
    assert describe_type(bytes) == "bytes"


OPTIONS = {"depth": Option(int), "width": Option(float, 1.0), "name": Option(str | None, None)}


def test_only_what_was_given_is_returned() -> None:
    assert check_options(OPTIONS, {"depth": 3}, "model", "a model") == {"depth": 3}


@pytest.mark.parametrize(
    ("given", "where", "sentence"),
    [
        (
            {"depth": 1, "widht": 2},
            "model",
            (
                "unknown key model.widht for a model: did you mean 'model.width'? "
                "Valid are model.depth, model.width, model.name"
            ),
        ),
        (
            # A likeness of the tables' names alone is none.
            {"depth": 1, "lr": 2},
            "a_long_name",
            (
                "unknown key a_long_name.lr for a model: "
                "valid are a_long_name.depth, a_long_name.width, a_long_name.name"
            ),
        ),
        (
            {"depth": 1, "nme": 2},
            "",
            "unknown key nme for a model: did you mean 'name'? Valid are depth, width, name",
        ),
        ({"width": 2}, "model", "a model needs model.depth, a whole number"),
        ({}, "", "a model needs depth, a whole number"),
        ({"depth": "x"}, "model", "model.depth must be a whole number, not 'x'"),
    ],
)
def test_a_wrong_table_is_told_in_a_sentence(
    given: dict[str, Any], where: str, sentence: str
) -> None:
    with pytest.raises(OptionError) as error:
        check_options(OPTIONS, given, where, "a model")
    assert str(error.value) == sentence


def test_where_nothing_can_be_set_it_says_so() -> None:
    with pytest.raises(OptionError, match=r"unknown key data\.x for mnist: valid are none$"):
        check_options({}, {"x": 1}, "data", "mnist")


def test_suggestions() -> None:
    assert did_you_mean("symetric", ["none", "symmetric"]) == (
        "did you mean 'symmetric'? Valid are none, symmetric"
    )
    assert did_you_mean("xyz", ["none", "symmetric"]) == "valid are none, symmetric"
    assert did_you_mean("rate", ["epochs", "noise.rate"]) == (
        "did you mean 'noise.rate'? Valid are epochs, noise.rate"
    )
