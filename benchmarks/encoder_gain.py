"""How much does a pretrained encoder improve an audit?

    python -m benchmarks.encoder_gain --data DIR [--cifar DIR] [--most ROWS]

Audits of texts and images with and without the default encoder of `discrimloss.audit`
(``encoder="auto"`` and ``"none"``), with a tenth of the labels exchanged at random: the average
precision of the ranks, F1 of what is called incorrect, and CPU seconds. DIR is laid out as in
`benchmarks.audit_sets`. Images are half as many as texts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import average_precision_score, f1_score

from benchmarks.audit_design import SETS, Row
from benchmarks.audit_sets import Samples, drawn, load
from discrimloss import audit
from discrimloss.data import noise as label_noise
from discrimloss.data.cifar import load_cifar10
from discrimloss.training.seeds import derived_generator

TEXTS = ("agnews_7600", "tweeteval_emotion", "airline_sentiment", "stackoverflow20")
IMAGES = ("usps", "sign_digits32")
RATE, SEED = 0.1, 1


def all_samples(data: Path, cifar: Path | None, most: int) -> Iterator[tuple[str, Samples]]:
    """Return the sets, with wrong labels."""
    for name in (*TEXTS, *IMAGES):
        kind = SETS[name].kind
        number = most if kind == "texts" else most // 2
        yield name, load(Row(kind, name, number, "symmetric", RATE), SEED, data, None, Path())
    if cifar is not None:
        yield "cifar10", photos(cifar, most // 2)


def photos(cifar: Path, most: int) -> Samples:
    """Return images of CIFAR-10 as pixels."""
    train = load_cifar10(cifar).train
    rows = torch.from_numpy(drawn(len(train), most, SEED))
    pixels = train.inputs.rows(rows).permute(0, 2, 3, 1).numpy()
    target = train.target[rows]
    given = label_noise.symmetric(target, RATE, derived_generator(SEED, "noise"), 10).target
    return Samples("images", pixels, pixels.reshape(most, -1), given.numpy(), target.numpy())


def main(arguments: list[str] | None = None) -> None:
    """Print a table, row by row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cifar", type=Path)
    parser.add_argument("--most", type=int, default=1000)
    options = parser.parse_args(arguments)
    print("| data | samples | average precision, with / without | F1 | CPU seconds |")
    print("|---|--:|--:|--:|--:|")
    for name, samples in all_samples(options.data, options.cifar, options.most):
        values = [figures(samples, encoder) for encoder in ("auto", "none")]
        precision, f1, seconds = zip(*values, strict=True)
        cells = (f"{pair[0]:.3f} / {pair[1]:.3f}" for pair in (precision, f1))
        print(
            f"| {name} | {len(samples.target):,} | {' | '.join(cells)} | "
            f"{seconds[0]:.0f} / {seconds[1]:.0f} |",
            flush=True,
        )


def figures(samples: Samples, encoder: str) -> tuple[float, float, float]:
    """Return average precision, F1 and CPU seconds of an audit."""
    inputs = samples.inputs["text"].tolist() if samples.kind == "texts" else samples.inputs
    labels = [f"class {number}" for number in samples.target]
    started = time.process_time()
    result = audit((inputs, labels), encoder=encoder, threads=1, progress=False)
    seconds = time.process_time() - started
    suspicion = np.empty(len(labels))
    suspicion[result.verdicts.order] = -np.arange(len(labels), dtype=np.float64)
    flagged = result.verdicts.verdict == "incorrect"
    return (
        float(average_precision_score(samples.is_wrong, suspicion)),
        float(f1_score(samples.is_wrong, flagged, zero_division=0.0)),
        seconds,
    )


if __name__ == "__main__":
    main()
