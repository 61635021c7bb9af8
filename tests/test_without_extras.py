"""The core needs torch and numpy only; whatever needs more says which extra to install.

`make core`, a part of `make test`, runs this and the other tests of the core in an environment
where the extras are not there.
"""

import os
import re
import subprocess
import sys
from importlib.metadata import distributions, requires
from pathlib import Path

import pytest

import discrimloss

ROOT = Path(__file__).parents[1]
without_extras = pytest.mark.skipif(
    os.environ.get("DISCRIMLOSS_WITHOUT_EXTRAS") != "1",
    reason="extras may be installed here; `make core` runs where they are not",
)

TRAINING = """
import torch
from discrimloss import DiscrimLoss, IndexedDataset, SampleIds
for criterion, names in (
    (DiscrimLoss(4, epochs=3), torch.arange(4)),
    (DiscrimLoss(epochs=3, ids=SampleIds()), list("abcd")),
):
    for epoch in (1, 2, 3):
        criterion.set_epoch(epoch)
        losses = torch.tensor([0.1, 0.2, 0.3, 4.0], requires_grad=True)
        criterion(losses, names).backward()
    again = {"num_samples": 4} if criterion.ids is None else {"ids": SampleIds()}
    copy = DiscrimLoss(epochs=3, **again)
    copy.load_state_dict(criterion.state_dict())
    assert len(copy.verdicts()) == 4
assert IndexedDataset("ab")[1] == ("b", 1)
import discrimloss.interop.fiftyone, discrimloss.interop.label_studio
"""

VERDICTS = "import discrimloss; discrimloss.DiscrimLoss(2, epochs=1).verdicts()"
NEEDS_EXTRA = {
    "import discrimloss.integrations.transformers": "transformers",
    "import discrimloss.integrations.lightning": "lightning",
    "import discrimloss.integrations.skorch": "skorch",
    "import discrimloss.state.file": "safetensors",
    f"{VERDICTS}.to_pandas()": "pandas",
    f"{VERDICTS}.to_cleanlab([0, 1])": "pandas",
    "from discrimloss.cli import main; sys.exit(main())": "cli",
}


def run(program: str, without: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a program, for which some libraries are not there even if they are."""
    hide = f"import sys\nfor name in {without!r}: sys.modules[name] = None\n"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", hide + program],
        env=os.environ | {"PYTHONPATH": str(Path(discrimloss.__file__).parents[1])},
        capture_output=True,
        text=True,
    )


@without_extras
def test_the_core_works() -> None:
    ended = run(TRAINING)
    assert ended.returncode == 0, ended.stderr


@without_extras
@pytest.mark.parametrize(("program", "extra"), NEEDS_EXTRA.items())
def test_whatever_needs_more_says_which_extra(program: str, extra: str) -> None:
    ended = run(program)
    assert ended.returncode != 0
    last_line = ended.stderr.strip().splitlines()[-1]
    assert f"pip install 'discrimloss[{extra}]'" in last_line


def declared_extras() -> dict[str, list[str]]:
    if sys.version_info < (3, 11):
        pytest.skip("tomllib came with Python 3.11")
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return extras


def test_a_trainer_without_accelerate() -> None:
    pytest.importorskip("transformers")  # which can be there without what its Trainer needs
    ended = run("import discrimloss.integrations.transformers", without=("accelerate",))
    assert "(accelerate is missing): pip install 'discrimloss[transformers]'" in ended.stderr


@pytest.mark.parametrize("extra", sorted(set(NEEDS_EXTRA.values())))
def test_the_extra_exists(extra: str) -> None:
    assert extra in declared_extras()


@without_extras
def test_nothing_of_the_extras_is_installed() -> None:
    extras = {
        library(requirement)
        for name, requirements in declared_extras().items()
        if name != "dev"  # pytest is there, of course
        for requirement in requirements
    }
    installed = {distribution.name.lower() for distribution in distributions()}
    comes_with_torch = {library(requirement) for requirement in requires("torch") or []}
    assert extras & installed - comes_with_torch <= {"discrimloss"}


def library(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement)[0].lower()
