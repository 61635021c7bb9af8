"""Losses for training on noisy labels. Each method is a `torch.nn.Module` for any training loop.

All losses are called as ``criterion(logits, target, index)``. They are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discrimloss.losses.active_passive_loss import ActivePassiveLoss as ActivePassiveLoss
    from discrimloss.losses.backward_correction import BackwardCorrection as BackwardCorrection
    from discrimloss.losses.bootstrapping import Bootstrapping as Bootstrapping
    from discrimloss.losses.cores import CORES as CORES
    from discrimloss.losses.cross_entropy import CrossEntropy as CrossEntropy
    from discrimloss.losses.curriculum_loss import CurriculumLoss as CurriculumLoss
    from discrimloss.losses.data_parameters import DataParameters as DataParameters
    from discrimloss.losses.discrimloss_on import DiscrimLossOn as DiscrimLossOn
    from discrimloss.losses.early_learning_regularization import (
        EarlyLearningRegularization as EarlyLearningRegularization,
    )
    from discrimloss.losses.forward_correction import ForwardCorrection as ForwardCorrection
    from discrimloss.losses.generalized_cross_entropy import (
        GeneralizedCrossEntropy as GeneralizedCrossEntropy,
    )
    from discrimloss.losses.label_smoothing import LabelSmoothing as LabelSmoothing
    from discrimloss.losses.mentornet import MentorNet as MentorNet
    from discrimloss.losses.peer_loss import PeerLoss as PeerLoss
    from discrimloss.losses.self_adaptive_training import (
        SelfAdaptiveTraining as SelfAdaptiveTraining,
    )
    from discrimloss.losses.self_paced import SelfPacedLearning as SelfPacedLearning
    from discrimloss.losses.sparse_over_parameterization import (
        SparseOverParameterization as SparseOverParameterization,
    )
    from discrimloss.losses.stochastic_label_noise import (
        StochasticLabelNoise as StochasticLabelNoise,
    )
    from discrimloss.losses.superloss import SuperLoss as SuperLoss
    from discrimloss.losses.superloss_discrimloss import (
        SuperLossDiscrimLoss as SuperLossDiscrimLoss,
    )
    from discrimloss.losses.symmetric_cross_entropy import (
        SymmetricCrossEntropy as SymmetricCrossEntropy,
    )

    __all__: list[str]


def _classes() -> dict[str, Any]:
    """Return all registered losses by class name."""
    from discrimloss.losses.base import loss_classes

    return {loss.__name__: loss for loss in map(loss_classes.get, loss_classes.names())}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted(_classes())
    # Only class names begin with a capital. Looking up a module must not import all losses.
    if not name[:1].isupper() or name not in (classes := _classes()):
        raise AttributeError(f"module 'discrimloss.losses' has no attribute {name!r}")
    return classes[name]


def __dir__() -> list[str]:
    return sorted(_classes())
