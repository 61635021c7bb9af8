"""Texts as bags of hashed n-grams."""

from __future__ import annotations

from torch import Tensor, nn

from discrimloss.models.base import TaskShape, models
from discrimloss.models.layers import TaskOutput


@models.register("ngram_text")
class NgramText(nn.Module):
    """A linear layer on the weighted sum of n-gram vectors: small, and fast on a CPU.

    Args:
        shape: shape of the task.
        buckets: number of hash buckets of the n-grams.
        dim: size of an n-gram's vector.
    """

    def __init__(self, shape: TaskShape, *, buckets: int = 2**16, dim: int = 64) -> None:
        super().__init__()
        if shape.input_shape:
            raise ValueError("ngram_text reads texts; this dataset has numbers as inputs")
        for name, size in {"buckets": buckets, "dim": dim}.items():
            if size < 1:
                raise ValueError(f"{name} must be 1 or more, not {size}")
        # Random vectors of this length roughly preserve the distances between bags of n-grams.
        self.vectors = nn.EmbeddingBag(buckets, dim, mode="sum")
        nn.init.normal_(self.vectors.weight, std=dim**-0.5)
        self.head = nn.Linear(dim, shape.num_outputs)
        self.output = TaskOutput(shape)

    def forward(self, ngrams: dict[str, Tensor]) -> Tensor:
        """Map the n-grams of a batch to (batch, classes), or to (batch,) for regression.

        Args:
            ngrams: ``ids`` and ``weights`` of the n-grams of all texts, concatenated, and
                ``offsets``, the position of each text's first n-gram.
        """
        texts = self.vectors(ngrams["ids"], ngrams["offsets"], per_sample_weights=ngrams["weights"])
        prediction: Tensor = self.output(self.head(texts))
        return prediction
