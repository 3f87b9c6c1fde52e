"""Expired state is removed: over many windows, a key group holds no more than over a few."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.engine.record.state import KeyGroupState
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.steps import Context
from tests.ksql_strategies import planned
from tests.unit.engine.record.memory_state_storage import MemoryStateStorage

SECOND = 1000
BATCHES = 60
"""Of 10 s each, with 40 keys that never come again."""

WINDOWED = "CREATE TABLE o AS SELECT id, COUNT(*) AS n, COLLECT_LIST(a) AS l FROM s WINDOW {} GROUP BY id {};"
TUMBLING = "TUMBLING (SIZE 20 SECONDS, GRACE PERIOD 5 SECONDS)"
HOPPING = "HOPPING (SIZE 30 SECONDS, ADVANCE BY 10 SECONDS, GRACE PERIOD 5 SECONDS)"
SESSION = "SESSION (15 SECONDS, GRACE PERIOD 5 SECONDS)"
JOIN = (
    "CREATE STREAM o AS SELECT {} AS id, s.a, r.x FROM s {} JOIN r"
    " WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS ON s.id = r.id;"
)

STATEMENTS = {
    "tumbling": WINDOWED.format(TUMBLING, ""),
    "hopping": WINDOWED.format(HOPPING, ""),
    "session": WINDOWED.format(SESSION, ""),
    "tumbling-final": WINDOWED.format(TUMBLING, "EMIT FINAL"),
    "hopping-final": WINDOWED.format(HOPPING, "EMIT FINAL"),
    "session-final": WINDOWED.format(SESSION, "EMIT FINAL"),
    "tumbling-having": WINDOWED.format(TUMBLING, "HAVING COUNT(*) > 1"),
    "session-having": WINDOWED.format(SESSION, "HAVING COUNT(*) > 1"),
    "distinct": f"CREATE STREAM o AS SELECT DISTINCT id, a FROM s WINDOW {TUMBLING};",
    "join-inner": JOIN.format("s.id", "INNER"),
    "join-left": JOIN.format("s.id", "LEFT"),
    "join-full": JOIN.format("ROWKEY", "FULL"),
}


def batch(number: int) -> Iterator[tuple[str, RawRecord]]:
    """Forty keys over ten seconds: most on both sides, some twice, some late."""
    for i in range(40):
        key, time = b"%d" % (number * 40 + i), (number * 10 + i // 4) * SECOND
        yield "s", RawRecord(key, b'{"A": 1, "B": "b"}', time)
        if i % 3:
            yield "r", RawRecord(key, b'{"A": 2, "X": 7}', time + 1)
        if i % 5 == 0:
            yield "s", RawRecord(key, b'{"A": 3}', max(time - 9 * SECOND, 0))


def held(statement: str) -> list[tuple[int, int, int]]:
    """Entries, buckets and bytes after each batch; the state is reopened for each."""
    query, storage, found = planned(statement), MemoryStateStorage(), list[tuple[int, int, int]]()
    for number in range(BATCHES):
        state = KeyGroupState(storage, key_group=0)
        Pipeline(query, Context(state.store)).run(batch(number))
        state.save()
        found.append((state.entries, len(storage), sum(map(len, storage.values()))))
    return found


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_the_size_of_the_state_is_bounded(statement: str) -> None:
    found = held(statement)
    early, late = found[5:15], found[-10:]
    assert early[-1][0] > 40, "something is remembered"
    for before, after in zip(map(max, zip(*early, strict=True)), map(max, zip(*late, strict=True)), strict=True):
        assert after <= 1.2 * before


@pytest.mark.parametrize("name", ["tumbling-final", "session-final", "join-full"])
def test_expired_state_is_removed_as_time_advances(name: str) -> None:
    """A tick is enough; only what time it is stays."""
    storage = MemoryStateStorage()
    state = KeyGroupState(storage, key_group=0)
    pipe = Pipeline(planned(STATEMENTS[name]), Context(state.store))
    pipe.run(batch(0))
    pipe.tick(1000 * SECOND)
    state.save()
    kept = {store for store, entries in state.stores.items() if len(entries) and not store.endswith("clock")}
    assert all(list(state.stores[store]) == [()] for store in kept), "empty timelines"
    assert len(storage) == 1
