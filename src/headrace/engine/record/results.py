"""What a page's batch gives out, before it is written: entries in order, each with the headers that it carries on.

Of a table's changes only the last of each key in a batch matters to who reads the table. `merged` leaves out the
others, as ksqlDB does with its cache; it is done before anything is encoded, so that saves the encoding too. A stream's
rows are facts, and what a trigger or EMIT FINAL gives out was asked for as it comes: those are never merged.

A deletion that is the last is always sent, also of a key that came in the same batch: whether it was there before is
not known without keeping it, and to delete what is not there does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.plan.chain.contract import Batch
from headrace.plan.chain.records import Headers
from headrace.plan.nodes import Emit, Final, Kind, Query, Relation, walk
from headrace.plan.types import BIGINT, BOOLEAN, BYTES, DATE, INT, STRING, TIME, TIMESTAMP

_ALIKE = (BOOLEAN, INT, BIGINT, STRING, BYTES, DATE, TIME, TIMESTAMP)
"""Types of which equal values are the same; 0.0 and -0.0 are not."""


@dataclass
class Results:
    """Entries as the sink's relation has them."""

    entries: Batch = field(default_factory=list)
    headers: list[Headers] | None = None
    """Of each entry; None while no entry has any."""

    def add(self, batch: Batch, headers: Headers) -> None:
        """More of them, all with these headers."""
        if headers and self.headers is None:
            self.headers = [()] * len(self.entries)
        self.entries += batch
        if self.headers is not None:
            self.headers += [headers] * len(batch)

    def at(self, places: Sequence[int]) -> Results:
        """Only those at these places."""
        headers = None if self.headers is None else [self.headers[place] for place in places]
        return Results([self.entries[place] for place in places], headers)

    def headers_at(self, place: int) -> Headers:
        return () if self.headers is None else self.headers[place]

    def __len__(self) -> int:
        return len(self.entries)


def merges(query: Query) -> bool:
    """Whether changes of one key may be merged at all."""
    asked = any(isinstance(node, Emit | Final) for node in walk(query.sink))
    return query.sink.relation.kind is Kind.TABLE and not asked


def merged(results: Results, relation: Relation) -> Results:
    """The last change of each key, in the order of those; what has no key is left as it is."""
    keys = [entry[1] for entry in results.entries]
    if any(column.type not in _ALIKE for column in relation.key):
        keys = [key and repr(key) for key in keys]  # what is written differently stays apart; lists have no hash
    last = {key: place for place, key in enumerate(keys)}
    if len(last) == len(results):
        return results
    keyless = [place for place, key in enumerate(keys) if key is None] if last.pop(None, None) is not None else []
    return results.at(sorted([*last.values(), *keyless]))
