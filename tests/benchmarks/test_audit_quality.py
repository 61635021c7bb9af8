"""The benchmark of the audit: its design, data, methods and figures, both commands, the page."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("sklearn", reason="the figures need scikit-learn")
pytest.importorskip("cleanlab", reason="the rivals need cleanlab")
pytest.importorskip("accelerate", reason="the audit needs the extra train")

from benchmarks import audit_quality
from benchmarks.audit_cell import NOTHING, cell_methods, run_cells
from benchmarks.audit_design import KINDS, PARTS, SETS, SMALL_PER_TURN, Row, design, in_turns
from benchmarks.audit_figures import Finding, calibration_error, judge
from benchmarks.audit_network import margins, train, with_threshold_samples
from benchmarks.audit_page import best_in_bold, render, row_results
from benchmarks.audit_rivals import (
    CLASS_METHODS,
    OURS,
    Shared,
    find_low_confidence,
    find_neighbours,
    find_residuals,
    small_loss,
)
from benchmarks.audit_sets import Samples, confused, read_frame, with_noise
from benchmarks.stored_cells import RESULTS, read_lines

# ------------------------------------------------------------------------------------- design


def test_every_kind_noise_and_rate_is_in_the_design() -> None:
    rows = design()
    assert len(set(rows)) == len(rows)
    assert {row.part for row in rows} == set(PARTS)
    assert {row.set for row in rows} == set(SETS)
    assert {row.data_set.kind for row in rows} == set(KINDS)
    for kind in ("texts", "tables"):
        own = [row for row in rows if row.part == kind]
        assert {row.rate for row in own} >= {0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4}
        assert {row.noise for row in own} == {"none", "symmetric", "pair", "instance"}
    assert {row.rows for row in rows if row.part == "small"} == {50, 100, 200, 500}
    aqua = {(row.set, row.noise, row.rate) for row in rows if row.part == "aqua"}
    assert len(aqua) == 16
    assert [Row.from_dict(row.as_dict()) for row in rows] == rows


def test_parts_come_in_turn() -> None:
    ordered = in_turns(design())
    assert sorted(ordered, key=str) == sorted(design(), key=str)
    first = [row.part for row in ordered[: len(PARTS) + SMALL_PER_TURN - 1]]
    assert list(dict.fromkeys(first)) == list(PARTS)
    assert first.count("small") == SMALL_PER_TURN


def test_clean_rows_are_spread_over_the_turns() -> None:
    ordered = in_turns(design())
    with_clean = {row.part for row in ordered if row.noise == "none"}
    assert with_clean == set(PARTS) - {"real", "aqua"}
    assert {row.part for row in ordered[:50] if row.noise == "none"} == with_clean
    for part in PARTS:
        noisy = [row for row in ordered if row.part == part and row.noise != "none"]
        assert noisy == [row for row in design() if row.part == part and row.noise != "none"]


# --------------------------------------------------------------------------------------- data


def write_table(path: Path) -> None:
    """Two classes far apart; the last row has no known truth."""
    path.parent.mkdir(parents=True)
    draws = np.random.default_rng(0)
    labels = np.repeat(["left", "right"], 40)
    frame = pd.DataFrame(
        {
            "place": np.repeat([-3.0, 3.0], 40) + draws.normal(size=80),
            "colour": np.where(draws.random(80) < 0.5, "red", "blue"),
            "target": labels,
            "clean_target": [*labels[:-1], None],
        }
    )
    frame.to_csv(path, index=False)


def test_rows_without_truth_are_left_out_and_the_truth_is_no_feature(tmp_path: Path) -> None:
    write_table(tmp_path / "tables" / "car.csv.gz")
    samples = read_frame(tmp_path / "tables" / "car.csv.gz", "tables", 1000, seed=1)
    assert len(samples.target) == 79
    assert list(samples.inputs) == ["place", "colour"]
    assert samples.features.shape == (79, 3)
    assert not samples.is_wrong.any()


def test_a_seed_draws_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "tables" / "car.csv.gz"
    write_table(path)
    places = [read_frame(path, "tables", 20, seed).inputs["place"].tolist() for seed in (1, 1, 2)]
    assert places[0] == places[1] != places[2]


def plain_samples(rows: int = 200, classes: int = 3) -> Samples:
    """Classes around places of their own, all labels right."""
    draws = np.random.default_rng(0)
    target = np.arange(rows) % classes
    features = (4.0 * np.eye(classes)[target] + draws.normal(size=(rows, classes))).astype("f4")
    return Samples("features", features, features, target, target)


@pytest.mark.parametrize("noise", ["symmetric", "pair", "instance", "class"])
def test_noise_is_exact(noise: str) -> None:
    noisy = with_noise(plain_samples(), Row("aqua", "car", 200, noise, 0.2), seed=1)
    assert noisy.is_wrong.sum() == 40
    assert noisy.target.max() <= 2


def test_classes_are_confused_as_a_model_confuses_them() -> None:
    draws = np.random.default_rng(0)
    clean = np.repeat([0, 1, 2], 100)
    centres = np.array([[0.0, 0.0], [1.0, 0.0], [20.0, 0.0]])  # the first two overlap
    features = centres[clean] + draws.normal(size=(300, 2))
    given = confused(features, clean, 0.2, torch.Generator().manual_seed(0))
    wrong = given != clean
    assert wrong.sum() == 60
    assert (clean[wrong] != 2).mean() > 0.9
    assert (given[wrong] != 2).mean() > 0.9


# ------------------------------------------------------------------------------------ figures


def finding(**figures: Any) -> Finding:
    return Finding(**figures)


def test_figures_are_those_of_scikit_learn() -> None:
    from sklearn.metrics import f1_score, precision_score, recall_score

    draws = np.random.default_rng(0)
    is_wrong, flagged = draws.random(200) < 0.3, draws.random(200) < 0.4
    figures = judge(finding(flagged=flagged, noise_estimate=0.25), is_wrong)
    assert figures["f1"] == pytest.approx(f1_score(is_wrong, flagged))
    assert figures["precision"] == pytest.approx(precision_score(is_wrong, flagged))
    assert figures["recall"] == pytest.approx(recall_score(is_wrong, flagged))
    assert figures["auroc"] is None
    assert figures["calibration_error"] is None
    assert figures["interval_low"] is None


def test_ranking_points_to_the_wrong_labels() -> None:
    is_wrong = np.array([True, False, True, False])
    said = finding(flagged=is_wrong, noise_estimate=0.5, suspicion=np.array([3.0, 1.0, 2.0, 0.0]))
    assert judge(said, is_wrong)["auroc"] == 1.0
    assert judge(said, ~is_wrong)["auroc"] == 0.0


def test_clean_labels_have_a_share_flagged_and_no_f1() -> None:
    flagged = np.array([True, False, False, False])
    figures = judge(finding(flagged=flagged, noise_estimate=0.1), np.zeros(4, dtype=np.bool_))
    assert figures["f1"] is None
    assert figures["recall"] is None
    assert figures["flagged"] == 0.25


def test_calibration_error_by_hand() -> None:
    # Two bins: three samples that are said to be wrong with 0.01, one of them is; one with 1.
    p_incorrect = np.array([0.01, 0.01, 0.01, 1.0])
    is_wrong = np.array([True, False, False, True])
    assert calibration_error(p_incorrect, is_wrong) == pytest.approx(3 * (1 / 3 - 0.01) / 4)


# ------------------------------------------------------------------------------------ methods


def test_margin_is_the_label_less_the_best_other() -> None:
    logits = torch.tensor([[1.0, 5.0, 2.0], [1.0, 5.0, 2.0]])
    assert margins(logits, torch.tensor([1, 0])).tolist() == [3.0, -4.0]


def test_threshold_samples_get_a_class_of_their_own() -> None:
    target = np.arange(90) % 8
    changed, is_threshold = with_threshold_samples(target, 8, seed=1)
    assert is_threshold.sum() == 10
    assert (changed[is_threshold] == 8).all()
    assert np.array_equal(changed[~is_threshold], target[~is_threshold])


def test_a_network_learns_and_shows_margins() -> None:
    samples = plain_samples()
    trained = train(samples.features, samples.target, 3, seed=1)
    assert (trained.predict(samples.features).argmax(1) == samples.target).mean() > 0.95
    assert trained.margins.shape == trained.losses.shape == (200,)


def test_small_losses_are_trusted() -> None:
    draws = np.random.default_rng(0)
    losses = np.concatenate([draws.normal(0.2, 0.05, 70), draws.normal(2.0, 0.3, 30)])
    found = small_loss(losses, seed=0)
    assert found.flagged.tolist() == [False] * 70 + [True] * 30
    assert found.noise_estimate == pytest.approx(0.3, abs=0.01)


def test_confidence_is_compared_with_the_class() -> None:
    """By hand: averages of the labels' confidences are 0.5 for class 0 and 0.9 for class 1."""
    shared = Shared(plain_samples(4, 2), seed=1)
    shared.samples.target[:] = [0, 0, 1, 1]
    shared.__dict__["out_of_fold"] = np.array([[0.8, 0.2], [0.2, 0.8], [0.1, 0.9], [0.1, 0.9]])
    found = find_low_confidence(shared)
    assert found.suspicion is not None
    assert found.suspicion.tolist() == pytest.approx([-0.3, 0.3, 0.0, 0.0])
    assert found.flagged.tolist() == [False, True, False, False]


def test_every_rival_ranks_wrong_labels_first() -> None:
    noisy = with_noise(plain_samples(), Row("small", "glass", 200, "symmetric", 0.1), seed=1)
    shared = Shared(noisy, seed=1)
    for name, method in CLASS_METHODS.items():
        if name != OURS:
            assert judge(method.find(shared), noisy.is_wrong)["auroc"] > 0.85, name  # type: ignore[operator]


def test_neighbours_vote() -> None:
    noisy = with_noise(plain_samples(), Row("small", "glass", 200, "symmetric", 0.1), seed=1)
    found = judge(find_neighbours(Shared(noisy, seed=1)), noisy.is_wrong)
    assert found["f1"] is not None
    assert found["f1"] > 0.8


def test_large_residuals_are_flagged() -> None:
    shared = Shared(plain_samples(), seed=1)
    shared.__dict__["residuals"] = np.array([1.0, -1.0, 1.0, 10.0])
    assert find_residuals(shared).flagged.tolist() == [False, False, False, True]


# -------------------------------------------------------------------------------- the program


def few_rows() -> list[Row]:
    return [
        Row("small", "car", 80, "symmetric", 0.1),
        Row("aqua", "car", 80, "pair", 0.1),
    ]


def test_a_stopped_program_goes_on_and_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(tmp_path / "tables" / "car.csv.gz")
    monkeypatch.setattr(audit_quality, "design", few_rows)
    command = ["run", "--data", str(tmp_path), "--out", str(tmp_path), "--seeds", "1"]
    audit_quality.main([*command, "--workers", "1", "--only", "small/"])
    assert "1 rows, 1 of them" in capsys.readouterr().out
    audit_quality.main([*command, "--workers", "1"])
    assert "2 rows, 1 of them" in capsys.readouterr().out
    lines = read_lines(tmp_path / "audit_quality.jsonl")
    assert [line["method"] for line in lines] == [
        name for r in few_rows() for name in cell_methods(r)
    ]
    page = (tmp_path / "audit_quality.md").read_text("utf-8")
    assert "2 of 2 rows on 1 sets" in page
    assert page == render(lines, few_rows())


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"these files are missing: .*glass\.csv\.gz"):
        audit_quality.main(
            ["run", "--data", str(tmp_path), "--only", "glass", "--out", str(tmp_path)]
        )


def test_flagging_nothing_has_the_f1_of_a_constant(tmp_path: Path) -> None:
    write_table(tmp_path / "tables" / "car.csv.gz")
    row = few_rows()[1]
    line = run_cells(row, 1, (NOTHING,), tmp_path, None, tmp_path)[0]
    right = 1.0 - line["noise_true"]
    # All labels are called right: F1 of the right ones, weighted by their fraction.
    assert line["detection_f1"] == pytest.approx(right * 2 * right / (1 + right), abs=1e-4)
    assert line["downstream_f1"] > 0.9


def stored_line(method: str, seed: int, **figures: Any) -> dict[str, Any]:
    row = Row("texts", "agnews_7600", 1500, "symmetric", 0.1)
    usual = {"noise_true": 0.1, "noise_estimate": 0.1, "interval_low": 0.05, "interval_high": 0.15}
    same = {"samples": 1500, "versions": {"discrimloss": "0"}, "seconds": 1.0, "flagged": 0.1}
    scores = {"auroc": 0.5, "average_precision": 0.5, "f1": 0.5, "calibration_error": 0.01}
    keys = {"method": method, "seed": seed}
    return {**row.as_dict(), **keys, **usual, **same, **scores, **figures}


@pytest.mark.parametrize(
    ("ours", "rivals", "standing"),
    [
        ((0.8, 0.8), (0.7, 0.8), "best"),
        ((0.75, 0.75), (0.7, 0.86), "within"),  # behind by 0.03, the spread is 0.11
        ((0.70, 0.70), (0.79, 0.81), "behind"),
        ((0.78,), (0.79,), "behind"),  # one seed has no spread
    ],
)
def test_standing_by_hand(
    ours: tuple[float, ...], rivals: tuple[float, ...], standing: str
) -> None:
    lines = [stored_line(OURS, seed, f1=value) for seed, value in enumerate(ours)]
    lines += [stored_line("aum", seed, f1=0.1) for seed in range(len(ours))]
    lines += [stored_line("cleanlab", seed, f1=value) for seed, value in enumerate(rivals)]
    result = row_results(lines, [Row.from_dict(lines[0])])[0]
    assert result.standing("f1") == standing
    page = render(lines, [result.row])
    counts = [str(int(standing == name)) for name in ("best", "within", "behind")]
    assert f"| {' | '.join(counts)} |" in page


def test_best_is_bold_as_printed() -> None:
    assert best_in_bold([[0.91231], [0.91249], [0.9], []]) == [
        "**0.912**",
        "**0.912**",
        "0.900",
        "–",
    ]


def test_the_page_is_that_of_the_stored_results() -> None:
    lines = read_lines(RESULTS / "audit_quality.jsonl")
    page = (RESULTS / "audit_quality.md").read_text("utf-8")
    assert render(lines, design()) == page
    assert json.dumps(lines)  # no NaN reaches the file
