"""Finished audits, made without training, of samples that are made too."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import discrimloss.auditing.directory as audit_directory
from discrimloss.auditing.directory import AUDIT, SUMMARY, VERDICTS, AuditDirectory
from discrimloss.auditing.result import AuditResult
from discrimloss.auditing.review.session import ReviewSession
from discrimloss.auditing.sources.base import (
    FINGERPRINT_VERSION,
    AuditSource,
    Corrections,
    Label,
    SourceOptions,
)
from discrimloss.auditing.sources.contents import SampleView
from discrimloss.data.base import TaskData

RESULT = "labels.json"


class MadeSource(AuditSource):
    """Samples in memory. Corrected, they are a JSON file of names and labels."""

    def __init__(
        self, path: Path, labels: Sequence[Label], views: Sequence[SampleView], kind: str
    ) -> None:
        self.kind = kind
        self.options = SourceOptions(str(path))
        self.labels = list(labels)
        self.views = list(views)
        self.ids = tuple(f"sample-{index:03d}" for index in range(len(labels)))
        self.left_out = ()
        self.notes = ()
        if all(isinstance(label, str) for label in labels):
            self.class_names = tuple(sorted({str(label) for label in labels}))
            code = {name: position for position, name in enumerate(self.class_names)}
            self.target = torch.tensor([code[str(label)] for label in labels])
        else:
            self.class_names = ()
            self.target = torch.tensor([float(label) for label in labels])

    def task(self, cache: Path) -> TaskData:
        raise AssertionError("a review trains nothing")

    def corrected_ids(self, corrections: Corrections) -> dict[int, str]:
        return {}

    def note_on_corrected(self) -> None:
        return None

    def view(self, index: int) -> SampleView:
        return self.views[index]

    def close_view(self, index: int) -> SampleView:
        return self.view(index)

    def require_class(self, name: str) -> None:
        pass

    def write_corrected(self, corrections: Corrections, directory: Path) -> list[Path]:
        labels = {
            name: corrections.labels.get(index, label)
            for index, (name, label) in enumerate(zip(self.ids, self.labels, strict=True))
            if index not in corrections.dropped
        }
        path = directory / RESULT
        path.write_text(json.dumps(labels), encoding="utf-8")
        return [path]

    def fingerprint(self) -> str:
        return hashlib.sha256(repr((self.ids, self.labels)).encode()).hexdigest()


class BrokenSource(MadeSource):
    """Fails in the middle of writing."""

    error: Exception = OSError(28, "No space left on device")

    def write_corrected(self, corrections: Corrections, directory: Path) -> list[Path]:
        (directory / RESULT).write_text("half", encoding="utf-8")
        raise self.error


@dataclass
class MadeAudit:
    """A finished audit in a directory, of a source that is open."""

    directory: AuditDirectory
    source: MadeSource
    frame: pd.DataFrame = field(repr=False)

    @property
    def path(self) -> Path:
        return self.directory.path

    def session(self) -> ReviewSession:
        return AuditResult.load(self.path).review_session()


def verdict_frame(
    source: AuditSource, suggested: Sequence[Any], p: Sequence[float]
) -> pd.DataFrame:
    """What an audit would write, with the worst first."""
    p_incorrect = np.asarray(p, np.float32)
    not_incorrect = np.where(p_incorrect > 0.3, "hard", "easy")
    names = source.class_names
    given = [names[code] for code in source.target.tolist()] if names else source.target.tolist()
    frame = pd.DataFrame(
        {
            "id": source.ids,
            "given_label": given,
            "suggested_label": list(suggested),
            "verdict": np.where(p_incorrect > 0.7, "incorrect", not_incorrect),
            "p_incorrect": p_incorrect,
            "score": np.log(p_incorrect) - np.log1p(-p_incorrect),
            "average_loss": 3 * p_incorrect,
            "weight": 1 + p_incorrect,
            "index": np.arange(len(source)),
        }
    )
    return frame.sort_values("p_incorrect", ascending=False, kind="stable", ignore_index=True)


def write_audit(path: Path, source: AuditSource, frame: pd.DataFrame) -> AuditDirectory:
    """The files of a finished audit."""
    path.mkdir(parents=True, exist_ok=True)
    directory = AuditDirectory(path)
    settings = {
        "source": asdict(source.options),
        "fingerprint": source.fingerprint(),
        "fingerprint_version": FINGERPRINT_VERSION,
    }
    directory.write(AUDIT, json.dumps(settings))
    directory.write(SUMMARY, json.dumps({"samples": len(source)}))
    frame.to_parquet(directory / VERDICTS)
    return directory


def serve_source(monkeypatch: pytest.MonkeyPatch, source: AuditSource) -> None:
    """Let an audit open this source, whatever its options say."""
    monkeypatch.setattr(audit_directory, "open_source", lambda options, cache=None: source)


def picture(shade: int, size: int = 24) -> SampleView:
    """A small picture that differs from shade to shade."""
    file = io.BytesIO()
    Image.new("L", (size, size), shade).save(file, "PNG")
    return SampleView(image=file.getvalue())


def made_audit(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kind: str = "text",
    number: int = 12,
    labels: Sequence[Label] = ("cat", "dog", "emu"),
    broken: bool = False,
) -> MadeAudit:
    """An audit of `number` samples. Every label in turn; the first third is incorrect.

    What is suggested is the label that follows, for a regression the number plus 0.5.
    """
    given = [labels[index % len(labels)] for index in range(number)]
    follows = {label: labels[(place + 1) % len(labels)] for place, label in enumerate(labels)}
    is_regression = not isinstance(labels[0], str)
    suggested = [float(label) + 0.5 if is_regression else follows[label] for label in given]
    views = [
        picture(20 * index % 256)
        if kind == "images"
        else SampleView(text=f"the text of {index}")
        if kind == "text"
        else SampleView(fields=(("height", str(index)), ("colour", "<b>red</b>")))
        for index in range(number)
    ]
    cls = BrokenSource if broken else MadeSource
    source = cls(tmp_path / "source", given, views, kind)
    p = [0.99 - 0.9 * index / number for index in range(number)]
    frame = verdict_frame(source, suggested, p)
    directory = write_audit(tmp_path / "audit", source, frame)
    serve_source(monkeypatch, source)
    return MadeAudit(directory, source, frame)
