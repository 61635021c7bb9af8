from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import refused

import discrimloss
from discrimloss.auditing.directory import AuditDirectory
from discrimloss.cli import main
from discrimloss.errors import DiscrimLossError

RATE = 0.25


def systematic(samples: int = 600) -> tuple[pd.DataFrame, Any]:
    """Two classes of texts; a keyword decides some labels, most of them wrongly."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 2, samples)
    words = [["good", "fine", "nice", "great"], ["bad", "poor", "awful", "dull"]]
    has_keyword = rng.random(samples) < 0.3
    texts = [
        " ".join([*rng.choice(words[label], 3), *(["click"] if key else [])])
        for label, key in zip(true, has_keyword, strict=True)
    ]
    given = np.where(has_keyword & (rng.random(samples) < 0.7), 1 - true, true)
    names = np.array(["praise", "blame"])
    return pd.DataFrame({"text": texts, "label": names[given]}), given != true


def numbers(samples: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(samples, 4))
    return features, features @ [1.0, 2.0, 3.0, 4.0] + 0.3 * rng.normal(size=samples)


@pytest.mark.parametrize("model", ["auto", "network"])
def test_the_rate_decides_how_many_labels_are_incorrect_and_not_which_come_first(
    model: str,
) -> None:
    frame, _ = systematic()
    options: dict[str, Any] = {"label": "label", "text": "text", "model": model, "progress": False}
    if model == "network":
        options["epochs"] = 2
    estimated = discrimloss.audit(frame, **options)
    few, many = (discrimloss.audit(frame, noise_rate=rate, **options) for rate in (0.05, RATE))
    for result, rate in ((few, 0.05), (many, RATE)):
        verdicts = result.verdicts
        assert result.noise_rate == pytest.approx(rate, abs=0.002)
        assert result.noise_interval is None
        assert result.summary["noise_given"] == rate
        assert any(
            f"The noise rate of {100 * rate:.1f} % was given" in note for note in result.notes
        )
        incorrect = verdicts.verdict == "incorrect"
        assert (verdicts.given_label[incorrect] != verdicts.suggested_label[incorrect]).all()
        assert (verdicts.p_incorrect[incorrect] > 0.5).all()
    assert few.verdicts.counts["incorrect"] <= many.verdicts.counts["incorrect"]
    order = np.argsort(-estimated.verdicts.score, kind="stable")
    assert (np.diff(many.verdicts.score[order]) <= 1e-4).all()
    assert "noise_given" not in estimated.summary


def test_a_known_rate_finds_more_of_systematic_errors() -> None:
    frame, is_wrong = systematic()
    options: dict[str, Any] = {"label": "label", "text": "text", "progress": False}
    found = [
        np.asarray(discrimloss.audit(frame, noise_rate=rate, **options).verdicts.verdict)
        == "incorrect"
        for rate in (None, float(is_wrong.mean()))
    ]
    recalls = [(flagged & is_wrong).sum() / is_wrong.sum() for flagged in found]
    assert recalls[1] > recalls[0] + 0.2
    assert (found[1] & is_wrong).sum() > 0.5 * found[1].sum()


def test_regression_targets() -> None:
    features, target = numbers()
    result = discrimloss.audit((features, target), regression=True, noise_rate=0.1, progress=False)
    verdicts = result.verdicts
    incorrect = verdicts.verdict == "incorrect"
    assert result.noise_rate == pytest.approx(0.1, abs=0.002)
    assert result.noise_interval is None
    assert incorrect.any()
    assert (verdicts.given_label[incorrect] != verdicts.suggested_label[incorrect]).all()


def test_classes_too_small_to_be_judged_stay() -> None:
    frame, _ = systematic()
    rare = pd.DataFrame({"text": ["other words here"] * 4, "label": ["rare"] * 4})
    frame = pd.concat([frame, rare], ignore_index=True)
    result = discrimloss.audit(frame, label="label", text="text", noise_rate=0.6, progress=False)
    is_rare = result.verdicts.given_label == "rare"
    assert (result.verdicts.verdict[is_rare] != "incorrect").all()


def test_the_command_stores_the_rate_and_refuses_to_resume_with_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, _ = systematic(200)
    path, out = tmp_path / "texts.csv", tmp_path / "audit"
    frame.to_csv(path, index=False)
    words = ["audit", str(path), "--label", "label", "--out", str(out), "--noise-rate"]
    assert "--noise-rate must be a fraction" in refused(capsys, *words, "15")
    assert main([*words, "0.2"]) == 0
    assert "wrong labels, given" in capsys.readouterr().out
    directory = AuditDirectory(out)
    assert directory.settings()["noise_rate"] == 0.2
    assert "--noise-rate 0.2" in directory.settings()["command"]
    assert "the noise rate that you gave" in (out / "report.html").read_text(encoding="utf-8")
    options: dict[str, Any] = {"label": "label", "out": out, "resume": True, "progress": False}
    with pytest.raises(DiscrimLossError, match=r"noise_rate was 0\.2"):
        discrimloss.audit(path, noise_rate=0.3, **options)
    with pytest.raises(DiscrimLossError, match=r"noise_rate was 0\.2"):
        discrimloss.audit(path, **options)
    assert discrimloss.audit(path, noise_rate=0.2, **options).summary["noise_given"] == 0.2


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, 15.0, float("nan")])
def test_a_rate_that_is_no_fraction(rate: float) -> None:
    frame, _ = systematic(60)
    sentence = "noise_rate must be a fraction between 0 and 1"
    with pytest.raises(ValueError, match=sentence):
        discrimloss.audit(frame, label="label", noise_rate=rate)
    with pytest.raises(ValueError, match=sentence):
        discrimloss.find_label_errors([0, 1] * 30, pred_probs=[[0.5, 0.5]] * 60, noise_rate=rate)
