"""The catalog: streams and tables by name, user-defined types, running queries. A plain value that statements change.

Planning a statement changes the catalog at once, so that the next statement of a script sees it; `Catalog.copy`
preserves the old one. The effects outside the catalog are `actions`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from headrace.plan.nodes import Query
from headrace.plan.notifiers import Notifier
from headrace.plan.sources import SourceInfo


@dataclass
class Catalog:
    sources: dict[str, SourceInfo] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    """Partition counts of existing topics, by name; any other topic is created when it is first named."""
    numbered: int | None = None
    """Number of the next query; None: the number of queries."""
    notifiers: dict[str, Notifier] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    """Who has created a thing, like `source ORDERS` or `query CSAS_SAFE_2`; without an entry it is the operator's."""

    def copy(self) -> Catalog:
        named = (dict(self.sources), dict(self.types), dict(self.queries), dict(self.partitions))
        return Catalog(*named, self.numbered, dict(self.notifiers), dict(self.owners))

    def restore(self, other: Catalog) -> None:
        """Restores the content of a copy."""
        for name, value in vars(other.copy()).items():
            setattr(self, name, value)

    @property
    def number(self) -> int:
        """The number of the next query."""
        return len(self.queries) if self.numbered is None else self.numbered

    @property
    def alerts(self) -> dict[str, Query]:
        """Returns the queries that run alert rules, by alert name."""
        return {query.alert.name: query for query in self.queries.values() if query.alert is not None}

    def readers(self, name: str) -> list[str]:
        """Returns the ids of the queries that read a source."""
        return [q.id for q in self.queries.values() if any(s.name == name for s in q.sources)]

    def writers(self, name: str) -> list[str]:
        """Returns the ids of the queries that write to a source."""
        return [q.id for q in self.queries.values() if q.sink.name == name]
