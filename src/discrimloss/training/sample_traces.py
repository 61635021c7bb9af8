"""Traces: the loss, the weight and the prediction of every sample in every epoch.

There is a file for each epoch with a column for each value, at most six bytes per sample. That is
small compared with the data, and enough to plot losses and weights over a run. Values have three
significant digits (bfloat16).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.files.atomic_write import atomic_write
from discrimloss.files.checksums import Fingerprint, fingerprint, require_fingerprint
from discrimloss.state.processes import Processes
from discrimloss.training.run_directory import TRACES

if TYPE_CHECKING:  # at run time, this import would load torch's compiler
    from discrimloss.training.methods.base import Method, StepResult

FILE = re.compile(r"epoch-(\d+)\.safetensors")
Column = npt.NDArray[np.float32]
START_OVER = "restore the file, or start over with --overwrite"


class StepRecorder(Protocol):
    """Records losses and outputs of samples during a run. Its state is in the checkpoint."""

    def record_step(self, epoch: int, index: Tensor, result: StepResult) -> None:
        """Called after every step."""

    def share(self) -> None:
        """Exchange the records between processes. All processes call it."""

    def end_epoch(self, epoch: int, method: Method, *, is_main_process: bool) -> None:
        """Called at the end of every epoch, in all processes."""

    def record_final(self, index: Tensor, output: Tensor) -> None:
        """Called after the last epoch with the final outputs of some training samples."""

    def finish(self, method: Method) -> None:
        """Called last, in the main process, before the run counts as finished."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state for the checkpoint."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state from a checkpoint."""


class SampleTraces:
    """Records every step of an epoch, and writes a file when the epoch ends.

    The loss of a sample without a visit in the epoch is NaN. If a sample is visited several times,
    the last visit counts.

    Args:
        num_samples: number of training samples.
        num_classes: number of classes; None for regression.
        directory: directory of the run; None keeps all epochs in memory.
        device: device of the training, so that recording does not synchronise with the host.
    """

    def __init__(
        self,
        num_samples: int,
        num_classes: int | None,
        directory: Path | None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.directory = None if directory is None else directory / TRACES
        self.epochs: dict[int, dict[str, Tensor]] = {}
        """The columns of each epoch, if they are kept in memory. See `stack_traces`."""
        self._written: dict[str, Fingerprint] = {}
        """The files of finished epochs, with their checksums."""
        self._class_type = torch.uint8 if (num_classes or 0) <= 256 else torch.int32
        self._is_regression = num_classes is None
        self._columns = {
            name: torch.full((num_samples,), torch.nan, device=device)
            for name in ("loss", "predicted")
        }

    def record_step(self, epoch: int, index: Tensor, result: StepResult) -> None:
        """Record the losses and predictions of a batch."""
        output = result.output
        predicted = output if self._is_regression else output.argmax(1)
        self._columns["loss"][index] = result.losses.float()
        self._columns["predicted"][index] = predicted.float()

    def share(self) -> None:
        """Exchange the records between processes. All processes call it."""
        processes = Processes()
        if processes.count == 1:
            return
        for column in self._columns.values():
            seen = processes.total((~column.isnan()).int())
            total = processes.total(column.nan_to_num())
            # A sample visited by two processes gets the mean.
            column.copy_(torch.where(seen > 0, total / seen.clamp(min=1), torch.nan))

    def end_epoch(self, epoch: int, method: Method, *, is_main_process: bool) -> None:
        """Write the file of the epoch, and clear the columns for the next."""
        self.share()
        if is_main_process:
            self._write(epoch, method.sample_scores())
        for column in self._columns.values():
            column.fill_(torch.nan)

    def record_final(self, index: Tensor, output: Tensor) -> None:
        """Do nothing: traces end with the last epoch."""

    def finish(self, method: Method) -> None:
        """Do nothing."""

    def _write(self, epoch: int, weights: Tensor | None) -> None:
        columns = {"loss": self._columns["loss"].bfloat16()}
        if weights is not None:
            columns["weight"] = weights.detach().bfloat16()
        columns["predicted"] = self._predicted()
        columns = {name: column.cpu() for name, column in columns.items()}
        if self.directory is None:
            self.epochs[epoch] = columns
            return
        from safetensors.torch import save_file

        self.directory.mkdir(exist_ok=True)
        path = self.directory / f"epoch-{epoch:05d}.safetensors"
        with atomic_write(path) as unfinished:
            save_file(columns, unfinished)
        self._written[path.name] = fingerprint(path)

    def state_dict(self) -> dict[str, Any]:
        """Return the columns of the current epoch, and the checksums of earlier epochs' files."""
        columns: dict[str, Any] = {name: c.clone() for name, c in self._columns.items()}
        return {**columns, "written": dict(self._written)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the columns in the middle of an epoch.

        Raises:
            DiscrimLossError: a file of an earlier epoch is damaged or missing.
        """
        self._written = dict(state.get("written") or {})  # missing in earlier versions
        if self.directory is not None:
            for name, found in self._written.items():
                require_fingerprint(self.directory / name, found, START_OVER)
        for name, column in self._columns.items():
            column.copy_(state[name])

    def _predicted(self) -> Tensor:
        predicted = self._columns["predicted"]
        if self._is_regression:
            return predicted.bfloat16()
        return predicted.nan_to_num().to(self._class_type)  # the loss is NaN for unseen samples


@dataclass(frozen=True)
class Traces:
    """The traces of a run so far."""

    epochs: npt.NDArray[np.int64]
    """Shape (epochs,): the epochs, from 1, in order."""
    loss: Column
    """Shape (epochs, samples): the losses. NaN if an epoch did not visit a sample."""
    weight: Column | None
    """Shape (epochs, samples), at the end of each epoch: the method's score of a sample, higher for
    a less trusted label; for DiscrimLoss its ``delta``. None for a method without scores."""
    predicted: Column
    """Shape (epochs, samples): the predicted class or regression value at the visit."""


def read_traces(
    run: Path, chosen: npt.NDArray[np.int64] | None = None, last: int | None = None
) -> Traces | None:
    """Return the traces of a run, or None if it has none.

    Args:
        run: the directory of the run.
        chosen: indices of the samples to read. By default all.
        last: number of last epochs to read. By default all.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = run / TRACES
    numbered = [(FILE.fullmatch(f.name), f) for f in folder.iterdir()] if folder.is_dir() else []
    files = sorted((int(match[1]), file) for match, file in numbered if match is not None)
    files = files if last is None else files[-last:]

    def load_epochs() -> Iterator[tuple[int, dict[str, Tensor]]]:
        for number, file in files:
            try:
                yield number, load_file(file)
            except SafetensorError as error:
                raise ValueError(f"cannot read {file} ({error}): remove it") from error

    return stack_traces(load_epochs(), chosen)


def stack_traces(
    epochs: Iterable[tuple[int, dict[str, Tensor]]], chosen: npt.NDArray[np.int64] | None = None
) -> Traces | None:
    """Return traces from the columns of each epoch, or None if there is no epoch.

    Args:
        epochs: number and columns of each epoch, in order.
        chosen: indices of the samples to read. By default all.
    """
    wanted = slice(None) if chosen is None else torch.from_numpy(chosen)
    numbers, rows = [], []
    for number, columns in epochs:
        numbers.append(number)
        rows.append({name: column[wanted].float().numpy() for name, column in columns.items()})
    if not rows:
        return None
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    predicted = np.where(np.isnan(stacked["loss"]), np.nan, stacked["predicted"])
    predicted = predicted.astype(np.float32)
    return Traces(np.array(numbers), stacked["loss"], stacked.get("weight"), predicted)
