"""The digit-sum LSTM: what it must not see, where it starts, and that it learns."""

from pathlib import Path

import pytest
import torch

from discrimloss.data.digitsum import PADDING, load_digitsum
from discrimloss.models import TaskShape, models
from discrimloss.models.digit_lstm import DigitLSTM

SHAPE = TaskShape((20,), None, target_mean=50.0, target_spread=25.0)


def tiny_lstm(**options: bool) -> DigitLSTM:
    torch.manual_seed(0)
    return DigitLSTM(SHAPE, hidden_size=32, embedding_size=8, **options)


def test_it_is_the_paper_s_size() -> None:
    model = models.get("digit_lstm")(SHAPE)
    assert model.embedding.num_embeddings == 11
    assert (model.lstm.hidden_size, model.lstm.num_layers) == (256, 1)
    assert model(torch.randint(10, (3, 20))).shape == (3,)


def test_padding_changes_nothing() -> None:
    model = tiny_lstm()
    digits = torch.randint(10, (5, 7))
    padded = torch.nn.functional.pad(digits, (0, 13), value=PADDING)
    torch.testing.assert_close(model(padded), model(digits))


def test_every_digit_counts() -> None:
    model = tiny_lstm()
    digits = torch.randint(9, (1, 6))
    before = model(digits)
    for place in range(6):
        changed = digits.clone()
        changed[0, place] += 1
        assert not torch.equal(model(changed), before), place


def test_it_starts_near_the_mean_of_the_targets_and_can_move() -> None:
    model = tiny_lstm()
    output = model(torch.randint(10, (64, 20)))
    assert (output - 50).abs().max() < 25
    output.sum().backward()
    assert model.head.weight.grad is not None
    assert model.head.weight.grad.abs().sum() > 0


def test_it_never_answers_below_zero() -> None:
    model = tiny_lstm(standardized=False)
    with torch.no_grad():
        model.head.bias.fill_(-100.0)
    assert torch.equal(model(torch.randint(10, (4, 5))), torch.zeros(4))


def test_it_learns_to_add() -> None:
    data = load_digitsum(Path("nowhere"), train_size=200, max_length=6, test_size=100)
    digits, target = data.train.inputs.rows(torch.arange(200)), data.train.target
    torch.manual_seed(0)
    shape = TaskShape((6,), None, target.mean().item(), target.std().item())
    model = DigitLSTM(shape, hidden_size=32, embedding_size=16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    for _ in range(150):
        optimizer.zero_grad()
        (model(digits) - target).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        predicted = model(data.test.inputs.rows(torch.arange(100)))
    error = (predicted - data.test.target).abs().mean()
    constant = (data.test.target.mean() - data.test.target).abs().mean()
    assert error < 0.5 * constant


def test_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="is for regression"):
        DigitLSTM(TaskShape((20,), 10))


def test_random_initial_states_differ_from_pass_to_pass() -> None:
    torch.manual_seed(0)
    model = DigitLSTM(TaskShape((3,), None, 10.0, 3.0), hidden_size=8, random_states=True)
    digits = torch.tensor([[1, 2, 3], [4, 5, 10]])
    model.eval()
    assert not torch.equal(model(digits), model(digits))
    model.random_states = False
    assert torch.equal(model(digits), model(digits))
