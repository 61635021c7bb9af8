"""`discrimloss tune`: search hyperparameters without clean labels."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discrimloss.cli.data_directory import DataOption, check_is_directory, directory_of
from discrimloss.cli.failures import if_stopped, writing
from discrimloss.errors import DiscrimLossError, needs_extra

if TYPE_CHECKING:
    from discrimloss.tuning.request import TuneRequest

DATABASE = "tune.db"


@needs_extra("tune", "tuning")
def tune(
    recipe: Annotated[
        str, typer.Argument(help="A recipe (`discrimloss ls` lists them) or a file.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE", help="Settings that are not searched, e.g. noise.rate=0.4."
        ),
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT",
            help="method, optimizer or all, or KEY=LOW:HIGH, KEY=LOW:HIGH:log or KEY=A,B,C. "
            "Repeat it for several. [default: method for DiscrimLoss, else optimizer]",
        ),
    ] = None,
    trials: Annotated[
        int,
        typer.Option(
            metavar="N", help="Number of trials of all workers, including earlier commands."
        ),
    ] = 40,
    data: DataOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory for the results. [default: tuned/RECIPE-METHOD]"
        ),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Database of the trials. [default: sqlite:///OUT/tune.db]"
        ),
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name of the study in the database. [default: RECIPE-METHOD]"
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="Number of workers on this machine.")] = 1,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Seed of the search and the runs, the same as seed=N."),
    ] = None,
    lost_after: Annotated[
        int,
        typer.Option(
            metavar="SECONDS",
            help="Time without a sign of life after which a worker counts as dead.",
        ),
    ] = 120,
) -> None:
    """Search hyperparameters of a recipe without clean labels.

    Each trial trains with other values. Its score is measured on a fifth of the training samples,
    which it does not learn from and whose labels stay noisy. Poor trials are stopped early. The
    best values are written to best.toml, a recipe for `discrimloss train`; all trials to
    trials.csv; the history and the importance of each hyperparameter to tuning.html.

    Ctrl-C stops the search, and the same command continues it. To share the work, run the same
    command with the same --storage on other machines.
    """
    for name, value in (("--trials", trials), ("--jobs", jobs), ("--lost-after", lost_after)):
        if value < 1:
            raise DiscrimLossError(f"{name} must be 1 or more, not {value}")
    from discrimloss.recipes import load_recipe
    from discrimloss.training.run_directory import why_unusable
    from discrimloss.tuning.parse_search import parse_search
    from discrimloss.tuning.request import TuneRequest, searchable

    overrides = [*(settings or []), *([] if seed is None else [f"seed={seed}"])]
    config = searchable(load_recipe(recipe, overrides), overrides)
    space = parse_search(config, search or [], overrides)
    name = f"{config.recipe}-{config.method}"
    place = out or Path("tuned", name)
    if objection := why_unusable(place):
        raise DiscrimLossError(objection)
    check_is_directory(data)
    directory = directory_of(config.data.name, data)
    url = storage or f"sqlite:///{place / DATABASE}"
    request = TuneRequest(config, space, directory, url, study or name, trials, lost_after)
    searched = [part for word in search or [] for part in ("--search", word)]
    _search(request, jobs, place, storage is None, ["tune", recipe, *overrides, *searched])


def _search(
    request: TuneRequest, jobs: int, out: Path, is_own_storage: bool, words: list[str]
) -> None:
    from discrimloss.cli.displays import TuneDisplay, print_outcome
    from discrimloss.training.interruption import stop_on_signals
    from discrimloss.training.local_data import load_data
    from discrimloss.training.run import prepare_run
    from discrimloss.tuning.outcome import outcome_of
    from discrimloss.tuning.results import BEST, PAGE, TRIALS, importances_of, write_results
    from discrimloss.tuning.storage import shown
    from discrimloss.tuning.workers import work, work_together

    display = TuneDisplay(request.trials, request.config.loss != "cross_entropy")
    advice = "make room or choose another path with --out; the same command continues"
    with (
        if_stopped(
            lambda _: (
                f"stopped after {display.settled} of {request.trials} trials: "
                "the same command continues"
            )
        ),
        writing(f"to --out {out}", advice, below=out),
    ):
        # Prepare a first trial without training it, so that its errors leave no file behind.
        task = load_data(request.config, request.data)
        prepare_run(request.config, request.data, task=task)
        if is_own_storage:
            out.mkdir(parents=True, exist_ok=True)
        with stop_on_signals(), display:
            if jobs == 1:
                study = work(request, display.show, task=task)
            else:
                study = work_together(request, jobs, display.show)
        outcome = outcome_of(study, display.is_regression)
        where = [] if is_own_storage else ["--storage", shown(request.storage)]
        options = ["--trials", str(request.trials), "--study", request.study, *where]
        command = shlex.join(["discrimloss", *words, *options])
        write_results(outcome, request.config, importances_of(study), out, command)
    data = [] if request.data == Path() else ["--data", str(request.data)]
    files = {"Recipe": out / BEST, "Table": out / TRIALS, "Page": out / PAGE}
    train = shlex.join(["discrimloss", "train", str(out / BEST), *data])
    print_outcome(outcome, request.config, files, train)
