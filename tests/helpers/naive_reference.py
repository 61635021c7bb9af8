"""DiscrimLoss written a second time, as plainly as possible, to check the real one against.

Only Python floats and loops over samples: slow and obvious on purpose. It was written from the
paper and the specification, without looking at the package, so an agreement means something.
"""

import math

Threshold = str | float

THRESHOLD_DECAY = 0.9
RELEASED_MOMENTUM = 0.9


class NaiveDiscrimLoss:
    """`L_i = ES * (Avg(l_i) - k_dyn) / delta_i + lambda * (log delta_i)^2`, one sample at a time.

    `k1` can be assigned, to inject a threshold. It is nan until the first batch has set it.
    """

    def __init__(
        self,
        num_samples: int,
        *,
        threshold: Threshold,
        switch_gain: float,
        switch_rate: float,
        switch_epoch: float,
        suppressed_epochs: float,
        regularization: float,
        history_decay: float,
        weight_lr: float,
        weight_range: tuple[float, float],
        variant: str = "paper",
    ) -> None:
        if isinstance(threshold, str) and threshold not in (
            "ema",
            "mean",
            "split",
            "bounded_split",
        ):
            raise ValueError(f"unknown threshold {threshold!r}")
        if variant not in ("paper", "released"):
            raise ValueError(f"unknown variant {variant!r}")
        self.threshold = threshold
        self.switch_gain = switch_gain
        self.switch_rate = switch_rate
        self.switch_epoch = switch_epoch
        self.suppressed_epochs = suppressed_epochs
        self.regularization = regularization
        self.history_decay = history_decay
        self.weight_lr = weight_lr
        self.lowest_log_delta = math.log(weight_range[0])
        self.highest_log_delta = math.log(weight_range[1])
        self.released = variant == "released"

        self.epoch = 1
        self.k1 = math.nan if isinstance(threshold, str) else float(threshold)
        self.visits_in_k1 = 0  # how many sample visits the running mean has seen
        self.k1_comes_from_split = False
        self.history = [0.0] * num_samples
        self.visits = [0] * num_samples
        self.average = [math.nan] * num_samples  # Avg(l) as of the sample's last visit
        self.log_delta = [0.0] * num_samples
        self.velocity = [0.0] * num_samples  # used by the released variant only

    @property
    def delta(self) -> list[float]:
        return [math.exp(log_delta) for log_delta in self.log_delta]

    @property
    def k_dyn(self) -> float:
        # Released: the code counts epochs from 0, so its switch comes one epoch later.
        epoch = self.epoch - 1 if self.released else self.epoch
        rise = self.switch_gain * (math.tanh(self.switch_rate * (epoch - self.switch_epoch)) + 1.0)
        # abs: with a negative k1 the paper's product would make the threshold fall.
        return self.k1 + rise * abs(self.k1)

    @property
    def early_suppression(self) -> float:
        if self.released:
            # Released: divides by a fixed 10, whatever e_s is, and still suppresses epoch e_s.
            return self.epoch / 10.0 if self.epoch <= self.suppressed_epochs else 1.0
        if self.epoch < self.suppressed_epochs:
            return self.epoch / self.suppressed_epochs
        return 1.0

    def set_epoch(self, epoch: int) -> None:
        """Epochs count from 1."""
        is_later = epoch > self.epoch
        self.epoch = epoch
        visited = [a for a, visits in zip(self.average, self.visits, strict=True) if visits > 0]
        if self.threshold in ("split", "bounded_split") and is_later and visited:
            self.k1 = best_split(visited, otherwise=self.k1)
            self.k1_comes_from_split = True

    def step(self, losses: list[float], index: list[int]) -> tuple[list[float], list[float]]:
        """Value and `dL/dl` of each row; moves the state."""
        visited = mean_loss_of_each_sample(losses, index)
        own = list(self.log_delta)
        if self.released and any(self.visits):  # Released: all weights are clamped in every step.
            self.log_delta = [
                min(max(each, self.lowest_log_delta), self.highest_log_delta) for each in own
            ]
        for sample, loss in visited.items():
            self._remember(sample, loss)
        if visited:
            self._move_k1(visited)

        # The loss is formed with the old delta, so the rows are answered before the weights move.
        values = []
        model_gradients = []
        for loss, sample in zip(losses, index, strict=True):
            is_finite = math.isfinite(loss)
            values.append(self._value(sample, len(visited)) if is_finite else math.nan)
            model_gradients.append(self._model_gradient(sample))

        for sample in visited:
            self._move_weight(sample, len(visited))
        for sample in set(range(len(own))) - set(visited):  # Ours: clamped when it is in a batch.
            self.log_delta[sample] = own[sample]
        return values, model_gradients

    def _remember(self, sample: int, loss: float) -> None:
        rho = self.history_decay
        self.history[sample] = rho * self.history[sample] + (1.0 - rho) * loss
        self.visits[sample] += 1
        # Released: corrects by the epoch, as if every sample were seen exactly once in each.
        updates = self.epoch if self.released else self.visits[sample]
        self.average[sample] = self.history[sample] / (1.0 - rho**updates)

    def _move_k1(self, visited: dict[int, float]) -> None:
        if not isinstance(self.threshold, str) or self.k1_comes_from_split:
            return
        # Released: follows the smoothed losses, because the code replaces l by Avg(l) beforehand.
        observed = [self.average[i] if self.released else loss for i, loss in visited.items()]
        if math.isnan(self.k1):
            self.k1 = sum(observed) / len(observed)
        elif self.threshold == "mean":
            # Weighted by visits: a short last batch must not count as much as a full one.
            total = self.k1 * self.visits_in_k1 + sum(observed)
            self.k1 = total / (self.visits_in_k1 + len(observed))
        else:
            batch_mean = sum(observed) / len(observed)
            self.k1 = THRESHOLD_DECAY * self.k1 + (1.0 - THRESHOLD_DECAY) * batch_mean
        self.visits_in_k1 += len(observed)

    def _value(self, sample: int, batch_size: int) -> float:
        log_delta = self.log_delta[sample]
        excess = self.early_suppression * (self.average[sample] - self.k_dyn)
        penalty = self.regularization * log_delta**2
        if self.released:
            # Released: half of the square, and summed over the batch while the rest is averaged,
            # so that under reduction "mean" each row carries its penalty batch_size times.
            penalty *= 0.5 * batch_size
        return excess / math.exp(log_delta) + penalty

    def _model_gradient(self, sample: int) -> float:
        gradient = self.early_suppression / math.exp(self.log_delta[sample])
        if self.released:
            # Released: differentiates Avg(l) = h / (1 - rho^e) through h, instead of passing the
            # derivative of l on: a learning-rate decay that nobody asked for.
            rho = self.history_decay
            gradient *= (1.0 - rho) / (1.0 - rho**self.epoch)
        return gradient

    def _move_weight(self, sample: int, batch_size: int) -> None:
        log_delta = self.log_delta[sample]
        delta = math.exp(log_delta)
        excess = self.early_suppression * (self.average[sample] - self.k_dyn)
        if self.released:
            penalty_gradient = self.regularization * log_delta * batch_size
            # Released: the optimizer of log delta sees the batch mean, so its step shrinks as the
            # batch grows; its momentum is kept per sample and rests while the sample is away.
            gradient = (-excess / delta + penalty_gradient) / batch_size
            self.velocity[sample] = RELEASED_MOMENTUM * self.velocity[sample] + gradient
            descent = self.velocity[sample]
        else:
            gradient_of_delta = -excess / delta**2 + 2.0 * self.regularization * log_delta / delta
            descent = delta * gradient_of_delta
        moved = log_delta - self.weight_lr * descent
        self.log_delta[sample] = min(max(moved, self.lowest_log_delta), self.highest_log_delta)


def mean_loss_of_each_sample(losses: list[float], index: list[int]) -> dict[int, float]:
    """Samples of the batch with a finite loss; rows of the same sample are one visit."""
    rows: dict[int, list[float]] = {}
    for loss, sample in zip(losses, index, strict=True):
        if math.isfinite(loss):
            rows.setdefault(sample, []).append(loss)
    return {sample: sum(own) / len(own) for sample, own in rows.items()}


def best_split(values: list[float], *, otherwise: float) -> float:
    """Otsu's threshold, exactly: tries every cut between two distinct sorted values.

    `otherwise` is the answer where all values are equal and there is nothing to cut.
    """
    ordered = sorted(values)
    best_variance = -math.inf
    best_threshold = otherwise
    for cut in range(1, len(ordered)):
        below, above = ordered[:cut], ordered[cut:]
        if below[-1] == above[0]:
            continue
        distance = sum(above) / len(above) - sum(below) / len(below)
        variance_between = len(below) * len(above) * distance**2
        if variance_between > best_variance:
            best_variance = variance_between
            best_threshold = (below[-1] + above[0]) / 2.0
    return best_threshold
