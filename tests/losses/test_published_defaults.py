"""Defaults that docstrings attribute to a paper or a repository: the values that stand there."""

from __future__ import annotations

from typing import Any

import pytest

from discrimloss.training.methods import methods

PUBLISHED: dict[str, dict[str, Any]] = {
    "active_passive": {"passive": "rce", "active_weight": 1.0, "passive_weight": 1.0},
    "baby_steps": {"patience": 10},
    "backward": {"anchor_percentile": 97.0},
    "co_teaching": {"exponent": 1.0},
    "cores": {"beta": 2.0, "begin": 0.1, "end": 0.4, "sieve_from": 0.3},
    "data_parameters": {
        "class_lr": 0.1,
        "class_weight_decay": 1e-4,
        "momentum": 0.9,
        "temperature_range": (1 / 20, 20.0),
    },
    "elr": {"regularization": 3.0, "target_momentum": 0.7},
    "forward": {"anchor_percentile": 97.0},
    "gce": {
        "exponent": 0.7,
        "truncation_threshold": 0.5,
        "first_truncation": 40 / 120,
        "truncation_interval": 10 / 120,
    },
    "label_smoothing": {"smoothing": 0.1},
    "mentornet": {
        "percentile_decay": 0.5,
        "burn_in": 0.18,
        "burn_in_drop_rate": 0.5,
        "burn_in_drops": 0.17,
        "drop_rate": 0.05,
        "ramp": 1.0,
        "ramp_from": 0.9,
    },
    "peer_loss": {"peer_weight": 1.0, "begin": 20 / 300, "end": 40 / 300},
    "self_adaptive_training": {"target_momentum": 0.9, "start": 60 / 200},
    "self_paced": {"first_fraction": 0.5, "growth": 1.3},
    "sln": {"sigma": 0.1, "momentum_decay": 0.999},
    "sop": {"u_lr": 1.0, "v_lr": 10.0},
    "symmetric_cross_entropy": {"alpha": 0.1, "beta": 1.0},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_defaults_are_the_published_ones(name: str) -> None:
    options = methods.options(name)
    assert {option: options[option].default for option in PUBLISHED[name]} == PUBLISHED[name]
