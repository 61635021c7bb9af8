"""`discrimloss tune` from outside: what it prints, writes and refuses, and how it goes on."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from pathlib import Path

import pytest
from command_line import RUN_MAIN, refused, run_process
from tuning_runs import SMALL, before_every_epoch, send_in

from discrimloss.cli import main
from discrimloss.recipes import load_recipe
from discrimloss.tuning import trial as trials

TUNE = ("tune", "digits", *SMALL)

pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.mark.usefixtures("quick_verdicts")
def test_a_search_and_the_recipe_that_comes_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*TUNE, "--trials", "2", "--seed", "5"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    for words in (
        "recipe as it is",
        "best by noisy validation",
        "best by clean test (oracle)",
        "2 trials complete, 0 pruned, 0 failed",
    ):
        assert words in captured.out
    out = Path("tuned/digits-discrimloss")
    assert {path.name for path in out.iterdir()} == {
        "tune.db",
        "best.toml",
        "trials.csv",
        "tuning.html",
    }
    command = captured.out.splitlines()[-1]
    assert command == f"Train it: discrimloss train {out / 'best.toml'}"
    config = load_recipe(str(out / "best.toml"))
    assert config.seed == 5
    for line in captured.out.splitlines():
        if line.startswith("  options.switch_gain = "):
            assert config.options["switch_gain"] == float(line.rpartition(" ")[2])
            break
    else:
        raise AssertionError("the best values are not shown")
    # What it says to do works.
    where = ("--out", str(tmp_path / "run"))
    assert main([*command.removeprefix("Train it: discrimloss ").split(), *where]) == 0


def test_ctrl_c_and_the_same_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = (*TUNE, "--trials", "2")
    with monkeypatch.context() as patch:
        act = send_in(1, signal.SIGINT)
        patch.setattr(trials._Watcher, "on_epoch", before_every_epoch(act))
        sentence = refused(capsys, *command, code=130)
    assert sentence == "stopped after 1 of 2 trials: the same command continues"
    assert not Path("tuned/digits-discrimloss/best.toml").exists()
    assert main(list(command)) == 0
    assert "2 trials complete, 0 pruned, 1 failed" in capsys.readouterr().out


def test_a_storage_and_a_study_of_one_s_own(capsys: pytest.CaptureFixture[str]) -> None:
    shared = ("--trials", "1", "--storage", "sqlite:///shared.db", "--study", "mine")
    assert main([*TUNE, *shared, "--out", "a"]) == 0
    assert main([*TUNE, *shared, "--out", "b"]) == 0  # another machine: nothing left to do
    assert (
        Path("a/best.toml").read_bytes().splitlines()[1:]
        == (Path("b/best.toml").read_bytes().splitlines()[1:])
    )
    assert not Path("a/tune.db").exists()
    capsys.readouterr()
    sentence = refused(capsys, *TUNE, "noise.rate=0.2", *shared, "--out", "c")
    assert sentence == (
        "study 'mine' in sqlite:///shared.db searches something else (noise.rate was 0.4, "
        "now 0.2): give the same settings, or choose another with --study"
    )


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("digit",), "unknown recipe 'digit': did you mean 'digits'?"),
        (("digits", "epoch=2"), "unknown key epoch: did you mean 'epochs'?"),
        (("digits", "--trials", "0"), "--trials must be 1 or more, not 0"),
        (("digits", "--jobs", "0"), "--jobs must be 1 or more, not 0"),
        (("digits", "--search", "seed=1,2"), "'seed' cannot be searched"),
        (("digits", "method=gce", "--search", "method"), "has no search space of its own"),
        (("digits", "--out", "file"), "file is not a directory: choose another path with --out"),
        (("mnist",), "pass the data directory with --data DIR"),
        (("digits", "--data", "nowhere"), "the data directory nowhere does not exist"),
        (("digits", "--storage", "tune.db"), "--storage must be a database URL, e.g. sqlite:///"),
        (("digits", "--storage", "sqlite://"), "name a file, sqlite:///FILE"),
        (("digits", "--storage", "nosql://host/db"), "no kind of database named 'nosql'"),
        (
            ("digits", "--storage", "sqlite:///not/there/tune.db"),
            "cannot use --storage sqlite:///not/there/tune.db (unable to open database file)",
        ),
        (
            ("digits", "--storage", "sqlite:///file"),
            "cannot use --storage sqlite:///file (file is not a database)",
        ),
        (
            ("digits", "noisy_validation=0"),
            "noisy_validation = 0 leaves no validation samples to compare trials by",
        ),
    ],
)
def test_what_is_refused(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("no database and no directory", encoding="utf-8")
    assert sentence in refused(capsys, "tune", *arguments)


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("mnist", "--data", "../data"), "no mnist data in ../data"),
        (("digits", "noisy_validation=0.0001"), "leaves nothing to validate on"),
        (("digits", "train_size=9999"), "more than the 1348 training samples"),
    ],
)
def test_what_every_trial_would_fail_of_leaves_nothing(
    words: tuple[str, ...],
    sentence: str,
    jobs: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "data").mkdir()
    assert sentence in refused(capsys, "tune", *words, "--trials", "1", "--jobs", jobs)
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize(
    ("scheme", "module", "package"),
    [
        ("postgresql+psycopg", "psycopg", "'psycopg[binary]'"),
        ("postgresql+psycopg2", "psycopg2", "psycopg2-binary"),
        ("mysql", "MySQLdb", "mysqlclient"),
        ("mysql+mysqlconnector", "mysql", "mysql-connector-python"),
        ("mysql+pymysql", "pymysql", "pymysql"),
    ],
)
def test_a_missing_driver_is_named_and_the_password_is_not(
    scheme: str,
    module: str,
    package: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    sentence = refused(capsys, "tune", "digits", "--storage", f"{scheme}://me:secret@host/db")
    assert sentence == (
        f"--storage {scheme}://me:***@host/db needs a database driver that is not installed: "
        f"pip install {package}"
    )


@pytest.mark.usefixtures("no_training")
def test_a_locked_database(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discrimloss.tuning.storage.SQLITE_PATIENCE", 0.05)
    other = sqlite3.connect("busy.db", isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        sentence = refused(capsys, "tune", "digits", "--storage", "sqlite:///busy.db")
    finally:
        other.close()
    assert "(database is locked): end what else has the file open" in sentence


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is forbidden here")
@pytest.mark.usefixtures("no_training")
def test_no_permission(capsys: pytest.CaptureFixture[str]) -> None:
    Path("closed").mkdir(mode=0o500)
    assert "cannot write to" in refused(capsys, "tune", "digits", "--out", "closed/tuned")


def test_without_optuna() -> None:
    program = f"import sys; sys.modules['optuna'] = None\n{RUN_MAIN}"
    process = run_process(program, "tune", "digits")
    assert process.returncode == 2
    assert process.stderr == (
        "discrimloss: tuning needs an extra (optuna is missing): pip install 'discrimloss[tune]'\n"
    )
    assert not Path("tuned").exists()
