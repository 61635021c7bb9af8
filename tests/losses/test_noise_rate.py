"""A noise rate that is given or estimated, and the record of which."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from discrimloss.loss import DiscrimLoss
from discrimloss.losses.noise_rate import HIGHEST_ESTIMATE, NoiseRate, rate_of_averages

NUM_SAMPLES = 400


def history_with(share_wrong: float, epochs: int = 20) -> DiscrimLoss:
    """Losses in two heaps: those of right labels fall, those of wrong ones stay."""
    history = DiscrimLoss(NUM_SAMPLES, epochs, weight_range=(1.0, 1.0))
    generator = torch.Generator().manual_seed(0)
    is_wrong = torch.arange(NUM_SAMPLES) < share_wrong * NUM_SAMPLES
    for epoch in range(1, 6):
        history.set_epoch(epoch)
        spread = torch.rand(NUM_SAMPLES, generator=generator) + 0.5
        losses = torch.where(is_wrong, torch.tensor(3.0), torch.tensor(2.0 / epoch**2)) * spread
        history(losses, torch.arange(NUM_SAMPLES))
    return history


def test_a_given_rate_stays() -> None:
    rate = NoiseRate(0.4, epochs=20)
    for epoch in range(1, 21):
        rate.begin_epoch(epoch, history_with(0.1) if epoch == 5 else None)
        assert float(rate) == 0.4
    assert rate.record() == {"noise_rate": 0.4, "noise_rate_source": "given"}


def test_an_estimate_comes_from_the_losses() -> None:
    rate = NoiseRate(None, epochs=20)
    assert rate.record() == {"noise_rate": None, "noise_rate_source": "not estimated yet"}
    rate.begin_epoch(4, history_with(0.25))
    assert float(rate) == pytest.approx(0.25, abs=0.03)
    assert rate.record() == {"noise_rate": float(rate), "noise_rate_source": "estimated"}


def test_when_it_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    class Answer:
        noise_rate: float | None = 0.3

    asked = []
    history = history_with(0.0)
    monkeypatch.setattr(DiscrimLoss, "verdicts", lambda self: asked.append(1) or Answer())
    rate = NoiseRate(None, epochs=20)
    due = []
    for epoch in range(1, 21):
        before = len(asked)
        rate.begin_epoch(epoch, history)
        rate.begin_epoch(epoch, history)  # resumed half-way: the epoch keeps its estimate
        due += [epoch] * (len(asked) - before)
    assert due == [4, 5, 6]  # after 15 % of the run, until 30 % of it

    Answer.noise_rate = None
    nothing_known = NoiseRate(None, epochs=20)
    nothing_known.begin_epoch(4, DiscrimLoss(NUM_SAMPLES, 20))  # nothing has been seen
    assert float(nothing_known) == 0.0
    assert nothing_known.record()["noise_rate_source"] == "not estimated yet"
    Answer.noise_rate = 0.98  # too early, or too short a run
    unbelievable = NoiseRate(None, epochs=20)
    unbelievable.begin_epoch(4, history)
    assert float(unbelievable) == HIGHEST_ESTIMATE


def test_where_verdicts_cannot_tell_the_average_losses_decide() -> None:
    """Right labels are learned, and so is half of the wrong ones by now: only averages differ."""
    history = DiscrimLoss(NUM_SAMPLES, 20, weight_range=(1.0, 1.0))
    generator = torch.Generator().manual_seed(0)
    is_wrong = torch.arange(NUM_SAMPLES) < 0.4 * NUM_SAMPLES
    for epoch in range(1, 8):
        history.set_epoch(epoch)
        spread = torch.rand(NUM_SAMPLES, generator=generator) + 0.5
        late = 0.02 if epoch == 7 else 3.0
        of_wrong = torch.where(torch.arange(NUM_SAMPLES) % 2 == 0, late, 3.0)
        losses = torch.where(is_wrong, of_wrong, torch.tensor(1.0 / epoch**3)) * spread
        history(losses, torch.arange(NUM_SAMPLES))
    verdicts = history.verdicts()
    assert verdicts.noise_rate is None
    assert np.nanmean(verdicts.p_incorrect) < 0.3
    rate = NoiseRate(None, epochs=20)
    rate.begin_epoch(4, history)
    assert float(rate) == pytest.approx(0.4, abs=0.03)
    assert rate_of_averages(history) == pytest.approx(float(rate))


def test_later_estimates_only_lower_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that leaves samples out makes their losses grow, and would find ever more noise."""
    history = history_with(0.0)
    rate = NoiseRate(None, epochs=20)
    found = []
    for epoch, estimate in ((4, 0.7), (5, 0.8), (6, 0.6)):
        answer = SimpleNamespace(noise_rate=estimate)
        monkeypatch.setattr(DiscrimLoss, "verdicts", lambda self, answer=answer: answer)
        rate.begin_epoch(epoch, history)
        found.append(float(rate))
    assert found == [0.7, 0.7, 0.6]


@pytest.mark.parametrize("epochs", [1, 2, 3, 5, 12, 200])
def test_a_run_of_any_length_has_an_estimate_where_it_can(epochs: int) -> None:
    rate = NoiseRate(None, epochs)
    assert 2 <= rate.first <= rate.last
    assert rate.last <= max(2, epochs)


def test_it_is_in_the_state() -> None:
    rate, other = NoiseRate(None, 20), NoiseRate(None, 20)
    rate.begin_epoch(5, history_with(0.25))
    other.load_state_dict(rate.state_dict())
    assert float(other) == float(rate) > 0.0
    other.begin_epoch(5, history_with(0.6))  # of this epoch it has one
    assert float(other) == float(rate)


@pytest.mark.parametrize("given", [-0.1, 1.0, 40.0, float("nan")])
def test_what_is_no_share_is_refused(given: float) -> None:
    with pytest.raises(ValueError, match="at least 0 and below 1"):
        NoiseRate(given, 20)
