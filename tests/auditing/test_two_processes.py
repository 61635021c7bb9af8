"""An audit in two processes: the work is divided, and the result is that of one process."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import audits_in_processes
import numpy as np
import pandas as pd
import pytest
from tiny_images import write_colours
from tiny_text_data import write_tiny_encoder
from torchrun import needs_gloo, run_in_processes

pytestmark = needs_gloo

PROGRAM = Path(audits_in_processes.__file__)
SAMPLES = 400


class Audits:
    """What one process and two processes left behind and printed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        printed = io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            alone = audits_in_processes.audit_all(directory, 0, 1, patch.setattr)
        (directory / "1-0.json").write_text(json.dumps(alone))
        self.printed = {1: printed.getvalue(), 2: run_in_processes(2, PROGRAM, directory)}

    def file(self, processes: int, audit: str, name: str) -> Path:
        return self.directory / f"{processes}-{audit}" / name

    def work(self, processes: int, audit: str) -> list[dict[str, Any]]:
        """Of each process: its exit code, and how often it computed what is divided."""
        files = [self.directory / f"{processes}-{rank}.json" for rank in range(processes)]
        return [json.loads(file.read_text())[audit] for file in files]


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> Audits:
    directory = tmp_path_factory.mktemp("audits")
    rng = np.random.default_rng(0)
    true = rng.integers(3, size=SAMPLES)
    label = np.where(rng.random(SAMPLES) < 0.1, (true + 1) % 3, true)
    topics = [["goal", "team", "coach"], ["bank", "stock", "trade"], ["atom", "cell", "star"]]
    texts = [" ".join(rng.choice([*topics[topic], "the", "new"], 6)) for topic in true]
    pd.DataFrame({"text": texts, "label": label}).to_csv(directory / "texts.csv", index=False)
    points = rng.normal(size=(SAMPLES, 3))
    points[:, 0] += 3 * true
    columns = dict(zip("abc", points.T, strict=True))
    pd.DataFrame({**columns, "label": label}).to_csv(directory / "table.csv", index=False)
    targets = 3 * points[:, 0] + points[:, 1]
    targets[:60] = rng.permutation(targets)[:60]
    pd.DataFrame({**columns, "label": targets}).to_csv(directory / "targets.csv", index=False)
    write_colours(directory / "images")
    write_tiny_encoder(directory / "encoder")
    return Audits(directory)


@pytest.mark.parametrize("audit", ["texts", "table", "targets"])
@pytest.mark.parametrize("name", ["verdicts.csv", "cleaned.csv"])
def test_the_result_is_that_of_one_process(audits: Audits, audit: str, name: str) -> None:
    one, two = (audits.file(processes, audit, name).read_bytes() for processes in (1, 2))
    assert len(one.splitlines()) > SAMPLES / 2
    assert two == one


@pytest.mark.parametrize(
    ("audit", "computed"),
    [("texts", "__call__"), ("texts", "_fitted"), ("table", "_fitted"), ("targets", "fit")],
)
def test_each_process_does_its_part(audits: Audits, audit: str, computed: str) -> None:
    [alone] = audits.work(1, audit)
    parts = [work[computed] for work in audits.work(2, audit)]
    assert sum(parts) == alone[computed]
    assert max(parts) - min(parts) <= 2 + alone[computed] // 5  # folds of few models are uneven


def test_features_are_made_once_and_kept_by_the_first_process(audits: Audits) -> None:
    for processes in (1, 2):
        for work in audits.work(processes, "cached"):
            assert work["code"] == 0
            assert "__call__" not in work
            assert work["_fitted"] > 0


def test_a_finished_audit_is_refused_or_read_by_all(audits: Audits) -> None:
    first, second = audits.work(2, "finished")
    assert first["code"] == 2
    assert second["code"] == 0  # the launcher would end the first one, too
    assert [work["code"] for work in audits.work(2, "resumed")] == [0, 0]
    assert not any("_fitted" in work for work in audits.work(2, "resumed"))


def test_only_the_first_process_prints(audits: Audits) -> None:
    for processes in (1, 2):
        assert audits.printed[processes].count("2-table/report.html") == processes - 1


def test_an_error_of_one_process_ends_both(audits: Audits) -> None:
    assert [work["code"] for work in audits.work(2, "alone")] == [2, 0]
    assert audits.printed[2].count("only process 1 refuses: mend it") == 1
    assert not (audits.directory / "2-alone").exists()
    assert [work["code"] for work in audits.work(2, "broken")] == [1, "traceback"]
    assert "process 1 failed (ZeroDivisionError: a bug)" in audits.printed[2]


def test_a_network_is_refused(audits: Audits) -> None:
    assert [work["code"] for work in audits.work(2, "network")] == [2, 0]
    assert audits.printed[2].count("start it without torchrun") == 1
