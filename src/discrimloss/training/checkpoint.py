"""Checkpoints that are complete or absent.

A checkpoint is written next to the old one, with a manifest of its files, sizes and checksums. It
replaces the old one only when it is complete.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from discrimloss.errors import DiscrimLossError
from discrimloss.files.checksums import fingerprint
from discrimloss.training.run_directory import CHECKPOINT, OLD, UNFINISHED, RunDirectory

MANIFEST = "progress.json"


def save_checkpoint(
    accelerator: Accelerator, directory: RunDirectory, progress: dict[str, Any]
) -> None:
    """Write models, optimizers, sample state, generators and `progress`, in all processes."""
    unfinished = directory / (CHECKPOINT + UNFINISHED)
    try:
        if accelerator.is_main_process:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
        accelerator.wait_for_everyone()
        accelerator.save_state(str(unfinished))
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            _write_manifest(unfinished, progress)
            _swap_in(directory)
        accelerator.wait_for_everyone()
    except Exception as error:  # torch, safetensors and the system raise different errors
        if accelerator.is_main_process:
            shutil.rmtree(unfinished, ignore_errors=True)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason = reason.strip().partition("\n")[0].rstrip(".")
        raise DiscrimLossError(
            f"cannot write a checkpoint to {directory.path} ({reason}): "
            "make room there, then continue with --resume"
        ) from error


def find_checkpoint(directory: RunDirectory) -> Path | None:
    """Return the last complete checkpoint, even if the run was killed during its replacement."""
    current, old = directory / CHECKPOINT, directory / (CHECKPOINT + OLD)
    if current.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.exists():
        old.replace(current)
    return current if current.exists() else None


def read_progress(checkpoint: Path) -> dict[str, Any]:
    """Check every file of the checkpoint, and return the progress of the run."""
    try:
        text = (checkpoint / MANIFEST).read_text(encoding="utf-8")
        manifest = json.loads(text)
        progress: dict[str, Any] = manifest["progress"]
        expected = manifest["files"]
        # Compared as text, because a changed last digit of a number may not change its value.
        is_intact = text == _manifest_text(progress, expected)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is damaged"
        raise _unreadable(checkpoint / MANIFEST, reason or str(error)) from error
    if not is_intact:
        raise _unreadable(checkpoint / MANIFEST, "its contents have changed")
    for name, recorded in expected.items():
        try:
            found = fingerprint(checkpoint / name)
        except OSError as error:
            raise _unreadable(checkpoint / name, error.strerror or str(error)) from error
        if found != recorded:
            raise _unreadable(checkpoint / name, "its contents have changed")
    return progress


def load_checkpoint(accelerator: Accelerator, checkpoint: Path) -> None:
    """Restore models, optimizers, sample state and generators."""
    try:
        accelerator.load_state(str(checkpoint))
    except DiscrimLossError:  # an error of a recorder about its files
        raise
    except Exception as error:  # torch, safetensors and pickle raise different errors
        raise _unreadable(checkpoint, str(error).strip().partition("\n")[0]) from error


def _unreadable(path: Path, reason: str) -> DiscrimLossError:
    return DiscrimLossError(
        f"cannot read the checkpoint {path} ({reason}): "
        "start over with --overwrite, or in another directory"
    )


def _write_manifest(checkpoint: Path, progress: dict[str, Any]) -> None:
    files = {file.name: fingerprint(file) for file in sorted(checkpoint.iterdir())}
    (checkpoint / MANIFEST).write_text(_manifest_text(progress, files), encoding="utf-8")
    for path in (*checkpoint.iterdir(), checkpoint):  # flush before the old one is removed
        _flush(path)


def _manifest_text(progress: dict[str, Any], files: dict[str, list[int]]) -> str:
    checksum = zlib.crc32(json.dumps([progress, files]).encode())
    manifest = {"progress": progress, "files": files, "checksum": checksum}
    return json.dumps(manifest, indent=1) + "\n"


def _swap_in(directory: RunDirectory) -> None:
    current, old = directory / CHECKPOINT, directory / (CHECKPOINT + OLD)
    shutil.rmtree(old, ignore_errors=True)
    if current.exists():
        current.replace(old)
    (directory / (CHECKPOINT + UNFINISHED)).replace(current)
    shutil.rmtree(old, ignore_errors=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # not all systems can flush directories
        if not path.is_dir():
            raise
    finally:
        os.close(descriptor)
