"""Ways to learn from labels that cannot be fully trusted, all for the same training loop."""

from discrimloss.training.methods.base import Batch, Method, Setting, StepResult, methods

__all__ = ["Batch", "Method", "Setting", "StepResult", "methods"]
