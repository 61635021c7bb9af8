"""The paper's table on sample difficulty and training stage, in numbers worked out by hand.

"The influence on sample weight delta_i and model training with different sample difficulties and
training stages": whether delta_i grows or shrinks, and whether the gradient that reaches the model
(1/delta_i) shrinks or grows with it. Each literal follows from the comment above it and not from
an implementation, so these tests share no mistake with one.

Powers of e used below:
    e^0.0125 = 1.0125785   e^0.125 = 1.1331485   e^0.25 = 1.2840254   e^0.375 = 1.4549914
    e^0.5    = 1.6487213   e^1.25  = 3.4903430   e^1.5  = 4.4816891
    e^-0.025 = 0.9753099   e^-0.25 = 0.7788008   e^-0.5 = 0.6065307
    e^-1.25  = 0.2865048   e^-1.5  = 0.2231302
"""

from typing import Any

import pytest
import torch

from discrimloss import DiscrimLoss

EASY, HARD, INCORRECT = 0, 1, 2
EVERY_SAMPLE = [EASY, HARD, INCORRECT]

# With k1 = 1 and a = 1: k2 = (1 + 2a) * k1 = 3. The easy sample lies below both thresholds, the
# hard one between them, the incorrect one above both.
LOSSES = [0.5, 2.0, 4.0]

# p = 100 and q = 10 make tanh(100 * (e - 10)) equal to -1, 0 and 1 to the last digit.
STAGE_1_EPOCH, SWITCH_EPOCH, STAGE_2_EPOCH = 1, 10, 20


def make_criterion(**changes: Any) -> DiscrimLoss:
    settings: dict[str, Any] = {
        "num_samples": 3,
        "threshold": 1.0,
        "switch_gain": 1.0,
        "switch_rate": 100.0,
        "switch_epoch": SWITCH_EPOCH,
        "suppressed_epochs": 0,
        "regularization": 0.0,
        "history_decay": 0.0,  # Avg(l) = l, unless the test is about the history
        "weight_lr": 0.5,
        "weight_range": (0.05, 20.0),
        "reduction": "none",
    }
    return DiscrimLoss(**(settings | changes))


def visit(
    criterion: DiscrimLoss, losses: list[float], index: list[int]
) -> tuple[list[float], list[float]]:
    """One training step: the value of each row, and the gradient that each inner loss receives."""
    inner = torch.tensor(losses, requires_grad=True)
    values = criterion(inner, torch.tensor(index))
    values.sum().backward()
    assert inner.grad is not None
    return values.tolist(), inner.grad.tolist()


def weights(criterion: DiscrimLoss) -> list[float]:
    numbers: list[float] = criterion.sample_weights.tolist()
    return numbers


def average(criterion: DiscrimLoss, sample: int) -> float:
    return float(criterion.average_losses[sample])


def close(expected: Any) -> Any:
    # Room for float32 state and for literals of seven decimals.
    return pytest.approx(expected, rel=1e-5, abs=1e-6)


# The table. One SGD step in log space: log delta <- log delta - tau * delta * dL/d delta, where
# delta * dL/d delta = (k_dyn - Avg) / delta and tau = 0.5.


def test_stage_1_easy_grows_in_importance_hard_and_incorrect_shrink() -> None:
    criterion = make_criterion()
    criterion.set_epoch(STAGE_1_EPOCH)

    # delta = 1 for all:
    #            value = Avg - k1   slope = k1 - Avg   log delta = -0.5 * slope   delta
    # easy        0.5 - 1 = -0.5     0.5               -0.25                      0.7788008 smaller
    # hard        2   - 1 =  1      -1                  0.5                       1.6487213 larger
    # incorrect   4   - 1 =  3      -3                  1.5                       4.4816891 larger
    values, gradients = visit(criterion, LOSSES, EVERY_SAMPLE)
    assert criterion.k_dyn == close(1.0)
    assert values == close([-0.5, 1.0, 3.0])
    assert gradients == close([1.0, 1.0, 1.0])  # formed with the old delta
    assert weights(criterion) == close([0.7788008, 1.6487213, 4.4816891])

    # The next step passes 1/delta on, larger than 1 for the easy sample only:
    #            1/delta             value = (Avg - 1)/delta     log delta - 0.5 * slope
    # easy       e^0.25 = 1.2840254  -0.5 * 1.2840254 = -0.6420127  -0.25 - 0.3210064 = -0.5710064
    # hard       e^-0.5 = 0.6065307   1   * 0.6065307 =  0.6065307   0.5 + 0.3032653 =  0.8032653
    # incorrect  e^-1.5 = 0.2231302   3   * 0.2231302 =  0.6693905   1.5 + 0.3346952 =  1.8346952
    values, gradients = visit(criterion, LOSSES, EVERY_SAMPLE)
    assert gradients == close([1.2840254, 0.6065307, 0.2231302])
    assert values == close([-0.6420127, 0.6065307, 0.6693905])
    # e^-0.5710064, e^0.8032653, e^1.8346952
    assert weights(criterion) == close([0.5649566, 2.2328199, 6.2632251])


def test_stage_2_easy_and_hard_grow_in_importance_incorrect_shrinks() -> None:
    criterion = make_criterion()
    criterion.set_epoch(STAGE_2_EPOCH)

    # delta = 1 for all:
    #            value = Avg - k2   slope = k2 - Avg   log delta = -0.5 * slope   delta
    # easy        0.5 - 3 = -2.5     2.5               -1.25                      0.2865048 smaller
    # hard        2   - 3 = -1       1                 -0.5                       0.6065307 smaller
    # incorrect   4   - 3 =  1      -1                  0.5                       1.6487213 larger
    values, gradients = visit(criterion, LOSSES, EVERY_SAMPLE)
    assert criterion.k_dyn == close(3.0)
    assert values == close([-2.5, -1.0, 1.0])
    assert gradients == close([1.0, 1.0, 1.0])
    assert weights(criterion) == close([0.2865048, 0.6065307, 1.6487213])

    # 1/delta = e^1.25, e^0.5, e^-0.5: larger, larger, smaller.
    _, gradients = visit(criterion, LOSSES, EVERY_SAMPLE)
    assert gradients == close([3.4903430, 1.6487213, 0.6065307])


def test_a_hard_sample_is_put_off_in_stage_1_and_taken_up_in_stage_2() -> None:
    criterion = make_criterion()
    criterion.set_epoch(STAGE_1_EPOCH)
    visit(criterion, LOSSES, EVERY_SAMPLE)
    after_stage_1 = weights(criterion)  # log delta = -0.25, 0.5, 1.5, as in the first test

    # slope = (3 - Avg) / delta:
    # easy        2.5 * 1.2840254 =  3.2100635   -0.25 - 1.6050318 = -1.8550318   delta 0.1564480
    # hard        1   * 0.6065307 =  0.6065307    0.5  - 0.3032653 =  0.1967347   delta 1.2174210
    # incorrect  -1   * 0.2231302 = -0.2231302    1.5  + 0.1115651 =  1.6115651   delta 5.0106472
    criterion.set_epoch(STAGE_2_EPOCH)
    visit(criterion, LOSSES, EVERY_SAMPLE)
    after_stage_2 = weights(criterion)
    assert after_stage_2 == close([0.1564480, 1.2174210, 5.0106472])

    assert after_stage_1[HARD] > 1.0 > after_stage_1[EASY]
    assert after_stage_2[HARD] < after_stage_1[HARD]
    assert after_stage_2[INCORRECT] > after_stage_1[INCORRECT]


def test_half_way_through_the_switch_the_threshold_stands_half_way() -> None:
    criterion = make_criterion()
    criterion.set_epoch(SWITCH_EPOCH)

    # tanh(0) = 0: k_dyn = (0 + 1 + 1) * 1 = 2, which is exactly the hard sample's loss.
    # log delta: easy -0.5 * (2 - 0.5) = -0.75, hard 0, incorrect -0.5 * (2 - 4) = 1.
    values, _ = visit(criterion, LOSSES, EVERY_SAMPLE)
    assert criterion.k_dyn == close(2.0)
    assert values == close([-1.5, 0.0, 2.0])
    assert weights(criterion) == close([0.4723666, 1.0, 2.7182818])


def test_a_gentle_switch_follows_tanh() -> None:
    criterion = make_criterion(switch_gain=0.25, switch_rate=0.5, switch_epoch=4)

    # e = 2: tanh(0.5 * -2) = tanh(-1) = -0.7615942; (0.25 * -0.7615942 + 1.25) * 1 = 1.0596015
    # e = 6: tanh(0.5 *  2) = tanh( 1) =  0.7615942; (0.25 *  0.7615942 + 1.25) * 1 = 1.4403985
    criterion.set_epoch(2)
    assert criterion.k_dyn == close(1.0596015)
    criterion.set_epoch(6)
    assert criterion.k_dyn == close(1.4403985)


def test_weights_stop_at_the_ends_of_their_range() -> None:
    criterion = make_criterion()
    criterion.set_epoch(STAGE_2_EPOCH)

    # Loss 100: log delta =  0.5 * 97 = 48.5, far above log 20 = 3.0.
    # Loss  -5: log delta = -0.5 * 8  = -4, and e^-4 = 0.018 lies below 0.05.
    visit(criterion, [100.0, -5.0], [0, 1])
    assert weights(criterion) == close([20.0, 0.05, 1.0])  # the third was not visited


def test_regularization_pulls_the_weight_back_to_one() -> None:
    criterion = make_criterion(regularization=0.1)
    criterion.set_epoch(STAGE_1_EPOCH)

    # log 1 = 0, so the first step is the one without regularization: log delta = 0.5.
    visit(criterion, [2.0], [HARD])
    assert weights(criterion)[HARD] == close(1.6487213)

    # value = (2 - 1) * 0.6065307 + 0.1 * 0.5^2 = 0.6065307 + 0.025 = 0.6315307
    # slope = (1 - 2) * 0.6065307 + 2 * 0.1 * 0.5 = -0.6065307 + 0.1 = -0.5065307
    # log delta = 0.5 + 0.5 * 0.5065307 = 0.7532653, delta = 2.1239238
    values, gradients = visit(criterion, [2.0], [HARD])
    assert values == close([0.6315307])
    assert gradients == close([0.6065307])
    assert weights(criterion)[HARD] == close(2.1239238)


# Early suppression.


def test_early_suppression_scales_value_gradient_and_step() -> None:
    criterion = make_criterion(num_samples=5, suppressed_epochs=4)

    # A fresh sample in each epoch, loss 2, k_dyn = 1, delta = 1, so that only ES differs:
    # value = ES * 1, gradient = ES, log delta = 0.5 * ES.
    # e = 1: ES = 1/4, log delta 0.125      e = 2: ES = 2/4, 0.25      e = 3: ES = 3/4, 0.375
    # e = 4: 4 < 4 is false, so ES = 1, 0.5                            e = 5: ES = 1,   0.5
    for epoch, suppression in enumerate([0.25, 0.5, 0.75, 1.0, 1.0], start=1):
        criterion.set_epoch(epoch)
        values, gradients = visit(criterion, [2.0], [epoch - 1])
        assert values == close([suppression])
        assert gradients == close([suppression])
    assert weights(criterion) == close([1.1331485, 1.2840254, 1.4549914, 1.6487213, 1.6487213])


# The history.


def test_history_is_corrected_by_the_visits_of_each_sample() -> None:
    criterion = make_criterion(history_decay=0.9)
    criterion.set_epoch(STAGE_1_EPOCH)

    # First visit:  h = 0.9 * 0 + 0.1 * 2 = 0.2,    Avg = 0.2 / (1 - 0.9) = 2.
    # value = 2 - 1 = 1, log delta = 0.5.
    values, gradients = visit(criterion, [2.0], [HARD])
    assert average(criterion, HARD) == close(2.0)
    assert values == close([1.0])
    assert gradients == close([1.0])

    # Second visit: h = 0.9 * 0.2 + 0.1 * 4 = 0.58, Avg = 0.58 / (1 - 0.81) = 3.0526316.
    # value = 2.0526316 * 0.6065307 = 1.2449840; the gradient is 1/delta, whole, not a tenth of it.
    # log delta = 0.5 + 0.5 * 1.2449840 = 1.1224920, delta = 3.0725011
    values, gradients = visit(criterion, [4.0], [HARD])
    assert average(criterion, HARD) == close(3.0526316)
    assert values == close([1.2449840])
    assert gradients == close([0.6065307])
    assert weights(criterion)[HARD] == close(3.0725011)

    # Third visit, loss 0: h = 0.9 * 0.58 = 0.522, Avg = 0.522 / (1 - 0.729) = 1.9261993: one lucky
    # prediction does not take the sample below k1 = 1, so its weight goes on growing.
    visit(criterion, [0.0], [HARD])
    assert average(criterion, HARD) == close(1.9261993)
    assert weights(criterion)[HARD] > 3.0725011

    # A sample first seen in a late epoch starts at its own loss, not at a fraction of it.
    criterion.set_epoch(STAGE_2_EPOCH)
    visit(criterion, [4.0], [INCORRECT])
    assert average(criterion, INCORRECT) == close(4.0)


# A negative k1, as a robust loss underneath may give.


def test_negative_threshold_still_rises() -> None:
    criterion = make_criterion(threshold=-1.0, switch_gain=0.5)
    between = -0.5  # above k1 = -1, below k2 = -1 + 0.5 * 2 * 1 = 0: a hard sample

    # Stage 1: k_dyn = -1 + 0.5 * 0 * 1 = -1.    value = 0.5,  log delta = -0.5 * -0.5 = 0.25
    criterion.set_epoch(STAGE_1_EPOCH)
    values, _ = visit(criterion, [between], [0])
    assert criterion.k_dyn == close(-1.0)
    assert values == close([0.5])

    # Half way: k_dyn = -1 + 0.5 * 1 * 1 = -0.5. value = 0,    log delta = 0
    criterion.set_epoch(SWITCH_EPOCH)
    values, _ = visit(criterion, [between], [1])
    assert criterion.k_dyn == close(-0.5)
    assert values == close([0.0])

    # Stage 2: k_dyn = -1 + 0.5 * 2 * 1 = 0.     value = -0.5, log delta = -0.5 * 0.5 = -0.25
    criterion.set_epoch(STAGE_2_EPOCH)
    values, _ = visit(criterion, [between], [2])
    assert criterion.k_dyn == close(0.0)
    assert values == close([-0.5])

    assert weights(criterion) == close([1.2840254, 1.0, 0.7788008])


def test_negative_threshold_from_the_losses_themselves() -> None:
    criterion = make_criterion(threshold="ema", switch_gain=0.5)

    # First batch: k1 = (-3 + 1) / 2 = -1, and in stage 1 k_dyn = k1.
    criterion.set_epoch(STAGE_1_EPOCH)
    visit(criterion, [-3.0, 1.0], [0, 1])
    assert criterion.k_dyn == close(-1.0)

    # Second batch: k1 = 0.9 * -1 + 0.1 * -2 = -1.1; half way k_dyn = -1.1 + 0.5 * 1.1 = -0.55.
    criterion.set_epoch(SWITCH_EPOCH)
    visit(criterion, [-2.0], [2])
    assert criterion.k_dyn == close(-0.55)


# The released code.


def test_released_variant_over_two_epochs() -> None:
    criterion = make_criterion(
        num_samples=2,
        variant="released",
        history_decay=0.9,
        suppressed_epochs=2,
        regularization=0.1,
        switch_epoch=1,
    )

    # Epoch 1, both samples. ES = 1/10. tanh(100 * (0 - 1)) = -1, so k_dyn = 1.
    # Avg = 0.1 * l / (1 - 0.9) = l. Gradient factor (1 - 0.9) / (1 - 0.9) = 1.
    # values      0.1 * (2 - 1) = 0.1             0.1 * (0.5 - 1) = -0.05        (log delta = 0)
    # slope / n   -0.1 / 2 = -0.05                0.05 / 2 = 0.025               = first velocity
    # log delta   0.5 * 0.05 = 0.025              -0.5 * 0.025 = -0.0125
    criterion.set_epoch(1)
    values, gradients = visit(criterion, [2.0, 0.5], [0, 1])
    assert criterion.k_dyn == close(1.0)
    assert values == close([0.1, -0.05])
    assert gradients == close([0.1, 0.1])
    assert weights(criterion) == close([1.0253151, 0.9875778])  # e^0.025, e^-0.0125

    # Epoch 1 again, sample 0 alone. h = 0.9 * 0.2 + 0.1 * 1.2 = 0.3. Corrected by the epoch, not by
    # the two visits: Avg = 0.3 / 0.1 = 3, more than either loss. 1/delta = e^-0.025 = 0.9753099.
    # value      0.1 * (3 - 1) * 0.9753099 + 0.5 * 0.1 * 0.025^2 * 1
    #            = 0.1950620 + 0.0000313 = 0.1950932
    # gradient   0.1 * 0.9753099 * 1 = 0.0975310
    # slope / n  (-0.1950620 + 0.1 * 0.025 * 1) / 1 = -0.1925620
    # velocity   0.9 * -0.05 - 0.1925620 = -0.2375620
    # log delta  0.025 + 0.5 * 0.2375620 = 0.1437810, delta = 1.1546312; sample 1 rests
    values, gradients = visit(criterion, [1.2], [0])
    assert average(criterion, 0) == close(3.0)
    assert values == close([0.1950932])
    assert gradients == close([0.0975310])
    assert weights(criterion) == close([1.1546312, 0.9875778])

    # Epoch 2, both. ES = 2/10, because e <= e_s. tanh(100 * (1 - 1)) = 0, so k_dyn = 2.
    # Gradient factor 0.1 / (1 - 0.81) = 0.5263158. n = 2.
    #             sample 0, loss 2                      sample 1, loss 1
    # h           0.27 + 0.2 = 0.47                     0.9 * 0.05 + 0.1 = 0.145
    # Avg         0.47 / 0.19 = 2.4736842               0.145 / 0.19 = 0.7631579
    # 1/delta     e^-0.1437810 = 0.8660774              e^0.0125 = 1.0125785
    # excess      0.2 * 0.4736842 * 0.8660774           0.2 * -1.2368421 * 1.0125785
    #             = 0.0820494                           = -0.2504799
    # penalty     0.05 * 0.1437810^2 * 2 = 0.0020673    0.05 * 0.0125^2 * 2 = 0.0000156
    # value       0.0841167                             -0.2504643
    # gradient    0.2 * 0.8660774 * 0.5263158           0.2 * 1.0125785 * 0.5263158
    #             = 0.0911660                           = 0.1065872
    # slope / n   (-0.0820494 + 0.1*0.1437810*2) / 2    (0.2504799 - 0.1*0.0125*2) / 2
    #             = -0.0266466                          = 0.1239900
    # velocity    0.9 * -0.2375620 - 0.0266466          0.9 * 0.025 + 0.1239900
    #             = -0.2404524                          = 0.1464900
    # log delta   0.1437810 + 0.1202262 = 0.2640072     -0.0125 - 0.0732450 = -0.0857450
    # delta       1.3021376                             0.9178283
    criterion.set_epoch(2)
    values, gradients = visit(criterion, [2.0, 1.0], [0, 1])
    assert criterion.k_dyn == close(2.0)
    assert average(criterion, 0) == close(2.4736842)
    assert average(criterion, 1) == close(0.7631579)
    assert values == close([0.0841167, -0.2504643])
    assert gradients == close([0.0911660, 0.1065872])
    assert weights(criterion) == close([1.3021376, 0.9178283])


def test_released_samples_after_the_first_batch_enter_at_the_lower_bound() -> None:
    # c = log 1.5. ES = 1, k_dyn = 1, Avg = l.
    criterion = make_criterion(variant="released", weight_range=(1.5, 20.0))
    criterion.set_epoch(1)
    # Sample 0 is in the first batch: delta = 1, value 3 - 1 = 2, gradient 1. Its log delta becomes
    # 0.5 * 2 = 1, delta = 2.7182818. The others are clamped once they are in a batch.
    values, gradients = visit(criterion, [3.0], [0])
    assert values == close([2.0])
    assert gradients == close([1.0])
    assert weights(criterion) == close([2.7182818, 1.0, 1.0])
    # Sample 1 enters at delta = 1.5: value 2 / 1.5 = 1.3333333, gradient 1 / 1.5 = 0.6666667.
    values, gradients = visit(criterion, [3.0], [1])
    assert values == close([1.3333333])
    assert gradients == close([0.6666667])


def test_released_regularization_is_summed_while_the_loss_is_averaged() -> None:
    criterion = make_criterion(variant="released", regularization=0.1, reduction="mean")
    criterion.set_epoch(1)
    index = torch.tensor([0, 1])

    # k_dyn = 1, ES = 1, delta = 1. Mean of (3 - 1, 2 - 1) = 1.5.
    # slope / n = -2/2 = -1 and -1/2 = -0.5; log delta = 0.5 and 0.25.
    assert float(criterion(torch.tensor([3.0, 2.0]), index)) == close(1.5)

    # Mean of (2 * 0.6065307, 1 * 0.7788008) = (1.2130613 + 0.7788008) / 2 = 0.9959310
    # plus the sum 0.5 * 0.1 * (0.5^2 + 0.25^2) = 0.05 * 0.3125 = 0.0156250; in all 1.0115560.
    assert float(criterion(torch.tensor([3.0, 2.0]), index)) == close(1.0115560)


def test_released_early_suppression_divides_by_ten_and_includes_its_last_epoch() -> None:
    criterion = make_criterion(variant="released", suppressed_epochs=5)

    # Fresh samples and no history (rho = 0 makes the gradient factor 1): gradient = ES.
    # e = 1: 1/10. e = 5: 5 <= 5, so 5/10; the paper would say 5/5. e = 6: 1.
    for sample, (epoch, suppression) in enumerate([(1, 0.1), (5, 0.5), (6, 1.0)]):
        criterion.set_epoch(epoch)
        _, gradients = visit(criterion, [2.0], [sample])
        assert gradients == close([suppression])


@pytest.mark.parametrize(
    ("variant", "second_k1"),
    [
        # EMA of l: 0.9 * 1.25 + 0.1 * (1 + 1)/2 = 1.125 + 0.1
        ("paper", 1.225),
        # EMA of Avg(l): Avg = 0.28 / 0.19 = 1.4736842 and 0.145 / 0.19 = 0.7631579, whose mean is
        # 1.1184211; 1.125 + 0.1118421
        ("released", 1.2368421),
    ],
)
def test_what_the_moving_threshold_averages(variant: str, second_k1: float) -> None:
    criterion = make_criterion(threshold="ema", history_decay=0.9, variant=variant)

    # Long before the switch k_dyn = k1. First batch: Avg(l) = l, k1 = (2 + 0.5) / 2 = 1.25.
    # h = 0.2 and 0.05, and after a loss of 1 each: 0.18 + 0.1 = 0.28 and 0.045 + 0.1 = 0.145.
    criterion.set_epoch(1)
    visit(criterion, [2.0, 0.5], [0, 1])
    assert criterion.k_dyn == close(1.25)
    criterion.set_epoch(2)
    visit(criterion, [1.0, 1.0], [0, 1])
    assert criterion.k_dyn == close(second_k1)


def test_released_gradient_fades_with_the_epochs() -> None:
    criterion = make_criterion(variant="released", history_decay=0.9)

    # delta = 1 and ES = 1 on each first visit: gradient = 0.1 / (1 - 0.9^e).
    # e = 1: 0.1 / 0.1 = 1. e = 2: 0.1 / 0.19 = 0.5263158. e = 3: 0.1 / 0.271 = 0.3690037.
    for sample, (epoch, gradient) in enumerate([(1, 1.0), (2, 0.5263158), (3, 0.3690037)]):
        criterion.set_epoch(epoch)
        _, gradients = visit(criterion, [2.0], [sample])
        assert gradients == close([gradient])
