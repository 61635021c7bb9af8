"""An integration without its library says what to install."""

import importlib
import sys

import pytest


@pytest.mark.parametrize(("module", "libraries"), [("lightning", 2), ("skorch", 1)])
def test_a_missing_library(module: str, libraries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [module, "pytorch_lightning"][:libraries]
    for name in [name for name in sys.modules if name.split(".")[0] in missing]:
        monkeypatch.delitem(sys.modules, name)
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    integration = f"discrimloss.integrations.{module}"
    monkeypatch.delitem(sys.modules, integration, raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'discrimloss\[{module}\]'"):
        importlib.import_module(integration)
