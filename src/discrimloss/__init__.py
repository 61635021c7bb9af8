"""DiscrimLoss: train on labels you cannot fully trust, and find the wrong ones on the way."""

from discrimloss._version import __version__
from discrimloss.indexed_dataset import IndexedDataset
from discrimloss.loss import DiscrimLoss
from discrimloss.sample_ids import SampleIds
from discrimloss.verdicts import Verdicts

__all__ = ["DiscrimLoss", "IndexedDataset", "SampleIds", "Verdicts", "__version__"]
