"""What a command tells a person when it cannot go on."""

from __future__ import annotations


class CommandError(Exception):
    """One sentence that says what to do, and the exit code."""

    def __init__(self, sentence: str, exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
