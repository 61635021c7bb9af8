"""`discrimloss train` from outside: what it prints, writes, refuses, and how it stops."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import RUN_MAIN, environment, refused, run_process, snapshot
from tiny_data import write_mnist

from discrimloss.cli import main
from discrimloss.cli.train import train
from discrimloss.recipes import load_recipe, recipe_files
from discrimloss.training.run_directory import RunDirectory

SMALL = ("digits", "epochs=2", "train_size=48", "batch_size=16", "tensorboard=false", "threads=1")
FILES = {
    "checksums.json",
    "config.toml",
    "environment.json",
    "history.csv",
    "history.jsonl",
    "summary.json",
    "verdicts.parquet",
}

pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run, made in a process of its own, as a person would."""
    directory = tmp_path_factory.mktemp("train") / "not" / "there" / "yet"
    process = run_process(RUN_MAIN, "train", *SMALL, "--out", str(directory))
    assert process.stderr == ""  # no progress bar unless on a terminal, no warnings
    assert process.returncode == 0
    assert process.stdout.splitlines()[-1] == f"Results: {directory}"
    assert "test accuracy, last epoch" in process.stdout
    assert len(process.stdout.splitlines()) < 20  # the figures only, nothing per epoch
    return directory


def summary_of(directory: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((directory / "summary.json").read_text("utf-8"))
    return summary


def figures(directory: Path) -> dict[str, Any]:
    told_by_the_clock_or_the_caller = ("seconds", "command")
    return {
        name: value
        for name, value in summary_of(directory).items()
        if name not in told_by_the_clock_or_the_caller
    }


# What it writes.


def test_it_leaves_what_it_promises(finished: Path) -> None:
    names = {entry.name for entry in finished.iterdir()}
    assert names - {".lock"} == FILES | {"checkpoint", "samples"}
    assert train.__doc__ is not None
    for name in ("config.toml", "history.csv", "summary.json", "verdicts.parquet", "checkpoint"):
        assert name in train.__doc__
    assert summary_of(finished)["command"] == shlex.join(("discrimloss", "train", *SMALL))


def test_its_config_trains_the_same_run(finished: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert main(["train", str(finished / "config.toml"), "--out", str(again)]) == 0
    assert (again / "config.toml").read_bytes() == (finished / "config.toml").read_bytes()
    assert figures(again) == figures(finished)
    # It even goes on with it: both are the same settings.
    assert main(["train", *SMALL, "--out", str(again), "--resume"]) == 0


def test_the_config_of_a_run_with_the_paper_s_values_trains_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISCRIMLOSS_DATA", str(write_mnist(tmp_path / "data")))
    small = ("epochs=1", "train_size=20", "tensorboard=false", "threads=1")
    paper = ("train", "mnist", "hyperparameters=paper", "noise.rate=0.8", *small)
    assert main([*paper, "--out", str(tmp_path / "a")]) == 0
    config = tmp_path / "a" / "config.toml"
    assert main(["train", str(config), "--out", str(tmp_path / "b")]) == 0
    assert RunDirectory(tmp_path / "b").config() == RunDirectory(tmp_path / "a").config()
    assert figures(tmp_path / "b") == figures(tmp_path / "a")
    hyperparameters = summary_of(tmp_path / "b")["method_hyperparameters"]
    assert (hyperparameters["switch_gain"], hyperparameters["switch_epoch"]) == (0.12, 14.0)


def test_a_copied_recipe_trains(tmp_path: Path) -> None:
    file = tmp_path / "my own.toml"
    assert main(["cp", "digits", str(file)]) == 0
    file.write_text(file.read_text("utf-8").replace("epochs = 40", "epochs = 1"), "utf-8")
    small = SMALL[2:]
    assert main(["train", str(file), *small, "--out", str(tmp_path / "out")]) == 0
    assert summary_of(tmp_path / "out")["recipe"] == "my own"
    assert summary_of(tmp_path / "out")["epochs"] == 1


def test_without_out_the_place_follows_from_recipe_method_and_seed() -> None:
    small = ("epochs=1", "train_size=16", "tensorboard=false", "threads=1")
    assert main(["train", "digits", "method=plain", *small, "--seed", "7"]) == 0
    assert summary_of(Path("runs/digits/plain-7"))["seed"] == 7
    assert summary_of(Path("runs/digits/plain-7"))["command"].endswith(" seed=7")


def test_the_data_directory_comes_from_the_option_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_mnist(tmp_path / "data")
    small = ("train", "mnist", "epochs=1", "train_size=20", "tensorboard=false", "threads=1")
    assert "--data DIR or in the environment variable DISCRIMLOSS_DATA" in refused(capsys, *small)
    assert main([*small, "--data", str(data), "--out", "a"]) == 0
    monkeypatch.setenv("DISCRIMLOSS_DATA", str(data))
    assert main([*small, "--out", "b"]) == 0
    assert figures(Path("a")) == figures(Path("b"))
    capsys.readouterr()
    # What is said in the command counts more.
    sentence = refused(capsys, *small, "--data", str(tmp_path / "nowhere"), "--out", "c")
    assert sentence == f"the data directory {tmp_path / 'nowhere'} does not exist"


# What it refuses, before anything is trained or written.


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "missing argument"),
        (("digit",), "unknown recipe 'digit': did you mean 'digits'? Valid are "),
        (("nowhere.toml",), "there is no recipe file nowhere.toml"),
        (("broken.toml",), "broken.toml is not valid TOML: "),
        (("digits", "epoch=3"), "unknown key epoch: did you mean 'epochs'? Valid are "),
        (("digits", "noise.rates=0"), "unknown key noise.rates for [noise]: did you mean "),
        (("digits", "options.x=0"), "unknown key options.x for method 'discrimloss': valid are "),
        (("digits", "data.x=0"), "unknown key data.x for dataset 'digits': valid are "),
        (("digits", "model.x=0"), "unknown key model.x for model 'mlp': valid are model.hidden"),
        (("digits", "epochs=ten"), "epochs must be a whole number, not 'ten'"),
        (("digits", "epochs"), "'epochs' is not a setting: write key=value, e.g. epochs=…"),
        (("digits", "data=mnist"), "data is a table"),
        (("digits", "loss=mse"), "loss = 'mse' does not fit a classification"),
        (("digits", "model.name=lenet"), "lenet needs images"),
        (("digits", "options.switch_gain=-1"), "switch_gain must be "),
        (("digits", "noise.kind=human", "noise.labels=worse"), "noise.labels = 'worse' is not a"),
        (("digits", "device=nonsense"), "device = 'nonsense' cannot be used here"),
        (("digits", "--resume", "--overwrite"), "--resume continues and --overwrite starts over"),
        (("digits", "--seed", "-1"), "seed must be a number from 0 to 4294967295, not -1"),
        (("digits", "--seed", "4294967296"), "seed must be a number from 0 to 4294967295, not "),
        (("digits", "--seed", "one"), "invalid value for '--seed'"),
        (("digits", "--epochs", "3"), "no such option: --epochs; see `discrimloss train --help`"),
        (("digits", "--data", "nowhere"), "the data directory nowhere does not exist"),
        (("digits", "--data", "broken.toml"), "the data directory broken.toml is not a directory"),
        (("mnist",), "pass the data directory with --data DIR or in the environment variable"),
        (("mnist", "--data", "."), "no mnist data in ."),
        (("mnist", "hyperparameters=paper", "noise.rate=0.3"), "the paper has no hyperparameters"),
        (("digits", "--out", "broken.toml"), f"{os.curdir}"),
    ],
)
def test_bad_input_gets_one_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("broken.toml").write_text("epochs = \n")
    told = refused(capsys, "train", *arguments)
    if arguments[-2:] == ("--out", "broken.toml"):
        sentence = f"{Path('broken.toml').absolute()} is not a directory: choose another path"
    assert told.startswith(sentence)
    assert snapshot(Path()) == {"broken.toml": b"epochs = \n"}


@pytest.mark.usefixtures("no_training")
def test_a_finished_run_is_kept(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(finished)
    assert refused(capsys, "train", *SMALL, "--out", str(finished)) == (
        f"--out {finished} holds a finished run: "
        "pass --overwrite to replace it, or choose another directory"
    )
    other = refused(capsys, "train", *SMALL, "epochs=3", "--out", str(finished), "--resume")
    assert other.startswith("cannot resume with other settings (epochs was 2, now 3): pass the")
    assert snapshot(finished) == before


@pytest.mark.usefixtures("no_training")
def test_resuming_a_finished_run_shows_it(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(finished)
    assert main(["train", *SMALL, "--out", str(finished), "--resume"]) == 0
    assert f"Results: {finished}" in capsys.readouterr().out
    assert snapshot(finished) == before


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("flag", [(), ("--overwrite",), ("--resume",)])
def test_other_files_are_never_touched(
    flag: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "thesis.tex").write_text("years of work")
    sentence = refused(capsys, "train", *SMALL, "--out", str(thesis), *flag)
    assert sentence == f"--out {thesis} holds other files: choose a new or an empty directory"
    assert snapshot(thesis) == {"thesis.tex": b"years of work"}


def test_overwrite_starts_anew_and_keeps_notes(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["train", *SMALL, "seed=9", "--out", str(out)]) == 0
    (out / "notes.txt").write_text("mine")
    assert main(["train", *SMALL, "--out", str(out), "--overwrite"]) == 0
    assert figures(out) == figures(finished)
    assert (out / "notes.txt").read_text() == "mine"


def test_an_unfinished_run_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    stop_at(monkeypatch, signal.SIGTERM)
    assert main(["train", *SMALL, "--out", str(out)]) == 143
    capsys.readouterr()
    before = snapshot(out)
    assert refused(capsys, "train", *SMALL, "--out", str(out)) == (
        f"--out {out} holds an unfinished run: "
        "pass --resume to continue it, or --overwrite to start over"
    )
    other = refused(capsys, "train", *SMALL, "seed=2", "--out", str(out), "--resume")
    assert other.startswith("cannot resume with other settings (seed was 1, now 2)")
    assert snapshot(out) == before


def test_a_file_that_cannot_be_read_is_not_blamed_on_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(path: str) -> Any:
        raise PermissionError(13, "Permission denied", path)

    out = tmp_path / "out"
    monkeypatch.setattr("discrimloss.training.run.run_training", lambda *_: fail("some/image"))
    sentence = refused(capsys, "train", *SMALL, "--out", str(out))
    assert sentence == "cannot read or write some/image (permission denied)"
    monkeypatch.setattr("discrimloss.training.run.run_training", lambda *_: fail(str(out / "x")))
    sentence = refused(capsys, "train", *SMALL, "--out", str(out))
    assert sentence.startswith(f"cannot write to --out {out} (permission denied)")


@pytest.mark.parametrize("missing", ["accelerate", "tomlkit"])
def test_a_missing_extra_is_named(missing: str, tmp_path: Path) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None\n{RUN_MAIN}"
    process = run_process(program, "train", *SMALL, "--out", str(tmp_path / "out"))
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr == (
        f"discrimloss: training needs an extra ({missing} is missing): "
        "pip install 'discrimloss[train]'\n"
    )
    assert not (tmp_path / "out").exists()


# How it stops.


def stop_at(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    """Send a signal to this process in the second epoch, after its first step."""

    def on_step(self: Any, epoch: int, step: int, steps: int, samples: int) -> None:
        if (epoch, step) == (2, 1):
            os.kill(os.getpid(), number)

    monkeypatch.setattr("discrimloss.cli.displays.TrainDisplay.on_step", on_step)


STOPPED = """
import os, signal, sys
from discrimloss.cli import displays, main
def on_step(self, epoch, step, steps, samples):
    if (epoch, step) == (2, 1):
        os.kill(os.getpid(), signal.SIGINT)
displays.TrainDisplay.on_step = on_step
sys.exit(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no sh")
def test_ctrl_c_says_how_to_go_on_and_that_works(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "it's a place"
    settings = (*SMALL, "options.weight_range=[1, 20]")
    process = run_process(STOPPED, "train", *settings, "--out", str(out))
    assert process.returncode == 130
    assert process.stdout == ""
    start = "discrimloss: stopped in epoch 2, after step 1; continue with: "
    assert process.stderr.startswith(start)
    assert process.stderr.count("\n") == 1
    assert not (out / "summary.json").exists()

    # The very words, given to a shell that has the command.
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "discrimloss").write_text(f'#!/bin/sh\nexec {sys.executable} -c "$PROGRAM" "$@"\n')
    (commands / "discrimloss").chmod(0o755)
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    resumed = subprocess.run(
        ["sh", "-c", process.stderr.removeprefix(start)],
        env=environment(PATH=path, PROGRAM=RUN_MAIN),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert resumed.stderr == ""
    assert resumed.returncode == 0
    # (1, 20) is the default range, so the figures are those of the run that was never stopped.
    assert figures(out) == figures(finished)


@pytest.mark.parametrize("in_environment", [False, True])
def test_sigterm_says_how_to_go_on_with_the_same_data(
    in_environment: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = write_mnist(tmp_path / "my data")
    place: tuple[str, ...] = ("--data", str(data))
    if in_environment:
        monkeypatch.setenv("DISCRIMLOSS_DATA", str(data))
        place = ()
    small = ("mnist", *SMALL[1:])
    stop_at(monkeypatch, signal.SIGTERM)
    sentence = refused(capsys, "train", *small, *place, "--out", "out", code=143)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path / "work")
    if in_environment:
        monkeypatch.setenv("DISCRIMLOSS_DATA", str(data))
    command = sentence.partition("continue with: ")[2]
    assert ("--data" in command) is not in_environment
    program, *arguments = shlex.split(command)
    assert program == "discrimloss"
    assert main(arguments) == 0
    assert summary_of(Path("out"))["epochs"] == 2


def test_a_second_request_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def on_step(self: Any, epoch: int, step: int, steps: int, samples: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("discrimloss.cli.displays.TrainDisplay.on_step", on_step)
    out = str(tmp_path / "out")
    sentence = refused(capsys, "train", *SMALL, "--out", out, code=130)
    assert sentence.startswith("stopped at once; continue with: discrimloss train digits ")
    monkeypatch.undo()
    assert main(["train", *SMALL, "--out", out, "--resume"]) == 0


# What it says of itself.


def test_help_mentions_what_matters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    printed = capsys.readouterr().out
    for word in ("--data", "--out", "--seed", "--resume", "--overwrite", "DISCRIMLOSS_DATA"):
        assert word in printed
    assert "[KEY=VALUE]..." in printed.partition("\n")[0]
    assert "noise.rate=0.4" in printed
    assert "`discrimloss ls`" in printed
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    for command in ("train", "ls", "cp", "data", "demo"):
        assert f"\n  {command} " in printed


def test_every_recipe_has_a_place_of_its_own_by_default() -> None:
    places = {load_recipe(name).recipe for name in recipe_files()}
    assert len(places) == len(recipe_files())
