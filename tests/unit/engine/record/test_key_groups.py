"""Key groups compared with one chain: random statements, partitioned by key, split into any batches and tasks.

What a key went through must be the same, and so must what was reported; over several key
groups nothing else has an order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.contracts import SYSTEM_COLUMNS, Batch
from headrace.engine.io.row_payloads import payload_rows
from headrace.engine.record.chain_operator import run_records
from headrace.engine.record.results import can_merge_changes
from headrace.engine.record.shuffle.partitioner import partition_batch
from headrace.engine.record.shuffle.payloads import read_payloads
from headrace.engine.record.state import KeyGroupState
from headrace.engine.record.task_spec import RecordTaskSpec, record_task_spec
from headrace.engine.task_report import TaskReport
from headrace.plan.analysis.partitioning import key_group_assigner
from headrace.plan.analysis.record_layout import RecordLayout
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.plan.relations import Kind
from headrace.plan.steps import Context
from headrace.testing.world import World
from tests.ksql_strategies import Example, examples
from tests.spark.sample_plans import RECORD_MODE_PLANS, SAMPLE_PLANS, SamplePlan
from tests.unit.engine.record.memory_state_storage import MemoryStateStorage

quick = settings(deadline=None, suppress_health_check=list(HealthCheck))
TICKS = "ticks"
Record = tuple[bytes | None, bytes | None, int]
Input = tuple[str, RawRecord]


class Case(NamedTuple):
    query: Query
    records: Sequence[Input]


def in_memory(example: Case) -> tuple[list[Record], Counter[str]]:
    problems: Counter[str] = Counter()
    pipe = Pipeline(example.query, Context(report=lambda problem: problems.update([problem.code])))
    return [(r.key, r.value, r.time) for r in pipe.run(example.records)], problems


def in_key_groups(
    example: Case, key_groups: int, cuts: Iterable[int], tasks: int, *, merges: bool = False
) -> tuple[list[Record], Counter[str]]:
    topics = dict.fromkeys([*(s.topic for s in example.query.sources), *(topic for topic, _ in example.records), TICKS])
    work = record_task_spec(example.query, tuple(map(RecordLayout, topics)), TICKS, key_groups, merges=merges)
    storages = defaultdict[int, MemoryStateStorage](MemoryStateStorage)
    out: list[Record] = []
    problems: Counter[str] = Counter()
    edges = [0, *sorted({cut for cut in cuts if cut < len(example.records)}), len(example.records)]
    for start, end in pairwise(edges):
        for key_group, payloads in _batch(example.records[start:end], start, work, tasks).items():
            state, report = KeyGroupState(storages[key_group], key_group=key_group), TaskReport(key_group)
            for topic, payload in run_records(work, read_payloads(payloads, work), state.store, report):
                if topic == example.query.sink.topic:
                    out += [tuple(row.values())[:3] for row in payload_rows(payload).to_pylist()]
            state.save()
            problems.update(report.problems)
    return out, problems


def _batch(inputs: Sequence[Input], base: int, work: RecordTaskSpec, tasks: int) -> dict[int, list[bytes]]:
    """As Spark's tasks would give them: pieces of a topic, of which the later ones may come first."""
    found: defaultdict[int, list[bytes]] = defaultdict(list)
    numbered = [(base + place + 1, topic, record) for place, (topic, record) in enumerate(inputs)]
    for topic in work.topics:
        mine = [(place, record) for place, name, record in numbered if name == topic]
        for task in reversed(range(tasks)):
            piece = mine[len(mine) * task // tasks : len(mine) * (task + 1) // tasks]
            if piece:
                rows = partition_batch(_rows(topic, piece), work)
                for key_group, payload in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                    found[key_group].append(payload)
    return found


def _rows(topic: str, piece: Sequence[tuple[int, RawRecord]]) -> Batch:
    columns = {name: pa.nulls(len(piece), kind) for name, kind in SYSTEM_COLUMNS.items()}
    columns |= {
        "key": pa.array([r.key for _, r in piece], pa.binary()),
        "value": pa.array([r.value for _, r in piece], pa.binary()),
        "$timestamp": pa.array([r.time for _, r in piece], pa.int64()),
        "$offset": pa.array([r.offset for _, r in piece], pa.int64()),
        "$sequence": pa.array([place for place, _ in piece], pa.int64()),
    }
    return Batch(topic, 0, pa.RecordBatch.from_arrays(list(columns.values()), list(columns)), 0)


def by_key(records: Iterable[Record]) -> dict[bytes | None, list[Record]]:
    found: defaultdict[bytes | None, list[Record]] = defaultdict(list)
    for record in records:
        found[record[0]].append(record)
    return dict(found)


def assert_same(query: Query, found: Sequence[Record], wanted: Sequence[Record]) -> None:
    parted = key_group_assigner(query, timed=True)
    if not parted.are_several:
        assert found == wanted
    elif parted.finders:
        assert by_key(found) == by_key(wanted)
    else:  # stateless: rows that get a new key have an order under the old one
        assert Counter(found) == Counter(wanted)


@quick
@given(examples(), st.sampled_from([1, 3]), st.sets(st.integers(1, 40), max_size=4), st.integers(1, 3))
def test_key_groups_give_the_results_of_one_chain(drawn: Example, key_groups: int, cuts: set[int], tasks: int) -> None:
    example = Case(drawn.query, drawn.records)
    parted = key_group_assigner(example.query, timed=True)
    wanted, reported = in_memory(example)
    found, told = in_key_groups(example, key_groups if parted.are_several else 1, cuts, tasks)
    assert told == reported
    assert_same(example.query, found, wanted)


@quick
@given(examples(), st.sampled_from([1, 3]), st.sets(st.integers(1, 40), max_size=4))
def test_merged_changes_give_the_same_table(drawn: Example, key_groups: int, cuts: set[int]) -> None:
    example = Case(drawn.query, drawn.records)
    several = key_groups if key_group_assigner(example.query, timed=True).are_several else 1
    every, told = in_key_groups(example, several, cuts, 1)
    found, told_too = in_key_groups(example, several, cuts, 1, merges=can_merge_changes(example.query))
    if example.query.sink.relation.kind is Kind.STREAM:
        assert found == every
    else:
        assert {key: of[-1] for key, of in by_key(found).items()} == {key: of[-1] for key, of in by_key(every).items()}
        assert all(set(of) <= set(by_key(every)[key]) for key, of in by_key(found).items())
    assert told_too == told


SAMPLES = (*SAMPLE_PLANS, *RECORD_MODE_PLANS)


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample.name for sample in SAMPLES])
def test_sample_plans_give_what_one_chain_gives(sample: SamplePlan) -> None:
    example, several = Case(sample.query, sample.records), key_group_assigner(sample.query, timed=True).are_several
    wanted, reported = in_memory(example)
    assert in_key_groups(example, 1, [4, 9], tasks=2) == (wanted, reported)
    found, told = in_key_groups(example, 3 if several else 1, [4, 9], tasks=2)
    assert told == reported
    assert_same(example.query, found, wanted)


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample.name for sample in SAMPLES])
def test_only_plans_that_follow_one_key_have_several_key_groups(sample: SamplePlan) -> None:
    single = {"distinct-on", "count-by-table", "streams", "table-count", "distinct-windows"}
    single |= {"tumbling", "hopping", "session", "final"}
    assert key_group_assigner(sample.query).are_several is (sample.name not in single)


SOURCE = """
CREATE STREAM c (id INT KEY, page STRING, n INT, at BIGINT)
  WITH (kafka_topic='c', format='JSON', partitions=1{timestamp});
"""
WINDOWS = (
    "TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 3 SECONDS)",
    "HOPPING (SIZE 10 SECONDS, ADVANCE BY 3 SECONDS, GRACE PERIOD 1 SECONDS)",
    "SESSION (4 SECONDS, GRACE PERIOD 2 SECONDS)",
)
COMPARED = ("ON (id) *", "id, n / 4 AS part", "ON (id, page) id, n")


@st.composite
def windowed(draw: st.DrawFn) -> Case:
    """Windowed counts, or the first of equal rows in each window, over rows that are often late."""
    timestamp = draw(st.sampled_from(["", ", timestamp='at'"]))
    where, emit = draw(st.sampled_from(["", "WHERE n > 3"])), draw(st.sampled_from(["", "EMIT FINAL"]))
    world = World(live=False)
    world.execute(SOURCE.format(timestamp=timestamp))
    counted = (
        f"CREATE TABLE o AS SELECT page, COUNT(*) AS k, SUM(n) AS s FROM c WINDOW {draw(st.sampled_from(WINDOWS))}"
        f" {where} GROUP BY page {emit};"
    )
    first = f"CREATE STREAM o AS SELECT DISTINCT {draw(st.sampled_from(COMPARED))} FROM c WINDOW {WINDOWS[0]} {where};"
    world.execute(draw(st.sampled_from([counted, first])))
    (running,) = world.running.values()
    now, records = 100_000, []
    for offset in range(draw(st.integers(1, 40))):
        now += draw(st.sampled_from([0, 100, 500, 3000]))
        at = now - draw(st.sampled_from([0, 0, 0, 1000, 4000, 20_000]))
        page, n = draw(st.sampled_from(['"a"', '"b"', '"c"', "null"])), draw(st.integers(0, 9))
        value = f'{{"PAGE": {page}, "N": {n}, "AT": {at + draw(st.sampled_from([0, 500, -500]))}}}'
        payload = draw(st.sampled_from([value, value, value, value, None, "x"]))
        key = draw(st.sampled_from([b"1", b"2", b"3", None]))
        records.append(("c", RawRecord(key, None if payload is None else payload.encode(), at, offset=offset)))
    return Case(running.query, records)


@quick
@given(windowed(), st.sets(st.integers(1, 40), max_size=4), st.integers(1, 3))
def test_windows_close_in_all_key_groups_at_the_same_moment(example: Case, cuts: set[int], tasks: int) -> None:
    assert key_group_assigner(example.query, timed=True).are_several
    wanted, reported = in_memory(example)
    found, told = in_key_groups(example, 3, cuts, tasks)
    assert told == reported
    assert by_key(found) == by_key(wanted)
