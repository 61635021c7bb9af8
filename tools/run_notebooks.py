"""Run the notebooks of the tutorials and store their outputs: `make notebooks`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TUTORIALS = Path(__file__).resolve().parents[1] / "docs" / "tutorials"


def main(names: list[str]) -> None:
    """Run the notebooks of these names, or all, each in a new kernel."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["COLUMNS"] = "100"
    for path in sorted(TUTORIALS.glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        print(f"== {path.name}", flush=True)
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": "."}}).execute()
        for cell in notebook.cells:
            cell.metadata = {}
            if cell.cell_type == "code":
                cell.execution_count = None
                cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
                for output in cell.outputs:
                    if output.output_type == "execute_result":
                        output.execution_count = None
        notebook.metadata = {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main(sys.argv[1:])
