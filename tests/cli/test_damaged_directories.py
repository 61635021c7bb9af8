"""Damage to any file of a run or an audit: one sentence, or the same result as without it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any

import pytest
from audit_runs import audited, write_blobs

from discrimloss.auditing.result import AuditResult
from discrimloss.cli import main
from discrimloss.errors import DiscrimLossError
from discrimloss.recipes import load_recipe
from discrimloss.training.interruption import Interrupted
from discrimloss.training.run import RunRequest, run_training

TRAIN = ("train", "digits", "train_size=60", "epochs=3", "threads=1", "tensorboard=false")
REFUSED = 2


def cut(path: Path) -> None:
    """Remove the second half, as a full disk does."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    """Remove all contents."""
    path.write_bytes(b"")


def garble(path: Path) -> None:
    """Replace some bytes in the middle."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8] = b"\x00\xffgarbage"[: len(content[middle : middle + 8])]
    path.write_bytes(content)


Damages = Sequence[Callable[[Path], None]]
DAMAGES: Damages = (cut, empty, garble, Path.unlink)
UNREAD: Damages = (garble, Path.unlink)
"""Of files that nothing reads: a reader would trip over bytes that are no text, and no file."""


class StopsAfterFirstEpoch:
    """An observer that stops a run in its second epoch."""

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        if epoch == 2:
            raise Interrupted(2, "here")

    def on_epoch(self, row: dict[str, Any]) -> None:
        pass


def files(directory: Path) -> list[Path]:
    """Every file with contents, without the locks."""
    found = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    return [path for path in found if path.name != ".lock" and path.stat().st_size]


def damaged_copies(
    original: Path, place: Path, read: Set[str] | None = None
) -> Iterator[tuple[str, Path]]:
    """Copies of a directory, each with one file damaged in one way, and what was done.

    Args:
        original: the directory.
        place: where the copies go.
        read: names of the files that are read again; None if all are.
    """
    for path in files(original):
        for damage in DAMAGES if read is None or path.name in read else UNREAD:
            copy = place / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(original, copy)
            damage(copy / path.relative_to(original))
            yield f"{getattr(damage, '__name__', damage)} {path.relative_to(original)}", copy


def records(run: Path) -> dict[str, Any]:
    """What a run found, without times and places."""
    summary = json.loads((run / "summary.json").read_text())
    history = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    for each in (summary, *history):
        each.pop("seconds")
    summary.pop("command")
    traces = {file.name: file.read_bytes() for file in sorted((run / "samples").iterdir())}
    verdicts = (run / "verdicts.parquet").read_bytes()
    config = (run / "config.toml").read_bytes()
    return {
        "summary": summary,
        "history": history,
        "traces": traces,
        "verdicts": verdicts,
        "config": config,
    }


def is_one_sentence(text: str) -> bool:
    return re.fullmatch(r"discrimloss: [^\n]+\n", text) is not None


@pytest.fixture(scope="module")
def stopped_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "stopped"
    config = load_recipe(TRAIN[1], TRAIN[2:])
    with pytest.raises(Interrupted):
        run_training(RunRequest(config, Path(), out), StopsAfterFirstEpoch())
    return out


@pytest.fixture(scope="module")
def finished_run(stopped_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "finished"
    shutil.copytree(stopped_run, out)
    assert main((*TRAIN, "--out", str(out), "--resume")) == 0
    return out


def test_a_resumed_run_ends_as_the_undamaged_one_or_is_refused(
    stopped_run: Path, finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = records(finished_run)
    capsys.readouterr()
    wrong = []
    for what, copy in damaged_copies(stopped_run, tmp_path):
        code = main((*TRAIN, "--out", str(copy), "--resume"))
        error = capsys.readouterr().err
        if code == 0 and records(copy) == expected:
            continue
        if code != REFUSED or not is_one_sentence(error):
            wrong.append((what, code, error[-300:]))
    assert not wrong


def test_a_finished_run_that_is_damaged_is_neither_reported_nor_taken_for_finished(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = records(finished_run)
    capsys.readouterr()
    wrong = []
    for what, copy in damaged_copies(finished_run, tmp_path):
        name = what.split()[1]
        is_record = not name.startswith(("checkpoint/", "tensorboard/")) and (
            name not in ("checksums.json", "summary.json") or not what.startswith("unlink")
        )
        reported = main(("report", str(copy), "--out", str(tmp_path / "page.html"), "--overwrite"))
        error = capsys.readouterr().err
        if reported != (REFUSED if is_record else 0) or (reported and not is_one_sentence(error)):
            wrong.append(("report", what, reported, error[-300:]))
        resumed = main((*TRAIN, "--out", str(copy), "--resume"))
        error = capsys.readouterr().err
        if resumed == 0 and records(copy) != expected:
            wrong.append(("resume", what, "other records", ""))
        elif resumed != 0 and (resumed != REFUSED or not is_one_sentence(error)):
            wrong.append(("resume", what, resumed, error[-300:]))
    assert not wrong


def test_an_audit_that_is_damaged_is_refused_by_all_who_read_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "audit"
    audited(write_blobs(tmp_path / "blobs.npz", 60), out)
    AuditResult.load(out).to_pandas()
    capsys.readouterr()
    read_again = {
        "audit.json",
        "summary.json",
        "verdicts.parquet",
        "health.csv",
        "evidence.parquet",
    }
    wrong = []
    for what, copy in damaged_copies(out, tmp_path, read_again):
        is_record = what.split()[1] in read_again
        for command in (
            ("report", str(copy), "--out", str(tmp_path / "page.html"), "--overwrite"),
            ("apply", str(copy), "--accept-suggestions", "0.5", "--out", str(tmp_path / "fixed")),
        ):
            shutil.rmtree(tmp_path / "fixed", ignore_errors=True)
            code = main(command)
            error = capsys.readouterr().err
            allowed = (REFUSED,) if is_record else (0, REFUSED)
            if code not in allowed or (code and not is_one_sentence(error)):
                wrong.append((command[0], what, code, error[-300:]))
        if is_record:
            with pytest.raises(DiscrimLossError):
                AuditResult.load(copy)
    assert not wrong
