"""Easy, hard, incorrect, unseen: the rules, their timing, and what a reader gets."""

import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_verdicts import NAN, assert_same_verdicts, make_verdicts, one_of_each
from state_comparison import assert_same_state, state_of

from discrimloss import DiscrimLoss
from discrimloss.judging.calibration import calibrate
from discrimloss.judging.criterion import judge_samples
from discrimloss.judging.frames import COLUMNS
from discrimloss.judging.verdicts import EASY, HARD, INCORRECT, LABELS, UNSEEN, Verdicts

both_rules = pytest.mark.parametrize("rule", ["calibrated", "threshold"])
both_variants = pytest.mark.parametrize("variant", ["paper", "released"])

# Between k1 = 1 and k2 = 2 lies what is neither learned nor incorrect.
LEARNED, BETWEEN, UNLEARNED = 0.2, 1.5, 3.0


def make_criterion(num_samples: int, switch_epoch: float, **changes: Any) -> DiscrimLoss:
    """k1 = 1 and k2 = 2 throughout; no memory, so that Avg(l) is the loss of the last visit."""
    settings: dict[str, Any] = {
        "epochs": 10,
        "threshold": 1.0,
        "switch_gain": 0.5,
        "history_decay": 0.0,
    }
    return DiscrimLoss(num_samples, switch_epoch=switch_epoch, **(settings | changes))


def train(criterion: DiscrimLoss, losses_of_epoch: dict[int, list[float]]) -> None:
    """One batch for each epoch, of as many samples as there are losses."""
    for epoch, losses in losses_of_epoch.items():
        criterion.set_epoch(epoch)
        criterion(torch.tensor(losses), torch.arange(len(losses)))


def threshold_labels(criterion: DiscrimLoss) -> list[str]:
    labels: list[str] = criterion.verdicts(rule="threshold").label.tolist()
    return labels


# The paper's rule.


@pytest.mark.parametrize(
    ("early", "late", "expected"),
    [
        (LEARNED, LEARNED, "easy"),
        (LEARNED, BETWEEN, "easy"),  # forgotten a little, but it was learned early
        (UNLEARNED, LEARNED, "hard"),
        (BETWEEN, LEARNED, "hard"),
        (UNLEARNED, BETWEEN, "hard"),
        (UNLEARNED, UNLEARNED, "incorrect"),
        (LEARNED, UNLEARNED, "incorrect"),  # the end outweighs the beginning
        (1.0, LEARNED, "hard"),  # exactly k1 is not below it
        (UNLEARNED, 2.0, "hard"),  # exactly k2 is not above it
    ],
)
def test_the_papers_rule(early: float, late: float, expected: str) -> None:
    criterion = make_criterion(1, switch_epoch=2)
    train(criterion, {1: [BETWEEN], 2: [early], 3: [BETWEEN], 4: [late]})
    assert threshold_labels(criterion) == [expected]


def test_the_papers_rule_looks_at_the_average_and_not_at_the_last_loss() -> None:
    criterion = make_criterion(3, switch_epoch=2, history_decay=0.5)
    train(criterion, {1: [0.0, 4.0, 0.0], 2: [1.2, 0.2, 1.8], 3: [9.0, 2.0, 3.0]})
    # Avg(l) with weights 1:2 after two visits and 1:2:4 after three. When stage 1 ends:
    # 0.8 (below k1), 1.47, 1.2; at the end: 5.49 (above k2), 1.77, 2.23 (above k2).
    assert threshold_labels(criterion) == ["incorrect", "hard", "incorrect"]
    early = criterion.state_dict()["table.learned_early"].tolist()
    assert early == [1, 0, 0]


def test_a_sample_that_was_in_no_batch_is_unseen() -> None:
    criterion = make_criterion(3, switch_epoch=1)
    train(criterion, {1: [LEARNED], 2: [LEARNED]})
    for rule in ("threshold", "calibrated"):
        verdicts = criterion.verdicts(rule=rule)
        assert verdicts.label.tolist() == ["easy", "unseen", "unseen"]
        assert np.isnan(verdicts.p_incorrect).tolist() == [False, True, True]
        assert np.isnan(verdicts.average_loss).tolist() == [False, True, True]
        assert verdicts.weight.tolist()[1:] == [1.0, 1.0]


@both_rules
def test_before_training_everything_is_unseen(rule: Any) -> None:
    verdicts = DiscrimLoss(4, epochs=3).verdicts(rule=rule)
    assert verdicts.label.tolist() == ["unseen"] * 4
    assert verdicts.noise_rate is None
    assert "noise rate unknown" in repr(verdicts)
    assert "4 unseen" in repr(verdicts)


def test_a_sample_with_broken_losses_only_is_unseen() -> None:
    criterion = make_criterion(2, switch_epoch=1)
    train(criterion, {1: [LEARNED, float("nan")], 2: [LEARNED, float("inf")]})
    assert threshold_labels(criterion) == ["easy", "unseen"]


# When stage 1 ends.


@pytest.mark.parametrize(
    ("switch_epoch", "deciding_epoch"),
    [
        (1, 1),
        (3, 3),
        (2.5, 2),
        (3.99, 3),
        (5, 5),
        (5.9, 5),
        (6, 5),  # training stops sooner: its end decides
        (80, 5),
        (0.7, 1),  # there is no epoch before the first
        (0, 1),
        (-4.5, 1),
    ],
)
def test_easy_is_what_was_learned_when_stage_1_ended(
    switch_epoch: float, deciding_epoch: int
) -> None:
    epochs = range(1, 6)
    criterion = make_criterion(5, switch_epoch)
    # The loss of each sample is low in one epoch only: the first one's in epoch 1, and so on.
    train(criterion, {e: [LEARNED if e == low else BETWEEN for low in epochs] for e in epochs})
    expected = ["easy" if epoch == deciding_epoch else "hard" for epoch in epochs]
    assert threshold_labels(criterion) == expected


def test_verdicts_after_the_last_epoch_was_closed_are_the_same() -> None:
    criterion = make_criterion(3, switch_epoch=2)
    train(criterion, {1: [UNLEARNED] * 3, 2: [LEARNED, UNLEARNED, UNLEARNED]})
    train(criterion, {3: [BETWEEN, LEARNED, UNLEARNED]})
    before = threshold_labels(criterion)
    criterion.set_epoch(4)
    assert threshold_labels(criterion) == before == ["easy", "hard", "incorrect"]


def test_jumping_over_the_switch_epoch_ends_stage_1() -> None:
    criterion = make_criterion(2, switch_epoch=4)
    train(criterion, {1: [BETWEEN] * 2, 2: [LEARNED, BETWEEN], 6: [BETWEEN, LEARNED]})
    assert threshold_labels(criterion) == ["easy", "hard"]


def test_training_that_begins_after_the_switch_is_judged_by_its_end() -> None:
    criterion = make_criterion(2, switch_epoch=2)
    train(criterion, {5: [LEARNED, BETWEEN], 6: [BETWEEN, LEARNED]})
    assert threshold_labels(criterion) == ["hard", "easy"]


def test_samples_that_come_after_the_switch_are_judged_by_the_end() -> None:
    criterion = make_criterion(2, switch_epoch=1)
    train(criterion, {1: [LEARNED], 2: [BETWEEN, LEARNED]})  # the second one was not seen in time
    criterion.resize(6)
    train(criterion, {3: [BETWEEN, BETWEEN, LEARNED, BETWEEN, UNLEARNED]})
    assert threshold_labels(criterion) == ["easy", "hard", "easy", "hard", "incorrect", "unseen"]


# Asking.


NUM_SEEN, NUM_SAMPLES = 400, 410


def trained_on_noisy_losses(**changes: Any) -> DiscrimLoss:
    """Six epochs: every fourth label is incorrect, one in eight hard, ten samples are unseen."""
    settings: dict[str, Any] = {"epochs": 6, "switch_epoch": 3, "history_decay": 0.3}
    criterion = DiscrimLoss(NUM_SAMPLES, **(settings | changes))
    generator = torch.Generator().manual_seed(7)
    difficulty = torch.rand(NUM_SEEN, generator=generator)
    for epoch in range(1, 7):
        losses = 0.1 + 2.0 * difficulty / epoch
        if epoch <= 3:
            losses[1::8] = 4.0
        losses[::4] = 5.0 + torch.randn(NUM_SEEN // 4, generator=generator)
        criterion.set_epoch(epoch)
        for index in torch.randperm(NUM_SEEN, generator=generator).split(50):
            criterion(losses[index], index)
    return criterion


def test_calibrated_verdicts_follow_the_probability_and_stage_1() -> None:
    criterion = trained_on_noisy_losses()
    verdicts = criterion.verdicts()
    assert verdicts.rule == "calibrated"
    assert verdicts.noise_rate == pytest.approx(0.25, abs=0.04)

    label, sample = verdicts.label[:NUM_SEEN], np.arange(NUM_SEEN)
    np.testing.assert_array_equal(label == "incorrect", verdicts.p_incorrect[:NUM_SEEN] > 0.5)
    expected = np.select([sample % 4 == 0, sample % 8 == 1], ["incorrect", "hard"], "easy")
    assert np.mean(label == expected) > 0.97


def test_verdicts_carry_what_the_criterion_knows() -> None:
    criterion = trained_on_noisy_losses()
    verdicts = criterion.verdicts()
    np.testing.assert_array_equal(verdicts.weight, criterion.sample_weights)
    np.testing.assert_array_equal(verdicts.average_loss, criterion.average_losses)
    assert verdicts.code.dtype == np.int8
    for column in (verdicts.p_incorrect, verdicts.weight, verdicts.average_loss):
        assert column.dtype == np.float32
        assert column.shape == (NUM_SAMPLES,)


@both_variants
@both_rules
def test_asking_changes_nothing(variant: Any, rule: Any) -> None:
    def run(ask: bool) -> DiscrimLoss:
        criterion = make_criterion(4, switch_epoch=1, threshold="split", variant=variant)
        for epoch in (1, 2):
            criterion.set_epoch(epoch)
            criterion(torch.tensor([0.3, 2.0]) / epoch, torch.tensor([0, 1]))
            if ask:  # in the middle of the epoch
                before = state_of(criterion)
                first = criterion.verdicts(rule=rule)
                assert_same_verdicts(criterion.verdicts(rule=rule), first)
                assert_same_state(criterion, before)
            criterion(torch.tensor([5.0]), torch.tensor([2]))
        return criterion

    random_state = torch.get_rng_state()
    assert_same_state(run(ask=True), run(ask=False))
    assert torch.equal(torch.get_rng_state(), random_state)


def test_verdicts_do_not_follow_later_training() -> None:
    criterion = trained_on_noisy_losses()
    verdicts, expected = criterion.verdicts(), criterion.verdicts()
    criterion(torch.full((NUM_SAMPLES,), 50.0), torch.arange(NUM_SAMPLES))
    assert_same_verdicts(verdicts, expected)


@both_variants
@both_rules
def test_verdicts_survive_saving_and_loading(variant: Any, rule: Any) -> None:
    criterion = trained_on_noisy_losses(variant=variant)
    file = io.BytesIO()
    torch.save(criterion.state_dict(), file)
    file.seek(0)
    loaded = DiscrimLoss(NUM_SAMPLES, epochs=6, switch_epoch=3, history_decay=0.3, variant=variant)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    expected = criterion.verdicts(rule=rule)
    assert {"easy", "incorrect", "unseen"} <= set(expected.label)  # there is something to compare
    assert_same_verdicts(loaded.verdicts(rule=rule), expected)


def test_a_training_and_an_evaluating_criterion_judge_alike() -> None:
    criterion = trained_on_noisy_losses()
    expected = criterion.verdicts()
    assert_same_verdicts(criterion.eval().verdicts(), expected)


@pytest.mark.parametrize(
    "mode",
    [
        torch.no_grad,
        torch.inference_mode,
    ],
)
def test_verdicts_can_be_asked_for_where_gradients_are_off(mode: Any) -> None:
    criterion = trained_on_noisy_losses()
    expected = criterion.verdicts()
    with mode():
        assert_same_verdicts(criterion.verdicts(), expected)


def test_an_unknown_rule_is_an_error_that_lists_the_rules() -> None:
    with pytest.raises(ValueError, match="calibrated, threshold, not 'guess'"):
        DiscrimLoss(2, epochs=3).verdicts(rule="guess")  # type: ignore[arg-type]


# A forgotten set_epoch.


def test_many_visits_in_one_epoch_are_suspicious() -> None:
    criterion = make_criterion(2, switch_epoch=2)
    for _ in range(2):
        criterion(torch.tensor([LEARNED]), torch.tensor([1]))
    with pytest.warns(UserWarning, match="call set_epoch") as caught:
        criterion.verdicts()
    assert [warning.filename for warning in caught] == [__file__]


def test_one_visit_each_is_not() -> None:
    criterion = make_criterion(2, switch_epoch=2)
    for sample in (0, 1):
        criterion(torch.tensor([LEARNED]), torch.tensor([sample]))
    assert threshold_labels(criterion) == ["easy", "easy"]  # a warning would be an error


# Reading. Verdicts are made by hand.


def test_length_counts_and_labels() -> None:
    verdicts = one_of_each()
    assert len(verdicts) == 5
    assert verdicts.counts == {
        "easy": 2,
        "hard": 1,
        "undecided": 0,
        "incorrect": 1,
        "unseen": 1,
    }
    assert verdicts.label.tolist() == ["hard", "easy", "unseen", "incorrect", "easy"]
    assert verdicts.label.dtype.kind == "U"
    assert verdicts.code.tolist() == [HARD, EASY, UNSEEN, INCORRECT, EASY]


def test_the_noise_rate_is_that_of_the_samples_seen() -> None:
    assert one_of_each().noise_rate == pytest.approx(0.25)
    assert make_verdicts(["unseen"], [NAN]).noise_rate is None


def test_repr_shows_counts_and_noise_rate() -> None:
    assert repr(one_of_each()) == (
        "Verdicts(5 samples: 2 easy (40.0%), 1 hard (20.0%), 1 incorrect (20.0%), "
        "1 unseen (20.0%); estimated noise rate 25.0%; rule='calibrated')"
    )
    assert "unseen" not in repr(make_verdicts(["easy"], [0.0]))


def test_the_noise_rate_under_its_old_name() -> None:
    with pytest.warns(DeprecationWarning, match="is now noise_rate"):
        assert one_of_each().estimated_noise_rate == pytest.approx(0.25)
    with pytest.warns(DeprecationWarning, match="will be removed in 0.3"):
        assert np.isnan(make_verdicts(["unseen"], [NAN]).estimated_noise_rate)


def test_repr_shows_the_interval_and_the_notes() -> None:
    verdicts = replace(one_of_each(), noise_interval=(0.1, 0.456), notes=("Too short a run.",))
    assert "noise rate 25.0% (10.0% to 45.6%)" in repr(verdicts)
    assert "note: Too short a run." in repr(verdicts)


@pytest.mark.parametrize(
    "name", ["score", "weight", "average_loss", "given_label", "suggested_label", "ids"]
)
def test_every_column_has_one_entry_per_sample(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} has 2 entries for 5 samples"):
        replace(one_of_each(), **{name: np.zeros(2, dtype=np.float32)})


def test_labels_keep_their_kind() -> None:
    for given, dtype in (
        (["ant", "bee"], object),
        (np.array([3, 1], dtype=np.int8), np.int64),
        (np.array([0.5, 1.0], dtype=np.float32), np.float64),
    ):
        verdicts = replace(make_verdicts(["easy", "easy"], [0.0, 0.0]), given_label=given)
        assert isinstance(verdicts, Verdicts)
        assert verdicts.given_label is not None
        assert verdicts.given_label.dtype == dtype
        assert verdicts.given_label.tolist() == list(given)


def test_the_score_ranks_probabilities_that_round() -> None:
    verdicts = trained_on_noisy_losses().verdicts()
    assert np.isfinite(verdicts.score[:NUM_SEEN]).all()
    assert np.isnan(verdicts.score[NUM_SEEN:]).all()
    certain = verdicts.p_incorrect == 1.0
    assert certain.sum() > 5
    assert len(np.unique(verdicts.score[certain])) > 5
    at_all = verdicts.p_incorrect[:NUM_SEEN] > 0
    expected = 1 / (1 + np.exp(-verdicts.score[:NUM_SEEN].astype(np.float64)))
    np.testing.assert_allclose(verdicts.p_incorrect[:NUM_SEEN][at_all], expected[at_all], 1e-4)


def test_the_order_has_everyone_worst_first_and_unseen_last() -> None:
    verdicts = make_verdicts(
        ["easy", "unseen", "incorrect", "unseen", "incorrect"], [0.1, NAN, 0.8, NAN, 0.9]
    )
    assert verdicts.order.tolist() == [4, 2, 0, 1, 3]
    assert verdicts.order.dtype == np.int64


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 5, 6, 7, 100])
def test_the_most_suspicious_come_worst_first(number: int) -> None:
    verdicts = make_verdicts(
        ["easy", "incorrect", "unseen", "incorrect", "incorrect", "easy", "incorrect"],
        p_incorrect=[0.0, 1.0, NAN, 0.7, 1.0, 0.0, 1.0],
        average_loss=[0.1, 5.0, NAN, 2.0, 8.0, 0.2, 5.0],
    )
    # By probability, then by loss, then by index; who was never seen is not suspected.
    worst_first = [4, 1, 6, 3, 5, 0]
    worst = verdicts.most_suspicious(number)
    assert worst.dtype == np.int64
    assert worst.tolist() == worst_first[:number]


def test_a_negative_number_of_suspects_is_an_error() -> None:
    with pytest.raises(ValueError, match="-1"):
        one_of_each().most_suspicious(-1)


def test_the_most_suspicious_of_a_trained_criterion_agree_with_a_full_sort() -> None:
    verdicts = trained_on_noisy_losses().verdicts()
    by_hand = sorted(
        range(NUM_SEEN),
        key=lambda i: (-verdicts.score[i], -verdicts.average_loss[i], i),
    )
    for number in (1, 37, 250, NUM_SEEN):
        assert verdicts.most_suspicious(number).tolist() == by_hand[:number]


# Data frames.


def test_a_data_frame_has_one_row_per_sample() -> None:
    pandas = pytest.importorskip("pandas")
    verdicts = one_of_each()
    frame = verdicts.to_pandas()
    assert list(frame.columns) == list(COLUMNS)
    pandas.testing.assert_index_equal(frame.index, pandas.RangeIndex(5))
    assert frame["verdict"].tolist() == verdicts.verdict.tolist() == verdicts.label.tolist()
    assert frame["verdict"].cat.categories.tolist() == list(LABELS)
    for name in ("id", "given_label", "suggested_label"):  # a criterion does not know them
        assert frame[name].isna().all()
    for name in ("p_incorrect", "score", "weight", "average_loss"):
        assert frame[name].dtype == np.float32
        np.testing.assert_array_equal(frame[name], getattr(verdicts, name))


@pytest.mark.parametrize("as_path", [str, Path])
def test_parquet_brings_the_data_frame_back(as_path: Any, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    file = tmp_path / "verdicts.parquet"
    verdicts = trained_on_noisy_losses().verdicts()
    one_of_each().to_parquet(as_path(file))
    verdicts.to_parquet(as_path(file))  # over the old one
    pandas.testing.assert_frame_equal(pandas.read_parquet(file), verdicts.to_pandas())
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("old_content", [None, b"an older file"])
def test_a_write_that_fails_leaves_the_directory_as_it_was(
    old_content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = pytest.importorskip("pandas")
    file = tmp_path / "verdicts.parquet"
    if old_content is not None:
        file.write_bytes(old_content)

    def run_out_of_space(frame: Any, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(pandas.DataFrame, "to_parquet", run_out_of_space)
    with pytest.raises(OSError, match="no space left"):
        one_of_each().to_parquet(file)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == (
        [] if old_content is None else [old_content]
    )


@pytest.mark.parametrize("method", ["to_pandas", "to_parquet"])
def test_without_pandas_the_error_names_the_extra(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)  # makes `import pandas` fail
    arguments = [tmp_path / "verdicts.parquet"] if method == "to_parquet" else []
    with pytest.raises(ImportError, match=r"pip install 'discrimloss\[pandas\]'"):
        getattr(one_of_each(), method)(*arguments)
    assert list(tmp_path.iterdir()) == []


# Size.


@pytest.mark.slow
@both_rules
def test_ten_million_samples(rule: Any) -> None:
    number, wrong = 10_000_000, 2_000_000
    generator = torch.Generator().manual_seed(0)
    losses = torch.empty(number).exponential_(5.0, generator=generator)
    losses[:wrong] = 5.0 + torch.randn(wrong, generator=generator)
    losses[-1000:] = torch.nan
    calibration = calibrate(lambda: losses.split(1 << 22), 2.5)
    verdicts = judge_samples(
        averages=lambda: losses.split(1 << 22),
        learned_early=torch.full((number,), -1, dtype=torch.int8),
        weights=torch.ones(number),
        thresholds=(1.0, 2.0),
        latest=losses,
        rule=rule,
        calibration=calibration,
    )
    assert len(verdicts) == number
    assert verdicts.counts["unseen"] == 1000
    assert verdicts.counts["incorrect"] == pytest.approx(wrong, rel=0.01)
    assert verdicts.counts["easy"] == pytest.approx(number - wrong, rel=0.01)
    assert verdicts.noise_rate == pytest.approx(0.2, abs=0.01)
    assert np.mean(verdicts.code[:wrong] == INCORRECT) > 0.99
    suspicious = verdicts.most_suspicious(100_000)
    assert len(set(suspicious.tolist())) == 100_000
    assert suspicious.max() < wrong


# Probabilities from elsewhere.


def test_probabilities_from_elsewhere_decide_who_is_incorrect() -> None:
    criterion = make_criterion(5, switch_epoch=1)
    train(criterion, {1: [LEARNED, LEARNED, UNLEARNED, UNLEARNED]})
    criterion.set_epoch(2)
    given = torch.tensor([0.1, 0.9, 0.05, 0.5, 0.9])
    verdicts = criterion.verdicts(p_incorrect=given)
    assert verdicts.label.tolist() == ["easy", "incorrect", "hard", "undecided", "unseen"]
    np.testing.assert_array_equal(verdicts.p_incorrect, [*given[:4].tolist(), NAN])
    assert verdicts.noise_rate == pytest.approx(1.55 / 4)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (torch.zeros(3), r"shape \(5,\), one for each sample, not \(3,\)"),
        (torch.zeros(5, 1), r"not \(5, 1\)"),
        (torch.tensor([0.0, 0.0, 0.0, 0.0, 1.1]), "between 0 and 1"),
        (torch.tensor([0.0, 0.0, 0.0, 0.0, -0.1]), "between 0 and 1"),
        (torch.tensor([0.0, 0.0, 0.0, 0.0, NAN]), "between 0 and 1"),
    ],
)
def test_probabilities_that_are_none(given: torch.Tensor, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_criterion(5, switch_epoch=1).verdicts(p_incorrect=given)
