"""The snapshot of catalog and runtime state from which metadata statements are answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.plan.catalog import Catalog


@dataclass(frozen=True)
class TopicStatistics:
    partitions: int = 1
    replicas: int = 1
    consumers: int = 0
    groups: int = 0
    records: int | None = None
    """Number of records, if it was counted."""


@dataclass(frozen=True)
class DescribeContext:
    """`defaults` are the settings that have an effect, `properties` those that were set."""

    catalog: Catalog
    topics: Mapping[str, TopicStatistics] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def state(self, query: str) -> str:
        """Returns the state of an existing query."""
        return "PAUSED" if query in self.paused else "RUNNING"
