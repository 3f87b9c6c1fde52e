"""The sample notebook on Spark: all cells, in order, give the outputs that are stored with them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.notebook import code_cells, execute

pytestmark = pytest.mark.spark


def test_the_notebook_runs_on_spark(spark: object) -> None:
    namespace: dict[str, Any] = {}
    for cell in code_cells(ROOT / "examples" / "notebook.ipynb"):
        assert execute(cell, namespace) == cell.output
