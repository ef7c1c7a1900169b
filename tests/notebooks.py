"""Notebooks as they are stored: without outputs, and the same text whoever saved them last.

`python tests/notebooks.py` rewrites those of `docs/notebooks` after somebody has worked on them.
"""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["NOTEBOOKS", "stored"]

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))
SHOWN = "mystnb"
"""Of a cell's metadata: how the site shows it, such as the text that stands for a picture."""
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def stored(name: str, text: str) -> str:
    """What of a notebook is kept.

    Args:
        name: of the file, without its ending, by which cells are called.
        text: of the file.

    Returns:
        The text to store: cells in their order, without outputs, and none that is empty.
    """
    cells = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"]).strip("\n")
        if not source:
            continue
        shown = {key: value for key, value in cell["metadata"].items() if key == SHOWN}
        kept = {"cell_type": cell["cell_type"], "id": f"{name}-{len(cells) + 1:02}", "metadata": shown}
        kept["source"] = source.splitlines(keepends=True)
        cells.append(kept | ({"execution_count": None, "outputs": []} if cell["cell_type"] == "code" else {}))
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    document = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for path in NOTEBOOKS:
        path.write_text(stored(path.stem, path.read_text(encoding="utf-8")), encoding="utf-8")
