"""Tables and texts in tables, as sources of an audit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from discrimloss.auditing.sources.base import AuditSource, SampleView, SourceError, SourceOptions
from discrimloss.auditing.sources.features import standardised
from discrimloss.auditing.sources.image_column import image_column
from discrimloss.auditing.sources.labelled_rows import LabelledRows
from discrimloss.auditing.sources.ngrams import hashed_ngrams
from discrimloss.auditing.sources.rows import Rows
from discrimloss.auditing.sources.table_columns import plan_columns
from discrimloss.auditing.sources.table_features import table_features
from discrimloss.auditing.sources.table_file import open_table_file
from discrimloss.data.base import Inputs, Split, TaskData, TensorInputs
from discrimloss.training.config import ComponentConfig

NO_TEXT = "no text"
LONGEST_SHOWN_TEXT = 20_000
_MANY_TEXTS, _FEW_TEXTS = 50_000, 5_000


def open_table(options: SourceOptions, cache: Path | None = None) -> AuditSource:
    """The source that a table is: images by their paths, texts, or its columns.

    Args:
        options: what a person said.
        cache: see `open_source`.
    """
    rows = open_table_file(Path(options.path))
    if options.text is not None and options.image is not None:
        raise SourceError("--text and --image cannot both be given: an audit learns from one")
    if options.text is not None:
        return TextTable(rows, options)
    column = image_column(rows, options)
    if column is None:
        return Table(rows, options)
    from discrimloss.auditing.sources.image_table import ImageTable

    return ImageTable(rows, replace(options, image=column), cache)


class Table(LabelledRows):
    """Rows whose other columns are learnt from."""

    kind = "table"

    def __init__(self, rows: Rows, options: SourceOptions) -> None:
        options.refuse(("encoder",), "name the column that it is to read, --text or --image")
        super().__init__(rows, options)
        apart = {self.label_column, options.id}
        self._columns = [name for name in rows.columns if name not in apart]
        frame = rows.frame(self._columns).iloc[self.row_numbers]
        self._plan = plan_columns(frame, self.target.numpy())
        self.notes = (*self.notes, *self._plan.notes)

    def task(self, cache: Path) -> TaskData:
        """Scaled numbers and one-hot categories. Nothing is kept in the cache."""
        used = [column.name for column in self._plan.used]
        frame = self.rows.frame(used).iloc[self.row_numbers].reset_index(drop=True)
        features = torch.from_numpy(table_features(frame, self._plan))
        return task_data(self, TensorInputs(features), tuple(features.shape[1:]))

    def model(self) -> ComponentConfig:
        """One hidden layer."""
        return ComponentConfig("mlp")

    def view(self, index: int) -> SampleView:
        """The row, without its label."""
        row = self.rows.row(int(self.row_numbers[index]))
        return SampleView(fields=tuple(field for field in row if field[0] != self.label_column))


class TextTable(LabelledRows):
    """Rows of which one column is a text to learn from."""

    kind = "text"

    def __init__(self, rows: Rows, options: SourceOptions) -> None:
        if options.text is None:
            raise SourceError(f"say which column of {rows.name} holds the texts, --text COLUMN")
        texts = rows.texts(rows.require(options.text, "--text"))
        is_blank = [text is None or not text.strip() for text in texts]
        unusable = {number: NO_TEXT for number, blank in enumerate(is_blank) if blank}
        super().__init__(rows, options, unusable)
        self._texts = [texts[number] or "" for number in self.row_numbers]

    def task(self, cache: Path) -> TaskData:
        """Hashed n-grams, or the features of a frozen encoder, which are kept in the cache."""
        if self.options.encoder is None:
            return task_data(self, hashed_ngrams(self._texts, self._num_buckets), ())
        from discrimloss.auditing.sources.text_features import encoded_texts

        encoded = encoded_texts(self._texts, self.options.encoder, cache, self.fingerprint())
        features = standardised(encoded)
        return task_data(self, TensorInputs(features), tuple(features.shape[1:]))

    def model(self) -> ComponentConfig:
        """A bag of n-grams, or one hidden layer on the features of an encoder."""
        if self.options.encoder is not None:
            return ComponentConfig("mlp")
        return ComponentConfig("ngram_text", {"buckets": self._num_buckets})

    def view(self, index: int) -> SampleView:
        """The text."""
        return SampleView(text=self._texts[index][:LONGEST_SHOWN_TEXT])

    @property
    def _num_buckets(self) -> int:
        """Every step moves all vectors: not more of them than the texts have use for."""
        if len(self) <= _FEW_TEXTS:
            return 2**15
        return 2**16 if len(self) <= _MANY_TEXTS else 2**17


def task_data(source: AuditSource, inputs: Inputs, input_shape: tuple[int, ...]) -> TaskData:
    """The samples of a source with the inputs they were given."""
    return TaskData(
        train=Split(inputs, source.target),
        test=None,
        num_classes=len(source.class_names) or None,
        input_shape=input_shape,
        class_names=source.class_names,
        notes=source.notes,
        train_labels_are_clean=False,
    )
