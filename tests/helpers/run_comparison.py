"""Whether two runs came to the same result, to the last bit."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor


def progress_of(run: Path) -> dict[str, Any]:
    """Where the checkpoint of a run stands."""
    manifest = json.loads((run / "checkpoint" / "progress.json").read_text())
    progress: dict[str, Any] = manifest["progress"]
    return progress


def place_of(run: Path) -> tuple[int, int]:
    """The epoch at work, and how many of its steps are done."""
    progress = progress_of(run)
    return progress["epoch"], progress["step"]


def history_of(run: Path) -> list[dict[str, str]]:
    """The rows of history.csv, without the time they took."""
    with (run / "history.csv").open(newline="") as file:
        return [
            {name: value for name, value in row.items() if name != "seconds"}
            for row in csv.DictReader(file)
        ]


def assert_same_run(run: Path, expected: Path) -> None:
    """Parameters, sample state, optimizer, generators, records, traces and figures are equal."""
    for name in ("model.safetensors", "optimizer.bin", "random_states_0.pkl"):
        assert (expected / "checkpoint" / name).is_file()
    # A safetensors file has no dates or names in it: equal contents are equal bytes.
    weights = [(path / "checkpoint" / "model.safetensors").read_bytes() for path in (run, expected)]
    assert weights[0] == weights[1], "model.safetensors"
    for name in ("optimizer.bin", "random_states_0.pkl"):
        # Both files are of our own making.
        states = [
            torch.load(path / "checkpoint" / name, weights_only=False) for path in (run, expected)
        ]
        for state in states:  # nobody draws from these two, so nobody seeds them
            state.pop("random_state", None)
            state.pop("numpy_random_seed", None)
        assert states[0], name
        assert_same(states[0], states[1], name)
    assert history_of(run) == history_of(expected)
    assert len(history_of(run)) == len((run / "history.jsonl").read_text().splitlines())
    frames = [pd.read_parquet(path / "verdicts.parquet") for path in (run, expected)]
    pd.testing.assert_frame_equal(frames[0], frames[1], check_exact=True)
    summaries = [json.loads((path / "summary.json").read_text()) for path in (run, expected)]
    for summary in summaries:
        assert summary.pop("seconds") >= 0.0
    assert summaries[0] == summaries[1]
    traces = [
        {file.name: file.read_bytes() for file in (path / "samples").iterdir()}
        for path in (run, expected)
    ]
    assert traces[0] == traces[1]
    assert sorted(p.name for p in run.iterdir()) == sorted(p.name for p in expected.iterdir())


def assert_same(found: Any, expected: Any, where: str) -> None:
    """Nested states are equal."""
    assert type(found) is type(expected), where
    if isinstance(expected, Tensor):
        assert torch.equal(found, expected), where
    elif isinstance(expected, np.ndarray):
        assert np.array_equal(found, expected), where
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key, value in expected.items():
            assert_same(found[key], value, f"{where}: {key}")
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), where
        for position, value in enumerate(expected):
            assert_same(found[position], value, f"{where}: {position}")
    else:
        assert found == expected, where
