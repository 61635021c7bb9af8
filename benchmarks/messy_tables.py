"""What a messy column costs an audit: recall with and without it.

    python -m benchmarks.messy_tables

The data is the breast cancer table of scikit-learn with a tenth of its labels exchanged. Each case
adds one column to seven plain ones, or writes all columns in the German number format. A label
counts as found if it is called incorrect. Writes benchmarks/results/messy_tables.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

import discrimloss
from discrimloss.judging.verdicts import INCORRECT

RESULTS = Path(__file__).parent / "results" / "messy_tables.md"
COLUMNS = [0, 1, 4, 6, 7, 20, 21]
NOISE = 0.1


def german(number: float, decimals: int = 2) -> str:
    text = f"{number:,.{decimals}f}"
    return text.replace(",", "_").replace(".", ",").replace("_", ".")


def data() -> tuple[pd.DataFrame, np.ndarray]:
    """Return seven plain columns with a column of labels, and which labels are wrong."""
    rng = np.random.default_rng(0)
    frame = load_breast_cancer(as_frame=True).frame
    table = frame.iloc[:, COLUMNS].copy()
    true = frame["target"].to_numpy()
    wrong = np.zeros(len(table), bool)
    wrong[rng.choice(len(table), round(NOISE * len(table)), replace=False)] = True
    table["label"] = np.array(["malignant", "benign"])[np.where(wrong, 1 - true, true)]
    return table, wrong


def cases() -> Iterator[tuple[str, pd.DataFrame, np.ndarray, dict[str, str]]]:
    """A name, the table, which labels are wrong, and how the file is written."""
    rng = np.random.default_rng(1)
    table, wrong = data()
    size = len(table)
    order = np.argsort(table["label"].to_numpy(), kind="stable")
    by_class, wrong_by_class = table.iloc[order].reset_index(drop=True), wrong[order]
    words = np.array(["came", "for", "control", "today", "pain", "none", "well", "again"])
    comments = [" ".join(rng.choice(words, 8)) for _ in range(size)]
    written = table.drop(columns="label").map(lambda number: german(1000 * number))
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, size), "D")
    yield "plain", table, wrong, {}
    yield (
        "all numbers as 1.969,39, semicolons, Latin-1",
        written.assign(label=table["label"].map({"malignant": "bösartig", "benign": "gutartig"})),
        wrong,
        {"sep": ";", "encoding": "latin-1"},
    )
    yield "ids in the order of the classes", by_class.assign(id=range(size)), wrong_by_class, {}
    stamps = 1.6e9 + np.cumsum(rng.random(size))
    yield "times in the order of the classes", by_class.assign(time=stamps), wrong_by_class, {}
    codes = table["label"].map({"malignant": 1, "benign": 2})
    yield "a code of the label", table.assign(code=codes), wrong, {}
    yield "comments that say nothing", table.assign(comment=comments), wrong, {}
    smokes = rng.choice(["ja", "Ja", "nein", "NEIN"], size)
    dated = table.assign(day=days.strftime("%d.%m.%Y"), smokes=smokes)
    yield "dates, yes and no", dated, wrong, {}
    empty = {f"empty{number}": "" for number in range(20)}
    yield "20 empty columns", table.assign(**empty), wrong, {}
    names = [f"{rng.integers(10**9)}-{row}" for row in range(size)]
    yield "names of rows", table.assign(reference=names), wrong, {}


def main() -> None:
    lines = [
        "`python -m benchmarks.messy_tables`",
        "",
        f"Breast cancer table of scikit-learn, {NOISE:.0%} of the labels exchanged, seed 0.",
        "",
        "| table | recall | precision | estimated noise, % |",
        "|---|--:|--:|--:|",
    ]
    for name, table, wrong, how in cases():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.csv"
            table.to_csv(path, index=False, **how)  # type: ignore[call-overload]
            result = discrimloss.audit(path, label="label", progress=False, threads=1)
        called = result.verdicts.code == INCORRECT
        found = int((called & wrong).sum())
        rate = 100 * (result.noise_rate or 0.0)
        cells = (found / wrong.sum(), found / max(1, called.sum()))
        lines.append(f"| {name} | {cells[0]:.2f} | {cells[1]:.2f} | {rate:.1f} |")
        print(lines[-1], flush=True)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
