"""Runs the commands and prints their errors."""

from __future__ import annotations

import re
import sys
import time
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from discrimloss import __version__
from discrimloss.cli.apply import apply
from discrimloss.cli.audit import audit
from discrimloss.cli.data import data
from discrimloss.cli.demo import demo
from discrimloss.cli.failures import reason
from discrimloss.cli.recipes import cp, ls
from discrimloss.cli.report import report
from discrimloss.cli.reproduce import ANY_ARGUMENTS, reproduce
from discrimloss.cli.review import review
from discrimloss.cli.train import train
from discrimloss.cli.tune import tune
from discrimloss.errors import DiscrimLossError, SharedError, is_first_process
from discrimloss.training.interruption import Interrupted

TIME_TO_BE_ENDED = 2.0
"""Seconds within which a launcher ends the other processes after one has failed."""


class Commands(TyperGroup):
    """All commands. Prints a message if a command is stopped, which typer does not."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name."""
        try:
            return super().invoke(ctx)
        except Interrupted as stopped:
            raise DiscrimLossError(f"stopped {stopped}", 128 + stopped.signal_number) from None
        except KeyboardInterrupt:
            raise DiscrimLossError("stopped", 130) from None


# Each command imports its libraries only when it runs, so importing the commands is cheap and
# `--help` takes a fraction of a second.
app = typer.Typer(cls=Commands, add_completion=False, rich_markup_mode=None)
for command in (audit, review, apply, report, demo, train, tune, ls, cp):
    app.command()(command)
app.command(hidden=True, context_settings=ANY_ARGUMENTS)(reproduce)
app.add_typer(data, name="data")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"discrimloss {__version__}")
        raise typer.Exit


@app.callback()
def _discrimloss(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Find the wrong labels in your data, and train well in spite of them.

    To start: discrimloss audit reviews.csv --label stars --out audit
    """


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code.

    If the user can fix an error, print it as one sentence instead of a traceback.
    """
    command = typer.main.get_command(app)
    try:
        # `main` returns the exit code after --help or --version, and None after a command.
        code = command.main(arguments or ["--help"], prog_name="discrimloss", standalone_mode=False)
    except SharedError as error:
        # A launcher ends all processes when one fails. The other processes therefore return 0, so
        # that the first one can print the error.
        return _failed(str(error), error.exit_code) if is_first_process() else 0
    except DiscrimLossError as error:
        return _failed(str(error), error.exit_code)
    except typer.Abort:
        return _failed("stopped", 130)
    except MemoryError:
        return _failed("there is not enough memory: end other programs, or use less data", 2)
    except OSError as error:
        file = f" {error.filename}" if error.filename else ""
        return _failed(f"cannot read or write{file} ({reason(error)})", 2)
    except Exception as error:
        # In some versions of typer, usage errors share no public class. All have this method.
        if not hasattr(error, "format_message"):
            raise
        return _failed(_usage_sentence(error), 2)
    return int(code or 0)


def _failed(sentence: str, exit_code: int) -> int:
    if not is_first_process():
        # Most errors occur in the first process too, which prints them. The launcher then ends
        # this process while it sleeps.
        time.sleep(TIME_TO_BE_ENDED)
    print(f"discrimloss: {sentence}", file=sys.stderr)
    return exit_code


def _usage_sentence(error: Exception) -> str:
    message = " ".join(error.format_message().split())  # type: ignore[attr-defined]
    problem = re.split(r"\.? Did you mean |\.$", message)[0]
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "discrimloss"
    return f"{problem[:1].lower()}{problem[1:]}; see `{command} --help`"
