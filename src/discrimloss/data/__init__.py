"""Datasets in the layouts their publishers ship, and label noise.

>>> from discrimloss.data import datasets
>>> "mnist" in datasets.names()
True
"""

from discrimloss.data.base import DataError, Inputs, Part, TaskData, TensorInputs, datasets

__all__ = ["DataError", "Inputs", "Part", "TaskData", "TensorInputs", "datasets"]
