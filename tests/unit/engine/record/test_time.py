"""The stream time of a key group: only records that count for its windows advance it."""

from __future__ import annotations

import pytest

from headrace.engine.record.chain_operator import run_records
from headrace.engine.record.shuffle.payloads import read_payloads
from headrace.engine.task_report import TaskReport
from headrace.plan.chain.records import RawRecord
from headrace.testing.world import World
from tests.unit.engine.record.shuffle.test_columnar_payloads import payloads_of, work_of

SOURCE = "CREATE STREAM s (id INT KEY, page STRING) WITH (kafka_topic='s', format='JSON', partitions=1);"
FINAL = (
    "CREATE TABLE o AS SELECT page, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 5 SECONDS, GRACE PERIOD 0 SECONDS) "
    "GROUP BY page EMIT FINAL;"
)
PLAIN = "CREATE STREAM o AS SELECT * FROM s;"
GOOD, FAR = b'{"PAGE":"/"}', 900_000


@pytest.mark.parametrize("bad", [b"no json", b'{"PAGE":null}', None])
@pytest.mark.parametrize(("statement", "latest"), [(FINAL, 2_000), (PLAIN, FAR)], ids=["windows", "no clock"])
def test_a_dropped_record_does_not_advance_stream_time(bad: bytes | None, statement: str, latest: int) -> None:
    world = World(live=False)
    world.execute(SOURCE + statement)
    (running,) = world.running.values()
    work = work_of(running.query, [], 1, opened=False)
    records = [
        ("s", RawRecord(b"1", GOOD, 1_000)),
        ("s", RawRecord(b"1", bad, FAR)),
        ("s", RawRecord(b"1", GOOD, 2_000)),
    ]
    report, stores = TaskReport(0), dict[str, dict]()
    arrived = read_payloads(payloads_of(records, 0, work, 1)[0], work)
    run_records(work, arrived, lambda name: stores.setdefault(name, {}), report)
    assert report.time == latest
