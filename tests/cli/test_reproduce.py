"""`discrimloss reproduce` of 0.1 says where it went."""

import pytest
from command_line import refused


@pytest.mark.parametrize("words", [(), ("mnist", "--data", "DIR", "--noise", "0.4", "0.8")])
def test_the_moved_command_names_the_new_one(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "`python -m benchmarks.paper`" in refused(capsys, "reproduce", *words)
