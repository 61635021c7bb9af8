"""Numbers as people write them."""

from __future__ import annotations

import pytest

from discrimloss.auditing.sources.numerals import find_style


@pytest.mark.parametrize(
    ("texts", "decimal_comma", "numbers"),
    [
        (["1.969,39", "12,5", "0,3"], None, [1969.39, 12.5, 0.3]),
        (["1.969,39 €", "-12,50 €"], None, [1969.39, -12.5]),
        (["EUR 1.234,00", "EUR 5,00"], None, [1234.0, 5.0]),
        (["$1,234.50", "$3.00"], None, [1234.5, 3.0]),
        (["12,5 %", "3 %"], None, [12.5, 3.0]),
        (["987", "1.234", "12.345"], None, [987.0, 1234.0, 12345.0]),
        (["1.234", "12.345"], None, [1.234, 12.345]),
        (["1.234", "12.345"], True, [1234.0, 12345.0]),
        (["1,234", "987"], None, [1234.0, 987.0]),
        (["1'234.50", "99.10"], None, [1234.5, 99.1]),
        (["1\u00a0234,50", "7,00"], None, [1234.5, 7.0]),
        (["(1,200)", "300"], None, [-1200.0, 300.0]),
        (["−5,2", "3,1-"], None, [-5.2, -3.1]),
        (["1e-5", "0.3"], None, [1e-5, 0.3]),
    ],
)
def test_numbers_are_read(
    texts: list[str], decimal_comma: bool | None, numbers: list[float]
) -> None:
    style = find_style(texts, decimal_comma)
    assert style is not None
    assert [style.number(text) for text in texts] == pytest.approx(numbers)


@pytest.mark.parametrize(
    "texts",
    [
        ["00501", "10115"],
        ["030 1234567", "040 7654321"],
        ["12.03.2024", "13.04.2024"],
        ["12 EUR", "13 USD"],
        ["12 %", "0.12"],
        ["Q1", "Q2", "Q3"],
        ["5", "7", "red"],
        ["n/a", "-"],
        ["1.2.3", "1.2.4"],
    ],
)
def test_what_is_no_number(texts: list[str]) -> None:
    assert find_style(texts) is None


@pytest.mark.parametrize("texts", [["1.969,39 €", "0,50 €"], ["$1,234", "$5"], ["12,5", "0,25"]])
def test_numbers_are_written_as_they_were(texts: list[str]) -> None:
    style = find_style(texts)
    assert style is not None
    assert [style.write(style.number(text)) for text in texts] == texts
    assert style.number(style.write(98765.5)) == pytest.approx(98765.5, abs=0.5)
