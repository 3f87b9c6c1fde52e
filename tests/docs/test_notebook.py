"""The sample notebook: the cells that run in memory give the outputs that are stored with them."""

from __future__ import annotations

from typing import Any

from tests.docs.pages import ROOT
from tests.notebook import code_cells, execute


def test_the_cells_in_memory_give_their_stored_outputs() -> None:
    namespace: dict[str, Any] = {}
    cells = [cell for cell in code_cells(ROOT / "examples" / "notebook.ipynb") if "spark" not in cell.tags]
    assert [execute(cell, namespace) for cell in cells] == [cell.output for cell in cells]
    assert "[{'page': '/cart', 'n': 2}]" in [cell.output for cell in cells]
