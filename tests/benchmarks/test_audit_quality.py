"""The figures that the audit is judged by, against other ways to compute them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from discrimloss.data.base import Split, TaskData, TensorInputs

pytest.importorskip("sklearn", reason="the figures need scikit-learn")
pytest.importorskip("accelerate", reason="the rivals need the extra train")


def finding(**figures: Any) -> Any:
    from benchmarks.audit_figures import Finding

    return Finding(**figures)


def test_figures_are_those_of_scikit_learn() -> None:
    from sklearn.metrics import f1_score, precision_score, recall_score

    from benchmarks.audit_figures import judge

    draws = np.random.default_rng(0)
    is_wrong, flagged = draws.random(200) < 0.3, draws.random(200) < 0.4
    figures = judge(finding(flagged=flagged, noise_estimate=0.25), is_wrong)
    assert figures["f1"] == pytest.approx(f1_score(is_wrong, flagged))
    assert figures["precision"] == pytest.approx(precision_score(is_wrong, flagged))
    assert figures["recall"] == pytest.approx(recall_score(is_wrong, flagged))
    assert figures["noise_error_points"] == pytest.approx(100 * (0.25 - is_wrong.mean()))
    assert figures["auroc"] is None
    assert figures["calibration_error"] is None


def test_ranking_points_to_the_wrong_labels() -> None:
    from benchmarks.audit_figures import judge

    is_wrong = np.array([True, False, True, False])
    said = finding(flagged=is_wrong, noise_estimate=0.5, suspicion=np.array([3.0, 1.0, 2.0, 0.0]))
    assert judge(said, is_wrong)["auroc"] == 1.0
    assert judge(said, ~is_wrong)["auroc"] == 0.0


def test_clean_labels_have_a_share_flagged_and_no_f1() -> None:
    from benchmarks.audit_figures import judge

    flagged = np.array([True, False, False, False])
    figures = judge(finding(flagged=flagged, noise_estimate=0.1), np.zeros(4, dtype=np.bool_))
    assert figures["f1"] is None
    assert figures["recall"] is None
    assert figures["flagged"] == 0.25


def test_calibration_error_by_hand() -> None:
    from benchmarks.audit_figures import calibration_error

    # Two bins: three samples that are said to be wrong with 0.01, one of them is; one with 1.
    p_incorrect = np.array([0.01, 0.01, 0.01, 1.0])
    is_wrong = np.array([True, False, False, True])
    assert calibration_error(p_incorrect, is_wrong) == pytest.approx(3 * (1 / 3 - 0.01) / 4)


def test_margin_is_the_label_less_the_best_other() -> None:
    from benchmarks.audit_rivals import margins

    logits = torch.tensor([[1.0, 5.0, 2.0], [1.0, 5.0, 2.0]])
    assert margins(logits, torch.tensor([1, 0])).tolist() == [3.0, -4.0]


def test_threshold_samples_get_a_class_of_their_own() -> None:
    from benchmarks.audit_rivals import with_threshold_samples

    target = torch.arange(90) % 8
    task = TaskData(Split(TensorInputs(torch.zeros(90, 2)), target), None, 8)
    more, is_threshold = with_threshold_samples(task, seed=1)
    assert more.num_classes == 9
    assert is_threshold.sum() == 10
    chosen = torch.from_numpy(is_threshold)
    assert torch.equal(more.train.target[~chosen], target[~chosen])
    assert (more.train.target[chosen] == 8).all()
    assert torch.equal(task.train.target, target)


def test_small_losses_are_trusted() -> None:
    from benchmarks.audit_rivals import small_loss

    draws = np.random.default_rng(0)
    losses = np.concatenate([draws.normal(0.2, 0.05, 70), draws.normal(2.0, 0.3, 30)])
    found = small_loss(losses, seed=0)
    assert found.flagged.tolist() == [False] * 70 + [True] * 30
    assert found.noise_estimate == pytest.approx(0.3, abs=0.01)


def test_best_is_bold_as_printed() -> None:
    from benchmarks.audit_quality import best_in_bold

    assert best_in_bold([[0.91231], [0.91249], [0.9], []]) == [
        "**0.912**",
        "**0.912**",
        "0.900",
        "–",
    ]


def test_parts_of_a_cell_are_trained_and_read(tmp_path: Path) -> None:
    from benchmarks.audit_rivals import AUDIT, FOLD_PARTS, THRESHOLD, Job, read_part, run_part
    from benchmarks.audit_sets import SETS, prepare

    digits = next(audit_set for audit_set in SETS if audit_set.name == "digits")
    folder = tmp_path / "cell"
    prepare(digits, digits.compared[-1], 1, tmp_path, folder, True)
    for part in (AUDIT, FOLD_PARTS[0], THRESHOLD):
        run_part(Job(folder, part, seed=1, epochs=2))
    assert len(read_part(folder, AUDIT)[0]["p_incorrect"]) == 400
    assert read_part(folder, FOLD_PARTS[0])[0]["output"].shape == (80, 10)
    assert read_part(folder, THRESHOLD)[0]["output"].shape == (400, 11)
