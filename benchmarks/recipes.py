"""The recipes that fit two CPU cores, each with DiscrimLoss and with the plain task loss beside it.

    python -m benchmarks.recipes --data DIR --runs DIR

Every run is a `discrimloss train` in its own directory below RUNS: finished ones are not run again,
stopped ones go on. The table is made from their summaries and written to results/recipes.md, with
all summaries in results/recipes.json. One thread for each of `--jobs` runs.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from benchmarks.training_runs import (
    Run,
    Summary,
    argument_parser,
    collect,
    column,
    spread,
    table,
    train_all,
    versions,
    write,
)

METHODS = ("plain", "discrimloss")
ABOUT = """\
`python -m benchmarks.recipes --data DIR --runs DIR`. Accuracy in %, or mean absolute error for
digitsum and utkface, where lower is better. AUROC of the average loss; precision and recall of the
verdict `incorrect`. Minutes on one thread, two runs at once on two cores of a shared machine."""


@dataclass(frozen=True)
class Experiment:
    name: str
    recipe: str
    settings: tuple[str, ...]
    methods: tuple[str, ...] = METHODS

    def group(self, method: str) -> str:
        return f"{self.name}/{method}"


EXPERIMENTS = [
    Experiment("mnist-40", "mnist", ("noise.kind=permuted", "noise.rate=0.4")),
    Experiment("digitsum-0", "digitsum", ("noise.rate=0",)),
    Experiment("digitsum-40", "digitsum", ("noise.rate=0.4",)),
    Experiment("cifar10-clean", "cifar10-small", ("noise.kind=none",), ("plain",)),
    Experiment("cifar10-40", "cifar10-small", ("noise.rate=0.4",)),
    Experiment(
        "cifar10-worse", "cifar10-small", ("noise.kind=human", "noise.labels=worse", "epochs=6")
    ),
    Experiment("utkface-40", "utkface-small", ("noise.rate=0.4",)),
    Experiment("wikihow-40", "wikihow-small", ("noise.rate=0.4",)),
]


def row(experiment: Experiment, method: str, summaries: list[Summary]) -> list[str]:
    command = shlex.join(["discrimloss", "train", experiment.recipe, *experiment.settings])
    metric = summaries[0]["metric"]
    noise = [spread(column(key, summaries), 1, 100) for key in ("noise_true", "noise_estimated")]
    return [
        f"`{command}`",
        f"`{method}`",
        f"**{spread(s['test']['last'] for s in summaries)}**",
        spread(s["test"]["best"] for s in summaries),
        spread(column(f"train_{metric}_noisy", summaries)),
        " / ".join(noise),
        *(spread(column(key, summaries), 3) for key in ("auroc", "precision", "recall")),
        " ".join(str(s["seed"]) for s in summaries),
        spread(column("seconds", summaries), 1, 1 / 60),
    ]


def render(results: dict[str, list[Summary]]) -> str:
    titles = ["command", "method", "test, last epoch", "best epoch", "fit of the given labels"]
    titles += ["noise true / estimated, %", "AUROC", "precision", "recall", "seeds", "minutes"]
    rows = [
        row(experiment, method, results[experiment.group(method)])
        for experiment in EXPERIMENTS
        for method in experiment.methods
        if experiment.group(method) in results
    ]
    lines = ["# The recipes that fit two CPU cores", "", ABOUT, "", *table(titles, rows)]
    for made_with in versions(results):
        lines += ["", made_with]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argument_parser(__doc__ or "", (e.name for e in EXPERIMENTS))
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    made = [
        (
            experiment,
            Run(
                experiment.group(method),
                experiment.recipe,
                (*experiment.settings, f"method={method}"),
                seed,
            ),
        )
        for seed in range(1, options.seeds + 1)
        for experiment in EXPERIMENTS
        for method in experiment.methods
    ]
    chosen = [
        run for experiment, run in made if not options.only or experiment.name in options.only
    ]
    train_all(chosen, options.data, options.runs, options.jobs)
    results = collect([run for _, run in made], options.runs)
    write("recipes", render(results), results)


if __name__ == "__main__":
    main()
