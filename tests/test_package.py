"""Imports and public names, the files of a step, memory per sample, and no waiting in a step."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import discrimloss
from discrimloss import DiscrimLoss
from discrimloss._moved import MOVED

both_variants = pytest.mark.parametrize("variant", ["paper", "released"])


# Imports and names.


def modules_after(statement: str) -> set[str]:
    """Names in `sys.modules` of a fresh interpreter that ran `statement`."""
    source = Path(discrimloss.__file__).parents[1]
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(finished.stdout.split())


def top_level(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


STEP = """
import torch
from discrimloss import DiscrimLoss
criterion = DiscrimLoss(4, epochs=2)
criterion(torch.ones(4, requires_grad=True), torch.arange(4)).backward()
criterion.verdicts()
"""


def test_importing_needs_torch_and_numpy_only() -> None:
    allowed = top_level(modules_after("import torch, numpy"))
    imported = top_level(modules_after("import discrimloss"))
    assert "discrimloss" in imported
    assert imported - allowed - sys.stdlib_module_names == {"discrimloss"}


def test_who_does_not_compile_does_not_wait_for_the_compiler() -> None:
    assert "torch._dynamo" not in modules_after(STEP)  # it takes as long to import as torch


def test_public_names_are_sorted_and_exist() -> None:
    assert discrimloss.__all__ == sorted(discrimloss.__all__)
    assert "DiscrimLoss" in discrimloss.__all__
    missing = [name for name in discrimloss.__all__ if not hasattr(discrimloss, name)]
    assert missing == []


@pytest.mark.parametrize(("old", "new"), sorted(MOVED.items()))
def test_a_module_of_0_1_still_imports_under_its_old_name(old: str, new: str) -> None:
    expected = pytest.importorskip(new, exc_type=ImportError)  # some need an extra
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
        assert importlib.import_module(old) is expected


# How much there is to read.


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_batch_goes_through_few_files(epoch: int) -> None:
    criterion = DiscrimLoss(8, epochs=10)
    losses, index = torch.rand(8, requires_grad=True), torch.arange(8)
    criterion(losses, index)
    criterion.set_epoch(epoch)
    package = Path(discrimloss.__file__).parent
    files: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(package):
            files.add(path.relative_to(package).as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        criterion(losses, index)
    finally:
        sys.setprofile(before)
    assert files == {
        *(
            "loss.py",
            "given_batch.py",
            "batch_visit.py",
            "reduction.py",
            "visits.py",
            "functional.py",
            "run_watch.py",
        ),
        *("state/batch_checks.py", "state/exchange.py", "state/processes.py"),
    }
    assert sum(len((package / file).read_text().splitlines()) for file in files) < 1800


# Memory.


@both_variants
def test_a_sample_takes_at_most_16_bytes(variant: Any) -> None:
    def bytes_of_state(num_samples: int) -> int:
        criterion = DiscrimLoss(num_samples, epochs=10, variant=variant)
        return sum(tensor.nbytes for tensor in criterion.state_dict().values())

    added = bytes_of_state(2000) - bytes_of_state(1000)
    assert 0 < added <= 16 * 1000


# Waiting. On a GPU the host runs ahead of the device until it asks for a value.

aten = torch.ops.aten

# Operators whose result, or whose shape, the host must wait for.
WAITING = {
    aten._local_scalar_dense,
    aten.item,
    aten.is_nonzero,
    aten.equal,
    aten.nonzero,
    aten.masked_select,
    aten.bincount,
    aten._unique2,
    aten.unique_dim,
    aten.unique_consecutive,
}
INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}


class HostWaitError(Exception):
    pass


class NoHostWait(TorchDispatchMode):
    """Fails where the host would wait for the device."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        operator = func.overloadpacket
        copies_to_host = operator is aten._to_copy and (
            kwargs.get("device") == torch.device("cpu") and args[0].device.type != "cpu"
        )
        masked = operator in INDEXING and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        if operator in WAITING or copies_to_host or masked:
            raise HostWaitError(str(func))
        return func(*args, **kwargs)


def test_the_watch_notices_a_wait() -> None:
    values = torch.arange(3)
    for waits in (
        lambda: values.sum().item(),
        lambda: bool(values.any()),
        lambda: values[values > 1],
        lambda: values.unique(),
        lambda: torch.empty(3, device="meta").cpu(),
    ):
        with NoHostWait(), pytest.raises(HostWaitError):
            waits()


@both_variants
@pytest.mark.parametrize("threshold", ["bounded_split", "split", "ema", "mean", 0.7])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_step_never_waits_for_the_device(
    variant: Any, threshold: Any, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What reads values does so on the CPU only.
    monkeypatch.setattr("discrimloss.state.exchange.checked_index", lambda index, _: index)
    monkeypatch.setattr("discrimloss.visits.can_look_at", lambda values: False)
    criterion = DiscrimLoss(
        8, epochs=10, variant=variant, threshold=threshold, regularization=0.1
    ).to(device)
    for dtype in (torch.float32, torch.float16):
        losses = torch.ones(5, device=device, dtype=dtype, requires_grad=True)
        index = torch.zeros(5, device=device, dtype=torch.int64)
        with NoHostWait():
            criterion(losses, index).backward()
        assert losses.grad is not None
        assert losses.grad.device.type == device
