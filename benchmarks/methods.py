"""Every method on the same wrong labels: digits with five seeds, a sixth of MNIST with three.

    python -m benchmarks.methods --data DIR --runs DIR

The same network, optimizer, schedule, epochs and labels for all; each method's options are its
defaults. One that takes a noise rate is run twice: with the true one, as its authors do, and left
to estimate it. One that diverges at the recipes' learning rate is run at a tenth of it as well, and
one that gives classes up is also run with clipped gradients and in its milder form. Every run is a
`discrimloss train` in its own directory below RUNS: finished ones are not run again, stopped ones
go on. Their summaries replace those of the same seed in results/methods.json, from which
results/methods.md is made; those of other settings are dropped. --methods, --only and --seeds run a
part. The last column is the version of the package that a row was made with.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.training_runs import (
    Run,
    Summary,
    argument_parser,
    collect,
    column,
    spread,
    stored,
    table,
    train_all,
    updated,
    versions,
    with_same_command,
    write,
)
from discrimloss.training.methods import methods

RATE = 0.4
UNSTABLE = (
    "active_passive",
    "backward",
    "cores",
    "curriculum_loss",
    "jocor",
    "peer_loss",
    "self_paced",
)
"""Methods that diverge on MNIST or digits at a learning rate of 0.1: their gradients are large, do
not vanish, or have no bound."""
LOWER_LEARNING_RATE = 0.01
CHANGED = {
    "active_passive": {
        "clipped": ("gradients clipped at 5", "optimizer.clip_norm=5"),
        "mae": ("NCE + MAE", "options.passive=mae"),
    }
}
"""Further rows of a method: title and setting of each row, by the name of its directory."""
FIRST = ["plain", "discrimloss"]
ABOUT = """\
`python -m benchmarks.methods --data DIR --runs DIR`. Test accuracy in %, mean ± standard deviation
over the seeds. The last epoch is what users without clean labels get; the best epoch is chosen on
test labels. *Fit* is the accuracy on the given training labels, 40 % of them wrong: above 60 %
the network has memorised wrong labels. *Noise* is the rate that the method was given, or that it
estimated. The AUROC measures how well wrong labels are separated from right ones: by the average
task loss of a sample, and by the method's own score. *Version* is that of discrimloss."""


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    recipe: str
    seeds: int
    settings: tuple[str, ...] = ()
    """Settings that differ from the recipe."""


EXPERIMENTS = [
    Experiment("digits-40", "Digits, a small MLP, 40 epochs", "digits", 5),
    # All images take six times as long: `benchmarks.paper mnist` has them.
    Experiment(
        "mnist-40", "MNIST, 10,000 images, LeNet, 20 epochs", "mnist", 3, ("train_size=10000",)
    ),
]


@dataclass(frozen=True)
class Variant:
    method: str
    has_rate: bool = False
    """Whether the true noise rate is given."""
    is_slow: bool = False
    """Whether the learning rate is a tenth of the recipe's."""
    change: str = ""
    """A name in `CHANGED`, or empty."""

    @property
    def settings(self) -> tuple[str, ...]:
        given = (f"options.noise_rate={RATE}",) if self.has_rate else ()
        slow = (f"optimizer.learning_rate={LOWER_LEARNING_RATE}",) if self.is_slow else ()
        changed = (CHANGED[self.method][self.change][1],) if self.change else ()
        return (f"method={self.method}", *given, *slow, *changed)

    @property
    def title(self) -> str:
        slow = f", learning rate {LOWER_LEARNING_RATE}" * self.is_slow
        changed = f", {CHANGED[self.method][self.change][0]}" if self.change else ""
        return f"`{self.method}`{slow}{changed}"

    def group(self, experiment: Experiment) -> str:
        name = f"{self.method}{'-given' * self.has_rate}{'-slow' * self.is_slow}"
        return f"{experiment.name}/{name}{f'-{self.change}' * bool(self.change)}"


def variants() -> list[Variant]:
    names = FIRST + [name for name in methods.names() if name not in FIRST]
    return [
        Variant(name, has_rate, is_slow, change)
        for name in names
        for is_slow in (False, True)
        for has_rate in (True, False)
        for change in ("", *(() if is_slow else CHANGED.get(name, ())))
        if (not has_rate or "noise_rate" in methods.options(name))
        and (not is_slow or name in UNSTABLE)
    ]


def noise(summaries: list[Summary]) -> str:
    """Return the noise rate that the method used."""
    used = [summary["method_hyperparameters"] for summary in summaries]
    if "noise_rate" not in used[0]:
        return ""
    return (
        f"{used[0]['noise_rate_source']}: {spread((each['noise_rate'] for each in used), 1, 100)}"
    )


def row(variant: Variant, summaries: list[Summary]) -> list[str]:
    return [
        variant.title,
        noise(summaries),
        f"**{spread(s['test']['last'] for s in summaries)}**",
        spread(s["test"]["best"] for s in summaries),
        spread(column("train_accuracy_noisy", summaries), 1),
        spread(column("auroc", summaries), 3),
        spread(column("score_auroc", summaries), 3),
        " ".join(str(s["seed"]) for s in summaries),
        ", ".join(sorted({s["versions"]["discrimloss"] for s in summaries})),
    ]


def render(results: dict[str, list[Summary]]) -> str:
    lines = ["# Every method at 40 % symmetric noise", "", ABOUT]
    titles = ["method", "noise, %", "test, last epoch", "best epoch", "fit", "AUROC, loss"]
    titles += ["AUROC, own score", "seeds", "version"]
    for experiment in EXPERIMENTS:
        groups = [(variant, variant.group(experiment)) for variant in variants()]
        rows = [row(variant, results[group]) for variant, group in groups if group in results]
        if not rows:
            continue
        settings = " ".join((*experiment.settings, f"noise.rate={RATE}", "method=NAME"))
        command = f"discrimloss train {experiment.recipe} {settings}"
        lines += ["", f"## {experiment.title}", "", f"`{command}`", ""]
        lines += table(titles, rows)
    for made_with in versions(results):
        lines += ["", made_with]
    return "\n".join(lines) + "\n"


def design() -> list[tuple[Experiment, Variant, Run]]:
    """Return all runs, each with its row."""
    return [
        (
            experiment,
            variant,
            Run(
                variant.group(experiment),
                experiment.recipe,
                (
                    *experiment.settings,
                    "noise.kind=symmetric",
                    f"noise.rate={RATE}",
                    *variant.settings,
                ),
                seed,
            ),
        )
        for experiment in EXPERIMENTS
        for variant in variants()
        for seed in range(1, experiment.seeds + 1)
    ]


def main() -> None:
    parser = argument_parser(__doc__ or "", (e.name for e in EXPERIMENTS))
    parser.add_argument("--methods", nargs="+", choices=methods.names())
    parser.add_argument("--seeds", type=int, help="seeds 1 to N; default: all")
    options = parser.parse_args()
    made = design()
    chosen = [
        run
        for experiment, variant, run in made
        if (not options.only or experiment.name in options.only)
        and (not options.methods or variant.method in options.methods)
        and (options.seeds is None or run.seed <= options.seeds)
    ]
    train_all(sorted(chosen, key=lambda run: run.seed), options.data, options.runs, options.jobs)
    runs = [run for _, _, run in made]
    old = with_same_command(stored("methods"), runs)
    results = updated(old, collect(runs, options.runs), (run.group for run in runs))
    write("methods", render(results), results)


if __name__ == "__main__":
    main()
