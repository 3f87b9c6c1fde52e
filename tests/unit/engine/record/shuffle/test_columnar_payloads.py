"""Records decoded before the shuffle give the same results as records that the chain decodes.

Some have headers or a time before 1970 and stay as they are, so that both forms meet in a batch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.contracts import HEADERS_TYPE, SYSTEM_COLUMNS, Batch, Topic, TopicSpec
from headrace.engine.io.row_payloads import payload_rows
from headrace.engine.record.chain_operator import run_records
from headrace.engine.record.shuffle.partitioner import partition_batch
from headrace.engine.record.shuffle.payloads import read_payloads
from headrace.engine.record.state import KeyGroupState
from headrace.engine.record.task_spec import RecordTaskSpec, record_task_spec
from headrace.engine.task_report import TaskReport
from headrace.plan.analysis.partitioning import key_group_assigner
from headrace.plan.analysis.record_layout import RecordLayout, columnar_layout, record_layouts
from headrace.plan.chain.records import Headers, RawRecord
from headrace.plan.nodes import Query
from headrace.schema import Schema
from headrace.testing.world import World
from tests.ksql_strategies import Example, examples
from tests.unit.engine.record.memory_state_storage import MemoryStateStorage
from tests.unit.engine.record.test_key_groups import Case, windowed

quick = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
TICKS = "ticks"
JSON = "format='JSON'"
Written = tuple[str, bytes | None, bytes | None, int, str]


def work_of(query: Query, topics: Iterable[str], key_groups: int, *, opened: bool) -> RecordTaskSpec:
    names = list(dict.fromkeys([*(source.topic for source in query.sources), *topics, TICKS]))
    found = [columnar_layout(query, name) for name in names] if opened else []
    more = [replace(layout, fewest=1) for layout in found if layout is not None]
    return record_task_spec(query, (*map(RecordLayout, names), *more), TICKS, key_groups)


def ran(case: Case, key_groups: int, cuts: Iterable[int], tasks: int, *, opened: bool) -> list[Written]:
    """Everything that is written, dead letters too."""
    work = work_of(case.query, (topic for topic, _ in case.records), key_groups, opened=opened)
    storages = defaultdict[int, MemoryStateStorage](MemoryStateStorage)
    out: list[Written] = []
    edges = [0, *sorted({cut for cut in cuts if cut < len(case.records)}), len(case.records)]
    for start, end in pairwise(edges):
        for key_group, payloads in sorted(payloads_of(case.records[start:end], start, work, tasks).items()):
            state = KeyGroupState(storages[key_group], key_group=key_group)
            for topic, payload in run_records(work, read_payloads(payloads, work), state.store, TaskReport(key_group)):
                rows = payload_rows(payload).to_pylist()
                out += [(topic, r["key"], r["value"], r["$timestamp"], repr(r["$headers"])) for r in rows]
            state.save()
    return out


def payloads_of(
    records: Sequence[tuple[str, RawRecord]], base: int, work: RecordTaskSpec, tasks: int
) -> defaultdict[int, list[bytes]]:
    found: defaultdict[int, list[bytes]] = defaultdict(list)
    for topic in dict.fromkeys(work.topics):
        mine = [(base + at + 1, record) for at, (name, record) in enumerate(records) if name == topic]
        for task in reversed(range(tasks)):
            piece = mine[len(mine) * task // tasks : len(mine) * (task + 1) // tasks]
            rows = partition_batch(batch(topic, [r for _, r in piece], [place for place, _ in piece]), work)
            for key_group, payload in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                found[key_group].append(payload)
    return found


def batch(topic: str, records: Sequence[RawRecord], places: Sequence[int]) -> Batch:
    columns = {name: pa.nulls(len(records), kind) for name, kind in SYSTEM_COLUMNS.items()}
    columns |= {
        "key": pa.array([r.key for r in records], pa.binary()),
        "value": pa.array([r.value for r in records], pa.binary()),
        "$timestamp": pa.array([r.time for r in records], pa.int64()),
        "$headers": pa.array([_items(r.headers) for r in records], HEADERS_TYPE),
        "$offset": pa.array([r.offset for r in records], pa.int64()),
        "$sequence": pa.array(places, pa.int64()),
    }
    return Batch(topic, 0, pa.RecordBatch.from_arrays(list(columns.values()), list(columns)), 0)


def _items(headers: Headers) -> list[dict[str, object]] | None:
    return [{"name": name, "value": value} for name, value in headers] or None


def disturbed(
    records: Sequence[tuple[str, RawRecord]], marked: set[int], early: set[int]
) -> list[tuple[str, RawRecord]]:
    """Some records with headers, some with a time before 1970."""
    found = list(records)
    for at in marked & set(range(len(found))):
        found[at] = (found[at][0], found[at][1]._replace(headers=(("h", b"%d" % at),)))
    for at in early & set(range(len(found))):
        found[at] = (found[at][0], found[at][1]._replace(time=-5))
    return found


def by_key(written: Iterable[Written]) -> dict[object, object]:
    """Of each key in order what was written. Dead letters have no order: records are decoded some at a time."""
    found: defaultdict[object, list[Written]] = defaultdict(list)
    for row in written:
        found[row[:2] if row[0] == "O" else None].append(row)
    return {**found, None: Counter(found[None])}


PLACES = st.sets(st.integers(0, 40), max_size=4)


@quick
@given(examples(), st.sampled_from([1, 3]), PLACES, st.integers(1, 3), PLACES, PLACES)
def test_columnar_records_give_the_same_results_as_raw_ones(
    drawn: Example, key_groups: int, cuts: set[int], tasks: int, marked: set[int], early: set[int]
) -> None:
    case = Case(drawn.query, disturbed(drawn.records, marked, early))
    count = key_groups if key_group_assigner(case.query, timed=True).are_several else 1
    found, wanted = (ran(case, count, cuts, tasks, opened=opened) for opened in (True, False))
    assert by_key(found) == by_key(wanted)
    if count == 1:
        assert [row for row in found if row[0] == "O"] == [row for row in wanted if row[0] == "O"]


@quick
@given(windowed(), PLACES, st.integers(1, 3), PLACES, PLACES)
def test_columnar_records_close_windows_at_the_same_moment(
    drawn: Case, cuts: set[int], tasks: int, marked: set[int], early: set[int]
) -> None:
    case = Case(drawn.query, disturbed(drawn.records, marked, early))
    found, wanted = (ran(case, 3, cuts, tasks, opened=opened) for opened in (True, False))
    assert by_key(found) == by_key(wanted)


def planned(declared: str, statement: str, more: str = JSON) -> Query:
    world = World(live=False)
    world.execute(f"CREATE STREAM c ({declared}) WITH (kafka_topic='c', partitions=1, {more});")
    world.execute(statement)
    (running,) = world.running.values()
    return running.query


VALUES = [b'{"time":%d,"headers":"h%d","PAGE":{"a":%d}}' % (i, i, i) for i in range(5)]


@pytest.mark.parametrize("key_groups", [1, 3])
def test_columns_may_have_the_names_of_envelope_columns(key_groups: int) -> None:
    query = planned(
        "`offset` INT KEY, `time` BIGINT, `headers` STRING, page STRUCT<a INT>", "CREATE STREAM o AS SELECT * FROM c;"
    )
    assert columnar_layout(query, "c") is not None
    case = Case(query, [("c", RawRecord(b"%d" % i, value, i, offset=i)) for i, value in enumerate(VALUES)])
    found = ran(case, key_groups, (), 1, opened=True)
    assert sorted(found) == sorted(ran(case, key_groups, (), 1, opened=False))
    assert len(found) == len(VALUES)


def test_columns_of_a_topic_schema_may_have_the_names_of_envelope_columns() -> None:
    query = planned("`offset` BIGINT KEY, `time` BIGINT", "CREATE STREAM o AS SELECT * FROM c;")
    schema = Schema.parse("offset bigint key, time bigint")
    work = record_task_spec(
        query, (*record_layouts(query, [Topic("c", TopicSpec(schema=schema), 0)]), RecordLayout(TICKS)), TICKS
    )
    columns = {name: pa.nulls(2, kind) for name, kind in SYSTEM_COLUMNS.items()}
    numbers = pa.array([1, 2], pa.int64())
    columns |= dict.fromkeys(["offset", "time", "$timestamp", "$offset", "$sequence"], numbers)
    rows = Batch("c", 0, pa.RecordBatch.from_arrays(list(columns.values()), list(columns)), 0)
    (payload,) = partition_batch(rows, work).column("payload").to_pylist()
    assert read_payloads([payload], work).items == [(1, (1,), (1,)), (2, (2,), (2,))]


@pytest.mark.parametrize(
    ("declared", "statement", "more"),
    [
        ("id INT KEY, m MAP<STRING, INT>", "CREATE STREAM o AS SELECT * FROM c;", JSON),
        ("id INT KEY, d ARRAY<DATE>", "CREATE STREAM o AS SELECT * FROM c;", JSON),
        ("id INT KEY, a STRING", "CREATE STREAM o AS SELECT a, id, UUID() AS u FROM c;", JSON),
        ("id INT KEY, a STRING", "CREATE STREAM o AS SELECT * FROM c;", "value_format='DELIMITED'"),
        (
            "id INT KEY, a STRING, at STRING",
            "CREATE STREAM o AS SELECT * FROM c;",
            f"{JSON}, timestamp='at', timestamp_format='yyyy'",
        ),
        ("id INT KEY, a STRING, h BYTES HEADER('h')", "CREATE STREAM o AS SELECT * FROM c;", JSON),
    ],
)
def test_sources_that_stay_raw(declared: str, statement: str, more: str) -> None:
    assert columnar_layout(planned(declared, statement, more), "c") is None


def test_small_batches_stay_raw() -> None:
    query = planned("id INT KEY, a STRING", "CREATE STREAM o AS SELECT * FROM c;")
    layout = columnar_layout(query, "c")
    assert layout is not None
    work = record_task_spec(query, (RecordLayout("c"), RecordLayout(TICKS), layout), TICKS)
    for count, are_raw in ((1, True), (layout.fewest, False)):
        records = [RawRecord(b"1", b'{"a":"x"}', 5, offset=i) for i in range(count)]
        (payload,) = partition_batch(batch("c", records, range(count)), work).column("payload").to_pylist()
        assert all(isinstance(item, RawRecord) is are_raw for item in read_payloads([payload], work).items)


def test_only_invalid_records_stay_raw() -> None:
    query = planned("id INT KEY, a STRING", "CREATE TABLE o AS SELECT id, COUNT(*) AS n FROM c GROUP BY id;")
    work = work_of(query, [], 1, opened=True)
    records = [RawRecord(b"1", b'{"a":"x"}', 5, offset=i) for i in range(1000)]
    records[700] = RawRecord(b"1", b"{", 5, offset=700)
    (payload,) = partition_batch(batch("c", records, range(1, 1001)), work).column("payload").to_pylist()
    arrived = read_payloads([payload], work)
    as_they_are = [item for item in arrived.items if isinstance(item, RawRecord)]
    assert len(arrived.items) == 1000
    assert [item.offset for item in as_they_are if item.value == b"{"] == [700]
    assert len(as_they_are) <= 256
