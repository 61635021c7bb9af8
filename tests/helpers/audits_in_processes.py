"""Audits in one process or in several, and how much each process did.

A test calls `audit_all`, or starts this program in several processes:
``audits_in_processes.py DIRECTORY``. It holds texts.csv, table.csv, targets.csv, the folder of
images and that of the encoder.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import jinja2  # noqa: F401 - here, so that they are imported once for all processes
import pandas  # noqa: F401
import torch.distributed as dist
import transformers  # noqa: F401
from sklearn.ensemble import HistGradientBoostingRegressor

from discrimloss.auditing.out_of_fold import predictions
from discrimloss.auditing.sources import text
from discrimloss.cli import main
from discrimloss.errors import DiscrimLossError

COUNTED = (
    (predictions, "_fitted"),
    (HistGradientBoostingRegressor, "fit"),
    (text.TextEncoder, "__call__"),
)


def audit_all(
    directory: Path, rank: int, processes: int, replace: Callable[[Any, str, Any], None] = setattr
) -> dict[str, Any]:
    """Exit codes of the audits, and what this process computed in each.

    Args:
        directory: of the data and of the results.
        rank: of this process.
        processes: how many there are.
        replace: `setattr`, or that of a `MonkeyPatch`: what counts calls.
    """
    found: dict[str, Any] = {}

    def run(name: str, source: str, *options: str, out: str | None = None) -> None:
        work.clear()
        place = directory / f"{processes}-{out or name}"
        code = main(["audit", str(directory / source), "--out", str(place), *options])
        found[name] = {"code": code, **work}

    work: Counter[str] = Counter()
    for owner, called in COUNTED:
        replace(owner, called, counting(getattr(owner, called), called, work))

    encoder = ("--encoder", str(directory / "encoder"))
    texts = ("texts.csv", "--label", "label", "--text", "text", *encoder)
    run("texts", *texts)
    run("finished", *texts, out="texts")
    run("resumed", *texts, "--resume", out="texts")
    run("cached", *texts, "--overwrite", out="texts")
    run("table", "table.csv", "--label", "label", "--runs", "2")
    run("targets", "targets.csv", "--label", "label")
    if processes > 1:
        run("network", "images")
        if rank == 1:
            text.TextEncoder.__init__ = refuse  # type: ignore[method-assign]
        run("alone", *texts)
        if rank == 1:
            text.TextEncoder.__init__ = break_down  # type: ignore[method-assign]
            try:
                run("broken", *texts)
            except ZeroDivisionError:
                found["broken"] = {"code": "traceback"}
        else:
            run("broken", *texts)
    return found


def counting(original: Any, name: str, work: Counter[str]) -> Any:
    def counted(*arguments: Any, **named: Any) -> Any:
        work[name] += 1
        return original(*arguments, **named)

    return counted


def refuse(*_: Any) -> None:
    raise DiscrimLossError("only process 1 refuses: mend it")


def break_down(*_: Any) -> None:
    raise ZeroDivisionError("a bug")


if __name__ == "__main__":
    rank, processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    folder = Path(sys.argv[1])
    # Once for all audits: processes cannot be joined a second time.
    dist.init_process_group("gloo", timeout=timedelta(minutes=1))
    sys.stderr = sys.stdout  # the launcher's own messages are not part of the test
    found = audit_all(folder, rank, processes)
    (folder / f"{processes}-{rank}.json").write_text(json.dumps(found))
