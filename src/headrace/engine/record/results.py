"""The results of a key group's batch before they are written: entries in order, each with its headers.

Of a table's changes only the last of each key in a batch matters to readers of the table. `merge_changes` drops the
others, as ksqlDB does with its cache; it runs before anything is encoded, so that saves the encoding too. A stream's
rows are facts, and the output of a trigger or EMIT FINAL was requested as it is: those are never merged.

A deletion that is the last change is always emitted, even for a key that appeared in the same batch: whether the key
existed before is not known without storing it, and deleting a key that does not exist does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.plan.chain.records import Headers
from headrace.plan.nodes import Emit, Final, Query, walk
from headrace.plan.relations import Kind, Relation
from headrace.plan.steps import Batch
from headrace.plan.types import BIGINT, BOOLEAN, BYTES, DATE, INT, STRING, TIME, TIMESTAMP

_ALIKE = (BOOLEAN, INT, BIGINT, STRING, BYTES, DATE, TIME, TIMESTAMP)
"""Types whose equal values are identical; 0.0 and -0.0 are not."""


@dataclass
class Results:
    """Entries of the sink's relation."""

    entries: Batch = field(default_factory=list)
    headers: list[Headers] | None = None
    """The headers of each entry; None while no entry has any."""

    def add(self, batch: Batch, headers: Headers) -> None:
        """Adds entries, all with these headers."""
        if headers and self.headers is None:
            self.headers = [()] * len(self.entries)
        self.entries += batch
        if self.headers is not None:
            self.headers += [headers] * len(batch)

    def at(self, places: Sequence[int]) -> Results:
        """The results at these positions."""
        headers = None if self.headers is None else [self.headers[place] for place in places]
        return Results([self.entries[place] for place in places], headers)

    def __len__(self) -> int:
        return len(self.entries)


def can_merge_changes(query: Query) -> bool:
    """Whether changes of one key may be merged at all."""
    requested = any(isinstance(node, Emit | Final) for node in walk(query.sink))
    return query.sink.relation.kind is Kind.TABLE and not requested


def merge_changes(results: Results, relation: Relation) -> Results:
    """The last change of each key, in their order; entries without a key are unchanged."""
    keys = [entry[1] for entry in results.entries]
    if any(column.type not in _ALIKE for column in relation.key):
        keys = [key and repr(key) for key in keys]  # differently written keys stay distinct; lists have no hash
    last = {key: place for place, key in enumerate(keys)}
    if len(last) == len(results):
        return results
    keyless = [place for place, key in enumerate(keys) if key is None] if last.pop(None, None) is not None else []
    return results.at(sorted([*last.values(), *keyless]))
