"""A chart as a user configures and saves it: its kind, the columns of a view, and what it shows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

Row = Sequence[Any]
TIME_COLUMNS = ("WINDOWSTART", "WINDOWEND", "ROWTIME")
"""Columns that hold times, in ms."""
MAX_ROWS = 5_000
"""Maximum rows of a chart."""
COLUMN_ROLES = {"x": "X axis", "y": "Y axis", "by": "Group by"}
"""The columns of a chart, as they are shown."""


@dataclass(frozen=True)
class ChartPanel:
    """A chart over the rows of a view. The kind determines which columns matter (see `CHART_KINDS`)."""

    kind: str = ""
    view: str = ""
    x: str = ""
    y: str = ""
    by: str = ""
    top: int = 10
    where: str = ""
    title: str = ""

    @property
    def most(self) -> int:
        """The number of largest values to show."""
        return min(max(1, self.top), MAX_ROWS)

    @property
    def name(self) -> str:
        words = [
            part for part in (self.y, f"by {self.by}" if self.by else "", f"over {self.x}" if self.x else "") if part
        ]
        return self.title or f"{self.view}: {' '.join(words)}"

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> ChartPanel:
        """A panel as saved by any user: unknown or invalid fields are ignored."""
        known = {one.name: type(one.default) for one in fields(cls)}
        return cls(**{name: value for name, value in saved.items() if type(value) is known.get(name)})
