"""The benchmark of harm and help: its design, its data, both commands, and the summary by hand."""

import importlib.util
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks import robustness, robustness_losses
from benchmarks.robustness_cell import accuracies, long_tail, make_task, run_method, train
from benchmarks.robustness_design import Row, Setting, design
from benchmarks.robustness_losses import METHODS, DiscrimLossForm, Method
from benchmarks.robustness_page import chance, harm_by_chance, render, summarise
from benchmarks.robustness_results import row_results
from benchmarks.robustness_sets import KINDS, SETS, Samples, read_images, read_table, read_texts
from benchmarks.stored_cells import RESULTS, read_lines

CLEAN, NOISY = Setting(), Setting("symmetric", 0.4)


# ------------------------------------------------------------------------------------ design


@pytest.mark.parametrize("kind", KINDS)
def test_every_level_of_every_factor_is_seen_with_every_kind_of_data(kind: str) -> None:
    settings = [row.setting for row in design() if row.data_set.kind == kind]
    seen = {name: {getattr(s, name) for s in settings} for name in Setting.__dataclass_fields__}
    noises = {"none", "symmetric", "pair", "one-sided", "instance", "real"}
    assert seen["noise"] == noises
    assert seen["rate"] >= {0.0, 0.1, 0.2, 0.4}
    assert seen["imbalance"] >= {1, 10, 20, 100}
    assert seen["epochs"] >= {2, 5, 20, 50}
    assert seen["optimizer"] == {"adamw", "sgd"}
    assert seen["schedule"] == {"constant", "cosine"}


def test_rows_are_different_and_a_third_of_the_sets_is_held_out() -> None:
    rows = design()
    assert len(set(rows)) == len(rows)
    sets = {row.data_set for row in rows}
    assert sets == set(SETS.values())
    assert sum(data_set.is_held_out for data_set in sets) >= len(sets) / 3
    assert [Row.from_dict(row.as_dict()) for row in rows] == rows


# -------------------------------------------------------------------------------------- data


def write_table(path: Path, rows_of_class: int = 20) -> None:
    """Three classes, each around its own place; a category that tells the first from the others."""
    draws = np.random.default_rng(0)
    path.parent.mkdir(parents=True)
    labels = np.repeat(["a", "b", "c"], rows_of_class)
    frame = pd.DataFrame(
        {
            "number": np.repeat([0.0, 3.0, 6.0], rows_of_class) + draws.normal(size=len(labels)),
            "category": np.where(labels == "a", "first", "other"),
            "target": labels,
        }
    )
    frame.loc[0, "number"] = np.nan
    frame.to_csv(path, index=False)


def test_a_table_is_standardised(tmp_path: Path) -> None:
    write_table(tmp_path / "tables" / "glass.csv.gz")
    samples = read_table(tmp_path / "tables" / "glass.csv.gz")
    assert samples.inputs.shape == (60, 3)  # the number, and two categories
    assert samples.inputs.isfinite().all()
    assert samples.inputs.mean(0).abs().max() < 1e-5
    assert torch.bincount(samples.target).tolist() == [20, 20, 20]


@pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="texts need wordllama")
def test_texts_are_vectors_and_rows_without_truth_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    path.write_text(
        "text,label,clean_label\na ship,sea,sea\na plane,sea,air\na boat,sea,\n,air,air\n"
    )
    samples = read_texts(path)
    assert samples.inputs.shape == (3, 256)
    assert samples.inputs.norm(dim=1).tolist() == pytest.approx([16.0, 16.0, 0.0], abs=1e-3)
    assert samples.target.tolist() == [1, 1, 0]
    assert samples.clean_target.tolist() == [1, 0, 0]


def test_images_have_their_channels_first(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", images=pixels, labels=np.array([0, 1, 2, 1]))
    samples = read_images(tmp_path / "images.npz")
    assert samples.inputs.shape == (4, 3, 8, 8)
    assert samples.inputs.mean((0, 2, 3)).abs().max() < 1e-5
    assert samples.num_classes == 3


def test_a_long_tail_shrinks_evenly_and_spares_small_classes() -> None:
    target = torch.tensor([0] * 100 + [1] * 90 + [2] * 80 + [3] * 2)
    kept = long_tail(target, 100, torch.Generator().manual_seed(0))
    # 100, 100 / 100^(1/3), 100 / 100^(2/3), then 1, which is raised to 4, but there are only 2.
    assert torch.bincount(target[kept]).tolist() == [100, 22, 5, 2]
    assert len(kept.unique()) == len(kept)


@pytest.mark.parametrize(
    ("noise", "wrong"), [("symmetric", 28), ("pair", 28), ("instance", 28), ("one-sided", 16)]
)
def test_noise_is_exact_and_the_test_labels_stay_clean(noise: str, wrong: int) -> None:
    clean_target = torch.tensor([0] * 40 + [1] * 20 + [2] * 10 + [0, 1, 2] * 10)
    inputs = torch.randn(100, 5, generator=torch.Generator().manual_seed(0))
    samples = Samples(inputs, clean_target, clean_target, 3, torch.arange(70, 100))
    task = make_task(samples, Setting(noise, 0.4), seed=1)
    assert round(task.wrong * 70) == wrong
    assert torch.equal(task.test_target, clean_target[70:])


def test_real_noise_trains_on_the_given_labels_and_tests_on_the_truth() -> None:
    target, clean_target = torch.zeros(10).long(), torch.ones(10).long()
    samples = Samples(torch.randn(10, 2), target, clean_target, 2)
    task = make_task(samples, Setting("real"), seed=1)
    assert (task.target == 0).all()
    assert (task.test_target == 1).all()
    assert task.wrong == 1.0


def test_symmetric_cross_entropy_has_the_papers_logarithm_of_zero() -> None:
    logits = torch.tensor([[0.25, 0.75]]).log()
    loss = METHODS["sce"].build(1, 2, 5)(logits, torch.tensor([0]), torch.tensor([0]))
    assert float(loss) == pytest.approx(0.1 * math.log(4) + 4 * 0.75)


@pytest.mark.parametrize(
    ("form", "given"), [("paper", []), ("class", ["target"]), ("predictions", ["logits", "target"])]
)
def test_a_form_gives_the_criterion_what_it_needs(
    form: str, given: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    class Recorder:
        def __init__(self, **options: int) -> None:
            calls.append(sorted(options))

        def __call__(self, losses: torch.Tensor, index: torch.Tensor, **more: Any) -> torch.Tensor:
            calls.append(sorted(more))
            return losses.mean()

    monkeypatch.setattr(robustness_losses, "DiscrimLoss", Recorder)
    DiscrimLossForm(form, 4, 2, 3)(torch.zeros(1, 2), torch.tensor([0]), torch.tensor([0]))
    classes = ["num_classes"] if given else []
    assert calls == [sorted(["epochs", "num_samples", *classes]), given]


def test_drop_and_retrain_trains_on_what_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    clean_target = torch.arange(200) % 2
    inputs = torch.randn(200, 2, generator=generator) + 4.0 * clean_target[:, None]
    task = make_task(Samples(inputs, clean_target, clean_target, 2), NOISY, seed=1)
    monkeypatch.setattr(DiscrimLossForm, "trusted", lambda form: torch.arange(30))
    method = Method("drop", lambda *sizes: DiscrimLossForm("paper", *sizes), retrains=True)
    monkeypatch.setitem(robustness_losses.METHODS, "drop", method)
    values = run_method(task, Row("glass", Setting(epochs=2)), 1, "drop")
    assert (values["train_rows"], values["kept_rows"], values["test_rows"]) == (140, 30, 60)


def test_the_control_differs_from_cross_entropy_in_its_draws_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs, clean_target = torch.randn(60, 4, generator=generator), torch.arange(60) % 3
    task = make_task(Samples(inputs, clean_target, clean_target, 3), NOISY, seed=1)
    networks = [train(task, Setting(epochs=0), 1, name)[0] for name in ("ce", "gce", "again")]
    first, second, control = (next(network.parameters()) for network in networks)
    assert torch.equal(first, second)
    assert not torch.equal(first, control)
    losses = [
        METHODS[name].build(60, 3, 1)(inputs[:, :3], clean_target, torch.arange(60))
        for name in ("ce", "again")
    ]
    assert torch.equal(*losses)


def test_the_control_is_no_rival() -> None:
    control = [line(ROWS[2], "again", 1, 90, 90)]
    summary = summarise(row_results([*MADE_UP, *control], ROWS), "gce")
    assert summary == summarise(row_results(MADE_UP, ROWS), "gce")
    page = render([*MADE_UP, *control], ROWS)
    assert "**70.0 / 60.0 ± 0.0**" in page
    assert "| 90.0 / 90.0" not in page


def test_how_often_cross_entropy_is_below_itself_by_hand() -> None:
    def scores(row: Row, method: str, *of_seeds: float) -> list[dict[str, Any]]:
        return [line(row, method, seed, v, v) for seed, v in enumerate(of_seeds, 1)]

    made_up = [*scores(ROWS[0], "ce", 50, 60, 70), *scores(ROWS[0], "again", 48, 60.5)]
    made_up += [*scores(ROWS[0], "predictions", 49.5, 58, 40)]
    # Of ours, the third seed does not count: the control was not run there.
    made_up += [*scores(ROWS[1], "ce", 50, 60), *scores(ROWS[1], "again", 52, 62)]
    made_up += [*scores(ROWS[1], "predictions", 53, 63)]
    words = harm_by_chance(row_results(made_up, ROWS))
    assert words is not None
    words = " ".join(words.split())
    assert "for 4 pairs of a row and a seed" in words
    assert "below itself in 25% of them, and more than 1 above in 50%." in words
    assert "is below in 25% of the same pairs" in words
    assert harm_by_chance(row_results(MADE_UP, ROWS)) is None


def test_balanced_accuracy_is_the_mean_over_classes() -> None:
    clean_target = torch.tensor([0, 0, 0, 1])
    samples = Samples(torch.zeros(4, 2), clean_target, clean_target, 2, torch.arange(4))
    task = make_task(samples, CLEAN, seed=1)

    class AlwaysFirst(torch.nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return torch.tensor([[1.0, 0.0]]).expand(len(inputs), -1)

    assert accuracies(AlwaysFirst(), task) == (75.0, 50.0)


# ---------------------------------------------------------------------------------- commands


def test_a_made_up_set_through_both_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(tmp_path / "data" / "tables" / "glass.csv.gz")
    out = tmp_path / "out"
    command = ["run", "--data", str(tmp_path / "data"), "--only", "glass: clean", "--out", str(out)]
    command += ["--seeds", "2", "--workers", "1"]
    robustness.main([*command, "--methods", "ce", "gce"])
    stored = (out / "robustness.jsonl").read_bytes()
    lines = read_lines(out / "robustness.jsonl")
    assert [(line["seed"], line["method"]) for line in lines] == [
        (seed, method) for seed in (1, 2) for method in ("ce", "gce")
    ]
    assert {Row.from_dict(line) for line in lines} == {Row("glass", CLEAN)}
    assert all(line["overall"] > 60 and line["train_rows"] == 42 for line in lines)

    # As if the program was killed while it wrote: what is complete stays, the rest runs again.
    (out / "robustness.jsonl").write_bytes(stored + b'{"set": "gla')
    robustness.main([*command, "--methods", "ce", "gce", "paper"])
    assert (out / "robustness.jsonl").read_bytes().startswith(stored)
    assert len(read_lines(out / "robustness.jsonl")) == 6
    assert "6 cells, 2 of them to run" in capsys.readouterr().out

    page = (out / "robustness.md").read_text("utf-8")
    (out / "robustness.md").unlink()
    robustness.main(["page", "--out", str(out)])
    assert (out / "robustness.md").read_text("utf-8") == page
    assert "| DiscrimLoss, paper | 1 | " in page


def test_missing_data_and_unknown_words_are_named(tmp_path: Path) -> None:
    command = ["run", "--data", str(tmp_path), "--out", str(tmp_path / "out"), "--only"]
    with pytest.raises(SystemExit, match=r"these files are missing: .*glass\.csv\.gz"):
        robustness.main([*command, "glass"])
    with pytest.raises(SystemExit, match="no row has 'nowhere' in its title"):
        robustness.main([*command, "nowhere"])


# ----------------------------------------------------------------------------------- summary


def line(row: Row, method: str, seed: int, overall: float, balanced: float) -> dict[str, Any]:
    measured = {"train_rows": 100, "wrong": 0.4, "seconds": 1.0, "versions": {"torch": "2"}}
    values = {"method": method, "seed": seed, "overall": overall, "balanced": balanced}
    return {**row.as_dict(), **values, **measured}


ROWS = [Row("letter", CLEAN), Row("letter", NOISY), Row("glass", NOISY)]
MADE_UP = [
    # Scores, the means of both accuracies: 80 and 82, hence 81.
    *(line(ROWS[0], "ce", 1, 84, 76), line(ROWS[0], "ce", 2, 85, 79)),
    # 79 and 80: 79.5, which is 1.5 below.
    *(line(ROWS[0], "paper", 1, 80, 78), line(ROWS[0], "paper", 2, 82, 78)),
    *(line(ROWS[1], "ce", 1, 50, 40), line(ROWS[1], "ce", 2, 52, 42)),  # 46
    *(line(ROWS[1], "gce", 1, 60, 50), line(ROWS[1], "gce", 2, 62, 52)),  # 56, the best
    *(line(ROWS[1], "paper", 1, 60, 49), line(ROWS[1], "paper", 2, 62, 51)),  # 55.5: near it
    *(line(ROWS[1], "drop", 1, 70, 60), line(ROWS[1], "drop", 2, 70, 60)),  # two networks
    line(ROWS[2], "ce", 1, 40, 40),
    line(ROWS[2], "gce", 1, 43, 43),
    line(ROWS[2], "paper", 1, 42, 42),  # a point behind
    line(replace(ROWS[2], set="yeast"), "ce", 1, 0, 0),  # of no row of the design
]


def test_the_summary_by_hand() -> None:
    results = row_results(MADE_UP, ROWS)
    paper = summarise(results, "paper")
    assert paper is not None
    assert (paper.rows, paper.noisy, paper.below, paper.near_best) == (3, 2, 1, 1)
    assert paper.mean == pytest.approx((-1.5 + 9.5 + 2.0) / 3)
    assert paper.mean_noisy == pytest.approx((9.5 + 2.0) / 2)
    assert paper.mean_clean == pytest.approx(-1.5)
    assert (paper.worst, paper.worst_row) == (pytest.approx(-1.5), ROWS[0])
    # Seed 1: -1, 9.5 and 2; seed 2: -2 and 9.5.
    assert paper.mean_spread == pytest.approx(abs(10.5 / 3 - 7.5 / 2) / math.sqrt(2))
    drop = summarise(results, "drop")
    assert drop is not None
    assert (drop.rows, drop.mean, drop.mean_clean, drop.near_best) == (1, 19.0, None, 1)
    assert summarise(results, "elr") is None


def test_how_much_of_near_the_best_is_chance_by_hand() -> None:
    def scores(method: str, *of_seeds: float) -> list[dict[str, Any]]:
        return [line(ROWS[1], method, seed, v, v) for seed, v in enumerate(of_seeds, 1)]

    noisy = [*scores("ce", 50, 60, 50), *scores("predictions", 58, 55, 59.7), *scores("gce", 60)]
    # Near the best: ours in seeds 1 and 3. On the other seeds, ours has 57.35, 58.85 and 56.5 and
    # cross-entropy 55, 50 and 55, so the oracle always takes ours. GCE lacks seeds.
    words = chance(row_results(noisy, ROWS))
    assert words is not None
    assert "in 67% of 3" in words
    assert "best in 67%." in words
    # With 52 in its last seed ours has 53.5 on seeds 2 and 3, less than the 55 of cross-entropy.
    noisy = [*scores("ce", 50, 60, 50), *scores("predictions", 58, 55, 52)]
    words = chance(row_results(noisy, ROWS))
    assert words is not None
    assert "in 67% of 3" in words
    assert "best in 33%." in words
    assert chance(row_results(MADE_UP, ROWS)) is None


def test_the_page_shows_the_summary_and_where_ours_loses() -> None:
    page = render(MADE_UP, ROWS)
    assert "3 of 3 rows on 2 sets, 1 of them not used for any choice; 15 of 90 cells" in page
    worst = "-1.5 (letter, clean, 20 epochs, AdamW, cosine)"
    assert f"| DiscrimLoss, paper | 3 | +3.33 ± 0.18 | +5.75 | -1.50 | {worst} | 1 of 3 |" in page
    lost = "below cross-entropy by more than 1: letter, clean, 20 epochs, AdamW, cosine (-1.5)."
    assert f"**DiscrimLoss, paper**, {lost}" in page
    held_out = page[page.index("## Sets that were not used") : page.index("## Real noise")]
    assert "| DiscrimLoss, paper | 1 | +2.00 | +2.00 | – |" in held_out
    assert "| glass † | symmetric 40 % |" in page
    assert "| 61.0 / 51.0 ± 1.4 |" in page
    assert "**70.0 / 60.0 ± 0.0**" in page


@pytest.mark.skipif(not (RESULTS / "robustness.jsonl").is_file(), reason="nothing is stored yet")
def test_the_page_is_that_of_the_stored_results() -> None:
    lines = read_lines(RESULTS / "robustness.jsonl")
    page = (RESULTS / "robustness.md").read_text("utf-8")
    assert render(lines, design()) == page
