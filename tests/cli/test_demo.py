"""`discrimloss demo` from outside: what it prints, writes and refuses."""

import csv
import dataclasses
import json
import os
import re
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import refused, snapshot
from sklearn.datasets import load_digits

import discrimloss
from discrimloss.auditing import settings
from discrimloss.cli import main
from discrimloss.demo import audits

SMALL = ("demo", "--seeds", "2", "--epochs", "6", "--seed", "1", "--no-audit")
FILES = ("summary.json", "suspicious.png", "table.md", "verdicts.csv")


@dataclass(frozen=True)
class Finished:
    directory: Path
    printed: str

    @property
    def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = json.loads((self.directory / "summary.json").read_text("utf-8"))
        return summary

    def bytes_of(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()


def run_process(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    source = Path(discrimloss.__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        env=os.environ | {"PYTHONPATH": str(source), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


RUN_MAIN = "import sys; from discrimloss.cli import main; sys.exit(main())"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A small demo, run as a person would."""
    directory = tmp_path_factory.mktemp("demo") / "not" / "there" / "yet"
    process = run_process(RUN_MAIN, *SMALL, "--out", str(directory))
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""  # no progress bar unless on a terminal
    return Finished(directory, process.stdout)


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if anything is trained: bad input must be refused before."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("trained")

    monkeypatch.setattr("discrimloss.demo.experiment.run_experiment", refuse)


# What it writes and prints.


def test_it_leaves_four_files_and_nothing_else(finished: Finished) -> None:
    assert sorted(snapshot(finished.directory)) == list(FILES)
    assert [path.name for path in finished.directory.parent.iterdir()] == ["yet"]


def test_the_summary_has_every_figure_and_what_made_it(finished: Finished) -> None:
    summary = finished.summary
    assert summary["command"] == "discrimloss demo --noise 0.4 --epochs 6 --seed 1 --seeds 2"
    assert summary["seeds"] == [1, 2]
    assert summary["epochs"] == 6
    assert summary["noise"] == 0.4
    expected = {
        "discrimloss": discrimloss.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }
    assert expected.items() <= summary["versions"].items()
    assert summary["training"]["recipe"] == "digits"
    for figure in summary["figures"].values():
        assert len(figure["per_seed"]) == 2
        assert figure["mean"] == pytest.approx(np.mean(figure["per_seed"]))
        assert figure["std"] == pytest.approx(np.std(figure["per_seed"], ddof=1))
    figures = summary["figures"]
    for seed in range(2):
        value = {name: figure["per_seed"][seed] for name, figure in figures.items()}
        assert value["wrong_labels"] == round(0.4 * summary["data"]["training_samples"])
        assert value["recall"] == value["flagged_and_wrong"] / value["wrong_labels"]
        assert value["precision"] == value["flagged_and_wrong"] / value["flagged_labels"]


def test_the_table_agrees_with_the_summary(finished: Finished) -> None:
    figures = finished.summary["figures"]

    def cell(name: str) -> str:
        return f"{100 * figures[name]['mean']:.1f} ± {100 * figures[name]['std']:.1f}"

    true_rate = f"{100 * figures['true_noise_rate']['mean']:.1f}"
    rows = [
        ("test accuracy", cell("cross_entropy_accuracy"), cell("discrimloss_accuracy")),
        ("wrong labels found (recall)", "–", cell("recall")),
        ("flagged labels that are wrong (precision)", "–", cell("precision")),
        (f"estimated noise rate (true: {true_rate})", "–", cell("estimated_noise_rate")),
    ]
    table = (finished.directory / "table.md").read_text("utf-8")
    for row in rows:
        assert f"| {' | '.join(row)} |" in table
        line = next(line for line in finished.printed.splitlines() if row[0] in line)
        assert tuple(part.strip() for part in line.strip("│").split("│")) == row
    assert finished.summary["command"] in table


def test_it_ends_with_where_the_picture_is(finished: Finished) -> None:
    picture = finished.printed.splitlines()[-1]
    assert picture == f"Picture: {finished.directory / 'suspicious.png'}"


def test_the_verdicts_are_of_the_first_seed_worst_first(finished: Finished) -> None:
    text = finished.bytes_of("verdicts.csv").decode()
    rows = list(csv.DictReader(text.splitlines()))
    assert list(rows[0]) == [
        "id",
        "given_label",
        "suggested_label",
        "verdict",
        "p_incorrect",
        "score",
        "average_loss",
        "weight",
        "index",
    ]
    summary = finished.summary
    assert len({row["id"] for row in rows}) == summary["data"]["training_samples"]
    probabilities = [float(row["p_incorrect"]) for row in rows]
    assert probabilities == sorted(probabilities, reverse=True)
    assert {row["verdict"] for row in rows} <= {"easy", "hard", "undecided", "incorrect"}

    # The truth about each row is in the original data; it must give the same figures.
    _, labels = load_digits(return_X_y=True)
    wrong = np.array([labels[int(row["id"])] != int(row["given_label"]) for row in rows])
    flagged = np.array([row["verdict"] == "incorrect" for row in rows])
    figures = {name: figure["per_seed"][0] for name, figure in summary["figures"].items()}
    assert wrong.sum() == figures["wrong_labels"]
    assert flagged.sum() == figures["flagged_labels"]
    assert (wrong & flagged).sum() / wrong.sum() == figures["recall"]
    assert np.mean(probabilities) == pytest.approx(figures["estimated_noise_rate"], abs=1e-5)
    flagged_rows = [row for row in rows if row["verdict"] == "incorrect"]
    assert all(row["suggested_label"] != row["given_label"] for row in flagged_rows)
    # The network learns from labels that are mostly right.
    right = [labels[int(row["id"])] == int(row["suggested_label"]) for row in rows]
    assert np.mean(right) > 0.7


def test_the_picture_is_a_png_a_thousand_pixels_wide(finished: Finished) -> None:
    picture = finished.bytes_of("suspicious.png")
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])
    assert width == 1000
    assert 700 < height < 1000


def test_the_same_seed_repeats_exactly_and_another_does_not(
    finished: Finished, tmp_path: Path
) -> None:
    assert main((*SMALL, "--out", str(tmp_path / "again"))) == 0
    again = Finished(tmp_path / "again", "")
    for name in FILES:
        assert again.bytes_of(name) == finished.bytes_of(name)
    other = ("demo", "--seeds", "1", "--epochs", "6", "--seed", "2", "--no-audit")
    assert main((*other, "--out", str(tmp_path / "other"))) == 0
    figures, others = finished.summary["figures"], Finished(tmp_path / "other", "").summary
    assert others["figures"]["recall"]["per_seed"] == figures["recall"]["per_seed"][1:]
    assert others["figures"]["recall"]["std"] is None
    assert figures["estimated_noise_rate"]["std"] > 0


def test_clean_data_is_no_special_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ("demo", "--noise", "0", "--seeds", "1", "--epochs", "6", "--no-audit")
    arguments = (*small, "--out", str(tmp_path))
    assert main(arguments) == 0
    assert sorted(snapshot(tmp_path)) == list(FILES)
    figures = Finished(tmp_path, "").summary["figures"]
    assert figures["wrong_labels"]["mean"] == 0
    assert figures["recall"] == {"mean": None, "std": None, "per_seed": [None]}
    assert re.search(r"\(recall\) +│ +– │ +– │", capsys.readouterr().out)


# What it refuses.


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("demo", "--noise", "0.91"), "--noise must be a fraction from 0 to 0.9, not 0.91"),
        (("demo", "--noise", "-0.1"), "--noise must be a fraction from 0 to 0.9, not -0.1"),
        (("demo", "--noise", "nan"), "--noise must be a fraction from 0 to 0.9, not nan"),
        (("demo", "--seeds", "0"), "--seeds must be 1 or more, not 0"),
        (("demo", "--epochs", "1"), "--epochs must be 2 or more, not 1"),
        (("demo", "--seed", "-1"), "--seed must be a number from 0 to 4294967295, not -1"),
        (("demo", "--noise", "much"), "'--noise'"),
        (("demo", "--nois", "0.4"), "see `discrimloss demo --help`"),
        (("demo", "extra"), "see `discrimloss demo --help`"),
        (("dem",), "no such command 'dem'; see `discrimloss --help`"),
        (("--nonsense",), "see `discrimloss --help`"),
    ],
)
def test_bad_input_gets_one_sentence(
    arguments: tuple[str, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in refused(capsys, *arguments)
    assert snapshot(tmp_path) == {}


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("below", [(), ("deeper",), ("deeper", "still")])
def test_a_file_is_no_place_for_results(
    below: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    sentence = refused(capsys, "demo", "--out", str(file.joinpath(*below)))
    assert sentence == f"{file} is not a directory: choose another path with --out"
    assert snapshot(tmp_path) == {"file": b"mine"}


@pytest.mark.usefixtures("no_training")
def test_a_directory_that_cannot_be_written_to_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The superuser may write everywhere, so that permissions alone would not do.
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("discrimloss.cli.output_directory.TemporaryDirectory", refuse)
    sentence = refused(capsys, "demo", "--out", str(tmp_path / "new"))
    assert "(permission denied): choose a directory that you can write to" in sentence
    assert snapshot(tmp_path) == {}


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def half(experiment: Any, command: str, directory: Path) -> None:
        (directory / "table.md").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("discrimloss.demo.results.write_results", half)
    small = ("demo", "--seeds", "1", "--epochs", "2", "--no-audit", "--out", str(tmp_path / "new"))
    assert "(no space left on device)" in refused(capsys, *small)
    assert snapshot(tmp_path) == {}


def test_stopping_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("discrimloss.demo.experiment.run_experiment", stop)
    assert main(("demo", "--out", str(tmp_path / "new"))) == 130
    assert capsys.readouterr() == ("", "discrimloss: stopped; nothing was written\n")
    assert snapshot(tmp_path) == {}


# What it overwrites.


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """Looks like an earlier demo, in which a person also keeps something."""
    directory = tmp_path / "earlier"
    directory.mkdir()
    (directory / "summary.json").write_text('{"command": "discrimloss demo --seed 7"}')
    (directory / "table.md").write_text("earlier")
    (directory / "notes.txt").write_text("mine")
    return directory


@pytest.mark.usefixtures("no_training")
def test_an_earlier_demo_is_kept(earlier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(earlier)
    assert "--overwrite" in refused(capsys, "demo", "--out", str(earlier))
    assert snapshot(earlier) == before


def test_overwrite_replaces_an_earlier_demo_and_nothing_else(
    earlier: Path, finished: Finished
) -> None:
    assert main((*SMALL, "--out", str(earlier), "--overwrite")) == 0
    expected = snapshot(finished.directory) | {"notes.txt": b"mine"}
    assert snapshot(earlier) == expected


def test_a_demo_that_came_in_the_meantime_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "new" / "summary.json"

    def slow(experiment: Any, command: str, directory: Path) -> None:
        (directory / "summary.json").write_text("second")
        summary.parent.mkdir()
        summary.write_text('{"command": "discrimloss demo"}')

    monkeypatch.setattr("discrimloss.demo.results.write_results", slow)
    small = ("demo", "--seeds", "1", "--epochs", "2", "--no-audit", "--out", str(tmp_path / "new"))
    assert "--overwrite" in refused(capsys, *small)
    assert snapshot(tmp_path / "new") == {"summary.json": b'{"command": "discrimloss demo"}'}


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("thesis.tex", "years of work"),
        ("summary.json", '{"command": "python thesis.py"}'),
        ("summary.json", '{"command": "discrimloss demolish"}'),
        ("summary.json", '{"command": 1}'),
        ("summary.json", '["discrimloss demo"]'),
        ("summary.json", "discrimloss demo"),
    ],
)
def test_another_directory_is_never_touched(
    overwrite: tuple[str, ...],
    name: str,
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / name).write_text(text)
    sentence = refused(capsys, "demo", "--out", str(tmp_path), *overwrite)
    assert sentence.endswith("holds other files: choose a new or an empty directory")
    assert snapshot(tmp_path) == {name: text.encode()}


# The command line itself.


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr() == (f"discrimloss {discrimloss.__version__}\n", "")


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--help"]) == 0
    printed = capsys.readouterr().out
    for option in ("--out", "--seed", "--seeds", "--noise", "--epochs", "--overwrite"):
        assert f"{option} " in printed


def test_without_a_command_it_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    without = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == without
    assert "demo" in without


NEEDS = "needs an extra ({} is missing): pip install 'discrimloss[demo]'"


@pytest.mark.parametrize(
    ("missing", "arguments", "says"),
    [
        (
            "typer",
            ("--version",),
            "the command line needs an extra (typer is missing): pip install 'discrimloss[cli]'",
        ),
        (
            "rich",
            ("demo",),
            "the command line needs an extra (rich is missing): pip install 'discrimloss[cli]'",
        ),
        ("sklearn", ("demo",), f"the demo {NEEDS.format('sklearn')}"),
        ("matplotlib", ("demo",), f"the demo {NEEDS.format('matplotlib')}"),
    ],
)
def test_a_missing_extra_is_named(
    missing: str, arguments: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    program = f"import sys, os; os.chdir({str(tmp_path)!r}); sys.modules[{missing!r}] = None\n"
    process = run_process(program + RUN_MAIN, *arguments)
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr == f"discrimloss: {says}\n"
    assert snapshot(tmp_path) == {}


def test_it_ends_with_audits_of_images_and_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = dataclasses.replace(settings._IMAGES, epochs=(2, 2))
    monkeypatch.setattr(settings, "_IMAGES", quick)
    monkeypatch.setattr(audits.audit_docstrings, "__defaults__", (200,))
    out = tmp_path / "demo"
    arguments = ["demo", "--seeds", "1", "--epochs", "2", "--out", str(out)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert f"Report: {out / 'audit-images' / 'report.html'}" in printed
    assert printed.endswith(f"Next: discrimloss review {out / 'audit-texts'}\n")

    lines = (out / "audit-images" / "verdicts.csv").read_text("utf-8").splitlines()
    verdicts = list(csv.DictReader(lines))
    with np.load(out / "digits.npz") as digits:
        assert len(verdicts) == len(digits["labels"]) == 1348
        given = dict(zip(digits["ids"].tolist(), digits["labels"].tolist(), strict=True))
    assert all(int(row["given_label"]) == given[row["id"]] for row in verdicts)

    with (out / "docstrings.csv").open(newline="", encoding="utf-8") as file:
        texts = list(csv.DictReader(file))
    assert len(texts) == 200
    flagged = json.loads((out / "audit-texts" / "summary.json").read_text("utf-8"))
    assert flagged["samples"] == 200
    assert re.search(r"labels +│ +1,348 │ +200 │", printed)
    assert re.search(r"wrong labels +│ +539 │ +20 │", printed)

    decisions = out / "audit-images" / "decisions.jsonl"
    decisions.write_text("{}\n", encoding="utf-8")
    assert main([*arguments, "--overwrite"]) == 2
    assert "decisions" in capsys.readouterr().err
    assert decisions.is_file()
