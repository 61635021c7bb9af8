"""Runs made up for reports: losses that fall for clean labels and stay high for wrong ones."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from discrimloss.auditing.report.contents import ReportRun
from discrimloss.auditing.sources.contents import SampleView
from discrimloss.training.sample_traces import Traces

NASTY = "</script><script>window.hacked = 1</script><b>\"&amp;'"
"""A text that does harm where it is not escaped."""


def made_run(
    num_samples: int = 120,
    num_classes: int = 4,
    epochs: int = 6,
    *,
    seed: int = 0,
    regression: bool = False,
    truth: bool = True,
    class_names: tuple[str, ...] | None = None,
    **changes: Any,
) -> ReportRun:
    """A finished run; `changes` are fields of `ReportRun`."""
    generator = np.random.default_rng(seed)
    is_wrong = generator.random(num_samples) < 0.3
    hardness = generator.gamma(2.0, 0.5, num_samples)
    falling = np.linspace(1.0, 0.05, epochs)[:, None] * (0.3 + hardness)
    noise = generator.lognormal(0.0, 0.3, (epochs, num_samples))
    loss = np.where(is_wrong, 3.0 + hardness, falling) * noise
    weight = np.where(is_wrong, np.arange(1, epochs + 1)[:, None] * 1.5, 1.0) * noise
    names = class_names or tuple(f"class {number}" for number in range(num_classes))
    average = loss[-1]
    p_incorrect = 1 / (1 + np.exp(-3.0 * (average - 2.0)))
    verdict = np.where(p_incorrect > 0.5, "incorrect", np.where(hardness > 1.5, "hard", "easy"))
    if regression:
        given: Any = generator.normal(50.0, 10.0, num_samples)
        suggested: Any = given + np.where(is_wrong, 30.0, 1.0)
        predicted = np.tile(suggested, (epochs, 1))
    else:
        given_class = generator.integers(0, num_classes, num_samples)
        shift = np.where(is_wrong, generator.integers(1, max(num_classes, 2), num_samples), 0)
        predicted = np.tile((given_class + shift) % num_classes, (epochs, 1)).astype(float)
        given = np.array(names, dtype=object)[given_class]
        suggested = np.array(names, dtype=object)[predicted[-1].astype(int)]
    samples = pd.DataFrame(
        {
            "id": [f"sample-{row}" for row in range(num_samples)],
            "given": given,
            "suggested": suggested,
            "verdict": verdict,
            "p_incorrect": p_incorrect,
            "weight": weight[-1],
            "average_loss": average,
        }
    )
    if truth:
        samples["is_wrong"] = is_wrong
    metric = "mae" if regression else "accuracy"
    history = [
        {
            "epoch": epoch,
            "train_loss": 2.0 / epoch,
            f"train_{metric}": 50.0 + epoch,
            f"test_{metric}": 60.0 + epoch,
            "k1": 2.0 / epoch,
            "k_dyn": 2.0,
            "k2": 3.0,
            "seconds": 2.0 * epoch,
        }
        for epoch in range(1, epochs + 1)
    ]
    fields: dict[str, Any] = {
        "name": "made",
        "summary": {"method": "discrimloss", "seconds": 12.0, "seed": seed},
        "history": history,
        "samples": samples,
        "traces": Traces(
            np.arange(1, epochs + 1),
            loss.astype(np.float32),
            weight.astype(np.float32),
            predicted.astype(np.float32),
        ),
        "num_samples": num_samples,
        "class_names": () if regression else names,
        "is_regression": regression,
        "settings": {"method": "discrimloss", "seed": seed, "epochs": epochs, "noise.rate": 0.3},
    }
    return ReportRun(**(fields | changes))


def picture_view(row: int, side: int = 24) -> SampleView:
    """A picture with a colour of its own."""
    pixels = np.full((side, side, 3), (row * 37 % 256, row * 91 % 256, 120), dtype=np.uint8)
    pixels[side // 4 : side // 2] = 255
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, "png")
    return SampleView(image=written.getvalue())


def nasty_view(row: int) -> SampleView:
    """A long text, and fields, that must be escaped and kept within their box."""
    return SampleView(
        text=f"{NASTY} {'very' * 400}",
        fields=tuple((f"column {n} {NASTY}", "x" * 300) for n in range(row % 3 * 6)),
    )
