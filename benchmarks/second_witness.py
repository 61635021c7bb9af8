"""Does a network trained with DiscrimLoss improve out-of-fold predictions of simple models?

    python -m benchmarks.second_witness FILE.csv.gz [FILE.csv.gz ...] [--most ROWS] [--rate RATE]

Each file has the columns ``text`` and ``label``, or features and ``target``. Labels are exchanged
at random; the average precision of both kinds of scores and of their sum is printed, with the
CPU seconds that each takes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score

from discrimloss import audit


def exchanged(labels: pd.Series, rate: float) -> pd.Series:
    """Labels of which a fraction is replaced by another class."""
    generator = np.random.default_rng(5)
    names = np.array(sorted(labels.unique()))
    given = labels.to_numpy(dtype=object).copy()
    for row in generator.permutation(len(given))[: int(rate * len(given))]:
        given[row] = generator.choice(names[names != given[row]])
    return pd.Series(given)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("files", nargs="+", type=Path)
    arguments.add_argument("--most", type=int, default=2000)
    arguments.add_argument("--rate", type=float, default=0.1)
    options = arguments.parse_args()
    print("| data | out of fold | network | both | CPU seconds, out of fold / network |")
    print("|---|--:|--:|--:|--:|")
    for file in options.files:
        frame = pd.read_csv(file, keep_default_na="text" not in pd.read_csv(file, nrows=1))
        frame = frame.sample(min(len(frame), options.most), random_state=0).reset_index(drop=True)
        label = "label" if "text" in frame else "target"
        true = frame[label].astype(str)
        inputs = frame[["text"]] if "text" in frame else frame.drop(columns=label)
        given = "c_" + exchanged(true, options.rate)
        is_wrong = (given != "c_" + true).to_numpy()
        scores, seconds = [], []
        for model in ("auto", "network"):
            started = time.process_time()
            result = audit(
                inputs.assign(given_class=given),
                "given_class",
                text="text" if "text" in frame else None,
                model=model,
                progress=False,
            )
            seconds.append(time.process_time() - started)
            scores.append(result.verdicts.score)
        scores.append(scores[0] + scores[1])
        values = " | ".join(f"{average_precision_score(is_wrong, score):.3f}" for score in scores)
        name = file.name.split(".")[0]
        print(f"| {name} | {values} | {seconds[0]:.0f} / {seconds[1]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
