"""What an answer may need to know beyond the question: a snapshot of what is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.plan.catalog import Catalog


@dataclass(frozen=True)
class TopicFacts:
    partitions: int = 1
    replicas: int = 1
    consumers: int = 0
    groups: int = 0
    records: int | None = None
    """How many it holds, if somebody counted."""


@dataclass(frozen=True)
class Surroundings:
    """`defaults` are the settings that have an effect, `properties` those that were set."""

    catalog: Catalog
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def state(self, query: str) -> str:
        """Of a query that exists."""
        return "PAUSED" if query in self.paused else "RUNNING"
