"""The models of the paper, and a few small ones."""

from discrimloss.models.base import TaskShape, models

__all__ = ["TaskShape", "models"]
