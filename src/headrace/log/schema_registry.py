"""A schema registry in a compacted topic of the log; any number of processes may use it at once.

A change is decided on the state after all earlier changes, and appended atomically (see `FoldedTopic.change`). So two
registries never assign one id twice, and after a crash a change is applied as a whole or not at all. A client without a
response retries: registering a schema twice returns the same id.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from headrace.contracts import Log, TopicSpec
from headrace.errors import BadRecord
from headrace.faultpoints import reach
from headrace.formats.schema_registry.state import RegistryState, Row
from headrace.formats.schema_registry.store import Decide, StoredRegistry, with_change_number
from headrace.log.folded_topic import FoldedTopic
from headrace.record import Record, StoredRecord
from headrace.settings import Size

SCHEMAS_TOPIC = "__schemas"
T = TypeVar("T")
_SPEC = TopicSpec(compact=True, max_record_bytes=Size(8 << 20), tombstone_time=timedelta(days=7))


class LogRegistry(StoredRegistry):
    """The registry of a log. The first change creates it; reading does not."""

    def __init__(self, log: Log, topic: str = SCHEMAS_TOPIC) -> None:
        super().__init__(LogJournal(log, topic))


class LogJournal:
    """See `formats.schema_registry.store.RegistryJournal`."""

    def __init__(self, log: Log, topic: str) -> None:
        self._topic = FoldedTopic(log, topic, RegistryState, _fold, _SPEC)

    def read(self, use: Callable[[RegistryState], T]) -> T:
        return self._topic.read(use)

    def change(self, decide: Decide[T]) -> T:
        def records(state: RegistryState) -> tuple[list[Record], T]:
            rows, result = decide(state)
            numbered = [_record(row) for row in with_change_number(rows, state)]
            if numbered:
                reach("schemas.decided")
            return numbered, result

        result, _ = self._topic.change(records)
        reach("schemas.appended")
        return result


def _record(row: Row) -> Record:
    key, value = row
    return Record(None if value is None else json.dumps(value).encode(), json.dumps(key).encode())


def _fold(state: RegistryState, record: StoredRecord) -> RegistryState:
    try:
        key = tuple(json.loads(record.key or b""))
        if not hasattr(RegistryState, f"_apply_{key[0]}"):
            raise ValueError(f"unknown record type {key[0]!r}")
        row = key, None if record.value is None else json.loads(record.value)
    except (ValueError, TypeError, IndexError) as error:
        raise BadRecord(
            "a record of the schemas topic cannot be decoded",
            where=f"{record.topic}/0/{record.offset}",
            fix="write to the topic only through a schema registry",
        ) from error
    state.apply(row)
    return state
