"""Native mode on Kafka compared with the chain: the rows of each cut in time order, one chain over all cuts.

Every piece is run twice, as if the driver had died between its commit and Spark's.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.clock import ManualClock
from headrace.contracts import Append, TopicSpec, dead_letter_topic
from headrace.control.program import Program
from headrace.engine.io.kafka_source import CutJournal
from headrace.engine.log_adapter import log_adapter_for
from headrace.engine.native.compiler import compile_native_query
from headrace.engine.native.watermark import WatermarkState, parse_watermark
from headrace.engine.planning.mode import choose_execution_on
from headrace.errors import QueryFailed
from headrace.log.kafka.log import KafkaLog
from headrace.log.stored_rows import from_records
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.plan.steps import Context
from headrace.record import Record, StoredRecord
from headrace.settings import Settings
from tests.memory_and_spark import by_key, stored
from tests.spark.conftest import drain, forget_last_commit
from tests.spark.native_runner import planned

pytestmark = pytest.mark.kafka

CLICKS = (
    "CREATE STREAM clicks (id INT KEY, page STRING, spent BIGINT) "
    "WITH (kafka_topic='{0}', format='JSON', partitions=2);"
)
QUERIES = {
    "filter": "CREATE STREAM o WITH (kafka_topic='{0}-out') AS SELECT id, page, spent FROM clicks WHERE spent > 20;",
    "no key": "CREATE STREAM o WITH (kafka_topic='{0}-out', key_format='NONE') AS "
    "SELECT page, spent FROM clicks PARTITION BY NULL;",
    "keyed": "CREATE TABLE o WITH (kafka_topic='{0}-out') AS "
    "SELECT id, COUNT(*) AS n, SUM(spent) AS total FROM clicks GROUP BY id;",
    "tumbling": "CREATE TABLE o WITH (kafka_topic='{0}-out') AS SELECT page, COUNT(*) AS n FROM clicks "
    "WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY page;",
    "hopping": "CREATE TABLE o WITH (kafka_topic='{0}-out') AS SELECT page, COUNT(*) AS n FROM clicks "
    "WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 4 SECONDS, GRACE PERIOD 2 SECONDS) GROUP BY page;",
    "final": "CREATE TABLE o WITH (kafka_topic='{0}-out') AS SELECT page, COUNT(*) AS n, SUM(spent) AS s FROM clicks "
    "WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY page EMIT FINAL;",
    "final hopping": "CREATE TABLE o WITH (kafka_topic='{0}-out') AS SELECT page, COUNT(*) AS n FROM clicks "
    "WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 4 SECONDS) GROUP BY page EMIT FINAL;",
}
ALL_OF_THEM = ("filter", "no key", "final", "final hopping")
"""What is sent is not merged."""
Plain = tuple[bytes | None, bytes | None, int]


@pytest.fixture
def kafka(kafka_settings: Settings, tmp_path: Path) -> Iterator[KafkaLog]:
    with KafkaLog(kafka_settings.replace(storage_data=tmp_path / "data", query_execution_mode="native")) as opened:
        yield opened


def clicks(dice: random.Random, start: int, count: int) -> list[Record]:
    """Some are late, some cannot be read, some have no key or no value. What does not count lies far ahead in time."""
    made = []
    for n in range(start, start + count):
        time = 100_000 + n * 400 - (dice.choice((1_000, 8_000, 40_000)) if dice.random() < 0.25 else 0)
        key: bytes | None = b"%d" % dice.randrange(5)
        value: bytes | None = json.dumps({"PAGE": f"/{dice.randrange(3)}", "SPENT": dice.randrange(60)}).encode()
        if dice.random() < 0.15:
            odd = [b"no json", None, b'{"PAGE": null, "SPENT": 1}']
            key, value = dice.choice([*((key, one) for one in odd), (None, value), (b"no number", value)])
            time += 600_000 if value in odd else 0
        made.append(Record(value, key, occurred_at=time))
    return made


def in_order(log: KafkaLog, topic: str, cuts: CutJournal) -> list[StoredRecord]:
    """What was read, as the cuts say."""
    found = stored(log, topic)
    rows: list[StoredRecord] = []
    for cut in cuts.read():
        start, end = cut.start[topic], cut.end[topic]
        inside = [r for r in found if start[str(r.partition)] <= r.offset < end[str(r.partition)]]
        rows += sorted(inside, key=lambda r: (r.timestamp, r.partition, r.offset))
    return rows


def by_the_chain(query: Query, rows: list[StoredRecord]) -> tuple[list[Plain], Counter[str]]:
    problems: Counter[str] = Counter()
    stores: dict[str, dict] = {}
    context = Context(lambda name: stores.setdefault(name, {}), lambda problem: problems.update([problem.code]))
    raws = [RawRecord(r.key, r.value, r.timestamp, r.headers, r.partition, r.offset) for r in rows]
    return [(r.key, r.value, r.time) for r in Pipeline(query, context).feed(query.sources[0].topic, raws)], problems


@pytest.mark.parametrize("kind", QUERIES)
def test_results_equal_those_of_the_chain(
    spark: SparkSession, kafka: KafkaLog, name: str, tmp_path: Path, kind: str
) -> None:
    for topic in (name, f"{name}-out", dead_letter_topic(f"{name}-out")):
        kafka.create_topic(topic, TopicSpec(partitions=2))
    query, folder, dice = planned((CLICKS + QUERIES[kind]).format(name)), tmp_path / "q", random.Random(kind)
    assert choose_execution_on(kafka, query, kafka.settings).execution_mode == "native"
    for piece in range(3):
        kafka.append([Append(name, from_records(clicks(dice, piece * 60, 60)))])
        for _ in range(2):
            flow = compile_native_query(spark, kafka, query, log_adapter_for(kafka, kafka.settings), folder, name)
            drain(flow.rows, flow.write, folder / "spark", flow.mode)
            forget_last_commit(folder / "spark")
    wanted, problems = by_the_chain(query, in_order(kafka, name, CutJournal(kafka, name, folder / "spark")))
    got = [(r.key, r.value, r.timestamp) for r in stored(kafka, f"{name}-out")]
    if kind == "filter":  # without a shuffle on the way: those of a key are as they came
        came = by_key(by_the_chain(query, stored(kafka, name))[0])
        assert {key: rows for key, rows in by_key(got).items() if key} == {key: came[key] for key in came if key}
    if kind in ALL_OF_THEM:
        assert sorted(got, key=repr) == sorted(wanted, key=repr)
    else:
        assert {key: value for key, value, _ in got} == {key: value for key, value, _ in wanted}
    letters = Counter(
        (r.record.header("code") or b"").decode() for r in stored(kafka, dead_letter_topic(f"{name}-out"))
    )
    assert letters == problems
    assert sum(problems.values()) > 5


def test_a_program_starts_at_latest_and_resumes(spark: SparkSession, kafka: KafkaLog, name: str) -> None:
    kafka.create_topic(name, TopicSpec(partitions=2))

    def put(count: int) -> None:
        rows = [Record(b'{"PAGE":"/","SPENT":1}', b"1", occurred_at=1_000) for _ in range(count)]
        kafka.append([Append(name, from_records(rows))])

    put(5)
    for count in (2, 3):
        with Program(kafka, kafka.settings) as program:
            program.execute("SET 'auto.offset.reset'='latest';" + (CLICKS + QUERIES["keyed"]).format(name))
            put(count)
            program.wait(until_idle=True)
            (running,) = program.running.values()
            assert running.execution_mode == "native"
    last = {r.key: json.loads(r.value or b"null") for r in stored(kafka, f"{name}-out")}
    assert last == {b"1": {"N": 5, "TOTAL": 5}}


def test_windows_close_on_idle_input(spark: SparkSession, kafka: KafkaLog, name: str) -> None:
    """By ticks; one comes while the query does not run."""
    del spark
    clock, found = ManualClock(1_000_000_000), list[dict]()
    kafka.create_topic(name, TopicSpec(partitions=2))
    for count, time in ((2, 101_000), (3, 131_000)):
        rows = [Record(b'{"PAGE":"/","SPENT":%d}' % n, b"%d" % n, occurred_at=time) for n in range(count)]
        kafka.append([Append(name, from_records(rows))])
        with Program(kafka, kafka.settings, clock=clock) as program:
            program.execute((CLICKS + QUERIES["final"]).format(name))
            program.wait(until_idle=True)
            (running,) = program.running.values()
            assert (running.execution_mode, running.progress.deadline) == ("native", time + 14_000)
            assert len(stored(kafka, f"{name}-out")) == len(found)
        clock.advance(timedelta(seconds=14))
        with Program(kafka, kafka.settings, clock=clock) as program:
            program.execute((CLICKS + QUERIES["final"]).format(name))
            found.append({"N": count, "S": sum(range(count))})
            wait_for(program, kafka, f"{name}-out", len(found))
    assert [json.loads(r.value or b"null") for r in stored(kafka, f"{name}-out")] == found


def wait_for(program: Program, log: KafkaLog, topic: str, count: int) -> None:
    program.wait(on_poll=lambda: program.stopping.set() if len(stored(log, topic)) == count else None)


def test_an_unknown_stream_time_is_not_guessed(kafka: KafkaLog, tmp_path: Path) -> None:
    from headrace.engine.native.kafka_source import StreamTimeFile

    times = StreamTimeFile(tmp_path)
    assert times.before(0) is None
    times.store(0, WatermarkState(), WatermarkState(500, ((7, 9),)))
    assert (parse_watermark(*times.before(0)), parse_watermark(*times.before(1))) == (
        WatermarkState(),
        WatermarkState(500, ((7, 9),)),
    )
    with pytest.raises(QueryFailed, match="batch 3"):
        times.before(3)
