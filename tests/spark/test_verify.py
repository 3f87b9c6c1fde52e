"""`verify`: a query's topic compared with a batch recomputation, in any mode; tampering is found."""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from headrace.clock import ManualClock
from headrace.contracts import Append, Log, TopicSpec
from headrace.control.program import Program
from headrace.control.verify.query import VerifyResult, verify
from headrace.control.verify.targets import VerifyTarget, find_target, script_targets
from headrace.errors import InputGone, NotVerifiable, PlanChanged, ViewUnreadable
from headrace.lang.ksql.scripts.checker import check_script
from headrace.log.embedded import EmbeddedLog
from headrace.log.kafka import KafkaLog
from headrace.log.stored_rows import from_records
from headrace.log.topic_spec import ensure_topic
from headrace.record import Record
from headrace.settings import Settings
from headrace.views.materializer import ViewMaterializer, open_view
from tests import memory_and_spark

SCRIPT = """
CREATE STREAM clicks (id INT KEY, page STRING, spent BIGINT) WITH (kafka_topic='clicks', format='JSON', partitions=2);
CREATE TABLE users (id INT PRIMARY KEY, name STRING) WITH (kafka_topic='users', format='JSON', partitions=2);
CREATE STREAM big AS SELECT *, UUID() AS mark FROM clicks WHERE spent > 20;
CREATE TABLE sums AS SELECT id, COUNT(*) AS n, SUM(spent) AS total FROM clicks GROUP BY id;
CREATE TABLE closed AS SELECT page, COUNT(*) AS n FROM clicks
  WINDOW TUMBLING (SIZE 5 SECONDS, GRACE PERIOD 3 SECONDS) GROUP BY page EMIT FINAL;
CREATE TABLE hops AS SELECT page, SUM(spent) AS n FROM clicks
  WINDOW HOPPING (SIZE 4 SECONDS, ADVANCE BY 2 SECONDS) GROUP BY page;
CREATE STREAM who AS SELECT c.id AS id, page, name FROM clicks c LEFT JOIN users u ON c.id = u.id;
CREATE TABLE names AS SELECT id, UCASE(name) AS name FROM users WHERE name <> 'u3';
"""
QUERIES = ("big", "sums", "closed", "hops", "who", "names")
WAYS = {
    "natively, merged": {"query_execution_mode": "auto", "query_emit": "per-batch"},
    "record by record": {"query_execution_mode": "record", "query_emit": "per-record"},
    "with columns": {"query_execution_mode": "auto", "query_emit": "per-batch", "query_sink_topics": "typed"},
}


@pytest.fixture
def log(spark: SparkSession, tmp_path: Path) -> Iterator[EmbeddedLog]:
    del spark  # there before any program asks for it
    given = memory_and_spark.settings(tmp_path)
    with EmbeddedLog(given.storage.data, given) as opened:
        yield opened


def feed(log: Log, numbers: range, prefix: str = "") -> None:
    for n in numbers:
        value = "not json" if n % 17 == 0 else f'{{"PAGE": "/{n % 3}", "SPENT": {n * 7 % 50}}}'
        late = 9000 if n % 11 == 0 else 0
        memory_and_spark.append(log, f"{prefix}clicks", str(n % 5), value, 1_000_000 + n * 300 - late)
        if n % 4 == 0:
            name = None if n % 8 == 0 else f'{{"NAME": "u{n % 5}"}}'
            memory_and_spark.append(log, f"{prefix}users", str(n % 7), name, 1_000_000 + n * 300)


def ran(log: Log, settings: Settings, script: str, prefix: str = "") -> None:
    with Program(log, settings, clock=ManualClock()) as program:
        program.execute(script)
        feed(log, range(1, 140), prefix)
        program.wait(until_idle=True)


def subject(settings: Settings, name: str, script: str = SCRIPT) -> VerifyTarget:
    checked = check_script(script)
    actions = [planned.action for planned in checked.planned]
    return find_target(script_targets(actions, checked.catalog, settings.storage.data, "program"), name, fix="")


def verdict(log: Log, settings: Settings, name: str, script: str = SCRIPT) -> VerifyResult:
    return verify(log, settings, subject(settings, name, script))


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, id=name, marks=[pytest.mark.long] if at else []) for at, (name, way) in enumerate(WAYS.items())],
)
def test_written_results_equal_the_batch_recomputation(log: EmbeddedLog, tmp_path: Path, way: dict[str, str]) -> None:
    settings = memory_and_spark.settings(tmp_path, query_max_batch_rows=50, **way)
    ran(log, settings, SCRIPT)
    for name in QUERIES:
        found = verdict(log, settings, name)
        assert (name, found.counts, found.differences) == (name, {}, ())
        assert found.rows


def test_verify_works_while_queries_run(log: EmbeddedLog, tmp_path: Path) -> None:
    settings = memory_and_spark.settings(tmp_path, query_execution_mode="auto", query_max_batch_rows=20)
    with Program(log, settings, clock=ManualClock()) as program:
        program.execute(SCRIPT)
        fed = Thread(target=feed, args=(log, range(1, 2000)))
        fed.start()
        batches = dict.fromkeys(("big", "sums", "closed", "who"), -1)
        while min(batches.values()) < 3:
            for name in batches:
                found = verdict(log, settings, name)
                assert (name, found.counts, found.differences) == (name, {}, ())
                batches[name] = found.batch
        fed.join()


@pytest.mark.long
def test_verify_starts_where_the_query_started(log: EmbeddedLog, tmp_path: Path) -> None:
    """What was there before, or was removed before, does not count."""
    settings = memory_and_spark.settings(tmp_path)
    for topic in ("clicks", "users"):
        ensure_topic(log, topic, TopicSpec(partitions=2))
    feed(log, range(150, 170))
    log.truncate("clicks", 0, 2)
    late = "SET 'auto.offset.reset' = 'latest';" + PAIR
    ran(log, settings, late)
    for name in ("big", "sums"):
        found = verdict(log, settings, name, late)
        assert (name, found.counts, found.differences) == (name, {}, ())
        assert found.rows


# -- what was tampered with -----------------------------------------------------------------------------------------

PAIR = """
CREATE STREAM clicks (id INT KEY, page STRING, spent BIGINT) WITH (kafka_topic='clicks', format='JSON', partitions=2);
CREATE TABLE users (id INT PRIMARY KEY, name STRING) WITH (kafka_topic='users', format='JSON', partitions=2);
CREATE STREAM big AS SELECT * FROM clicks WHERE spent > 20;
CREATE TABLE sums AS SELECT id, COUNT(*) AS n FROM clicks GROUP BY id;
"""


def _changed(payload: bytes) -> bytes:
    return payload.replace(b'"PAGE":"/', b'"PAGE":"#').replace(b'"N":', b'"M":')


def tamper(log: EmbeddedLog, topic: str, change: Callable[[bytes], bytes] | None) -> int:
    """The last rows that a batch wrote are others, with a checksum that fits, or gone; how many."""
    with closing(sqlite3.connect(log.folder / "log.db", timeout=30, isolation_level=None)) as db:
        identity, rows, payload = db.execute(
            "SELECT extents.id, rows, payload FROM extents JOIN topics ON topics.id = extents.topic "
            "WHERE name = ? ORDER BY last_sequence DESC LIMIT 1",
            (topic,),
        ).fetchone()
        if change is None:
            db.execute("DELETE FROM extents WHERE id = ?", (identity,))
            return rows
        other = change(payload)
        assert other != payload
        db.execute("UPDATE extents SET payload = ?, checksum = ? WHERE id = ?", (other, zlib.crc32(other), identity))
        return rows


@pytest.mark.long
def test_changed_rows_are_found(log: EmbeddedLog, tmp_path: Path) -> None:
    settings = memory_and_spark.settings(tmp_path, query_max_batch_rows=30)
    ran(log, settings, PAIR)
    rows = tamper(log, "BIG", _changed)
    found = verdict(log, settings, "big", PAIR)
    assert found.counts == {"missing": rows, "more": rows}
    (first, *_) = [one for one in found.differences if one.found]
    assert first.found is not None
    assert str(first.found["PAGE"]).startswith("#")
    tamper(log, "SUMS", _changed)
    found = verdict(log, settings, "sums", PAIR)
    assert set(found.counts) == {"other"}
    assert not found.equal
    assert {one.found["N"] for one in found.differences if one.found} == {None}


def test_removed_and_added_rows_are_found(log: EmbeddedLog, tmp_path: Path) -> None:
    settings = memory_and_spark.settings(tmp_path, query_max_batch_rows=30)
    ran(log, settings, PAIR)
    log.append([Append("SUMS", from_records([Record(b'{"N":1}', b"77", occurred_at=5)]))])
    found = verdict(log, settings, "sums", PAIR)
    assert found.counts == {"more": 1}
    (one,) = found.differences
    assert (one.key, one.expected, one.found) == ({"ID": 77}, None, {"N": 1, "ROWTIME": 5})
    rows = tamper(log, "BIG", None)
    log.append([Append("BIG", from_records([Record(b"{}", b"1")] * 30))])
    found = verdict(log, settings, "big", PAIR)
    assert found.counts == {"missing": rows, "more": 30}
    assert len(found.differences) <= 20


def test_a_view_is_compared_with_its_topic(log: EmbeddedLog, tmp_path: Path) -> None:
    settings = memory_and_spark.settings(tmp_path, query_emit="per-batch")
    ran(log, settings, PAIR)
    source = subject(settings, "sums", PAIR).source
    assert source is not None
    view = open_view(settings.storage.data, source, log.topic("SUMS"))
    keeper = ViewMaterializer(log, source, view)
    while keeper.step():
        pass
    found = verdict(log, settings, "sums", PAIR)
    assert found.equal
    assert found.view_rows == found.rows == 5
    with closing(sqlite3.connect(view.path, isolation_level=None)) as db:
        db.execute("UPDATE rows SET v0 = 1000 WHERE k0 = 1")
        db.execute("DELETE FROM rows WHERE k0 = 2")
        db.execute("INSERT INTO rows SELECT 50, time, version, v0 FROM rows WHERE k0 = 3")
    found = verdict(log, settings, "sums", PAIR)
    assert (found.counts, found.view_differing, found.equal) == ({}, 3, False)
    by_key = {one.key["ID"]: one for one in found.differences if one.key}
    assert by_key[1].found is not None
    assert by_key[1].found["N"] == 1000
    assert by_key[2].found is None
    assert by_key[50].expected is None
    assert {one.where for one in found.differences} == {"view"}
    view.close()
    view.path.write_bytes(b"no database" * 1000)
    with pytest.raises(ViewUnreadable):
        verdict(log, settings, "sums", PAIR)


# -- what cannot be compared ----------------------------------------------------------------------------------------


@pytest.mark.long
def test_non_deterministic_queries_are_refused(log: EmbeddedLog, tmp_path: Path) -> None:
    settings = memory_and_spark.settings(tmp_path)
    timed = PAIR + "CREATE STREAM seen AS SELECT id, UNIX_TIMESTAMP() AS at FROM clicks;"
    ran(log, settings, timed)
    with pytest.raises(NotVerifiable, match="it uses the current time"):
        verdict(log, settings, "seen", timed)
    with pytest.raises(PlanChanged):
        verdict(log, settings, "big", timed.replace("spent > 20", "spent > 21"))
    log.truncate("clicks", 0, 3)
    with pytest.raises(InputGone):
        verdict(log, settings, "big", timed)


@pytest.mark.long
def test_a_replaced_statement_is_reported(log: EmbeddedLog, tmp_path: Path) -> None:
    settings = memory_and_spark.settings(tmp_path)
    ran(log, settings, PAIR)
    other = PAIR.replace("spent > 20", "spent > 30") + "INSERT INTO big SELECT * FROM clicks WHERE spent < 0;"
    ran(log, settings, other)
    found = verdict(log, settings, "CSAS_BIG_0", other)
    assert ["another statement" in note for note in found.notes] == [True, False]
    assert found.counts == {}  # more is there than is expected, and others write there


# -- on Kafka -------------------------------------------------------------------------------------------------------


@pytest.mark.kafka
def test_verify_works_on_kafka(spark: SparkSession, kafka_settings: Settings, tmp_path: Path) -> None:
    """In the order of the journalled cuts."""
    del spark
    folder = memory_and_spark.settings(tmp_path)
    ours = {
        "storage_data": folder.storage.data,
        "spark_driver_memory": folder.spark.driver_memory,
        "query_max_batch_rows": 50,
        "query_key_groups": 2,
    }
    settings = kafka_settings.replace(query_emit="per-batch", **ours)
    script = re.sub(rf"\b(clicks|users|{'|'.join(QUERIES)})\b", r"kv_\1", SCRIPT)  # tests share a cluster
    with KafkaLog(settings) as log:
        ran(log, settings, script, prefix="kv_")
        for name in QUERIES:
            found = verdict(log, settings, f"kv_{name}", script)
            assert (name, found.counts, found.differences) == (name, {}, ())
            assert found.rows
        log.append([Append("KV_BIG", from_records([Record(b'{"PAGE":"/0"}', b"1")]))])
        assert verdict(log, settings, "kv_big", script).counts == {"more": 1}
        log.truncate("kv_clicks", 0, 3)
        with pytest.raises(InputGone):
            verdict(log, settings, "kv_big", script)
