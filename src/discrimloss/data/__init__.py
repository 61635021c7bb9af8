"""Datasets in the layouts their publishers ship, and label noise.

>>> from discrimloss.data import datasets
>>> "mnist" in datasets.names()
True
"""

from discrimloss.data.base import DataError, Inputs, Split, TaskData, TensorInputs, datasets

__all__ = ["DataError", "Inputs", "Split", "TaskData", "TensorInputs", "datasets"]
