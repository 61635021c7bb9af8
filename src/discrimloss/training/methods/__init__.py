"""Methods of the training harness: networks and a training step that the same loop can run."""

from discrimloss.training.methods.base import Batch, Method, Setting, StepResult, methods

__all__ = ["Batch", "Method", "Setting", "StepResult", "methods"]
