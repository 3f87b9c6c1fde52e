"""Holds what the job wrote against an undisturbed run of every query in memory, record by record for each key.

On the embedded log a query's input has one order, and what was fed is run whole, through a world in memory, as well. On
Kafka the order is that of the query's journalled cuts. The third answer is that of `headrace verify`, one batch on
Spark.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from tests.faults.engine.job import PROGRAM, SCRIPT, Fed
from tests.faults.log.verify import DUPLICATE, LOST, Findings
from tests.memory_and_spark import stored, written

from headrace.contracts import Log, dead_letter_topic
from headrace.control.queries.supervisor import checkpoint_folder
from headrace.control.verify.query import verify
from headrace.control.verify.targets import VerifyTarget
from headrace.engine.checkpoint import Checkpoint
from headrace.engine.io.kafka_source import Cut
from headrace.engine.spark.session import SparkSession
from headrace.log.embedded import EmbeddedLog
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.plan.steps import Context, Problem, Store
from headrace.record import StoredRecord
from headrace.settings import Settings
from headrace.testing.world import World

DIFFERS = "differing"
Output = tuple[bytes | None, bytes | None, int]
Letter = tuple[str, bytes | None, bytes | None]
"""Of a dead letter: why, key and value."""
Input = tuple[str, RawRecord]
Row = tuple[Any, ...]
"""An output, a letter, or the cells of another."""


def queries() -> list[Query]:
    world = World(live=False)
    world.execute(SCRIPT)
    return [running.query for running in world.running.values()]


def check(log: Log, given: Settings, fed: Sequence[Fed], spark: SparkSession | None = None) -> Findings:
    """Everything that the job wrote; with Spark, beside the batch answer too."""
    found = Findings(facts=len(fed))
    for topic in sorted({record[0] for record in fed}):
        wanted = [record[1:] for record in fed if record[0] == topic]
        if isinstance(log, EmbeddedLog):
            compare(f"fed {topic}", wanted, _in_order(log, topic), found)
        else:
            compare(f"fed {topic}", _keyed_first(wanted), _keyed_first(written(log, topic)), found)
    for query in queries():
        check_query(log, given, query, found, spark)
    if isinstance(log, EmbeddedLog):
        for topic, wanted in _world(fed).items():
            compare(f"{topic} beside a whole world", wanted, written(log, topic), found)
    return found


def _in_order(log: Log, topic: str) -> list[Output]:
    rows = sorted(stored(log, topic), key=lambda row: row.sequence or 0)
    return [(row.key, row.value, row.timestamp) for row in rows]


def _keyed_first(rows: Sequence[Output]) -> list[Output]:
    """Records without a key lie in any partition, and partitions have no order among them."""
    return [*(row for row in rows if row[0] is not None), *sorted((r for r in rows if r[0] is None), key=repr)]


def check_query(log: Log, given: Settings, query: Query, found: Findings, spark: SparkSession | None) -> None:
    inputs = arrived(log, given, query)
    topic, dead = query.sink.topic, dead_letter_topic(query.sink.topic)
    got = written(log, topic)
    wanted, letters = undisturbed(query, inputs)
    found.rows += len(got)
    compare(topic, wanted, got, found)
    compare(dead, sorted(letters, key=repr), sorted(map(_letter, stored(log, dead)), key=repr), found, at=1)
    if spark is not None:
        check_answer(log, given, query, found, spark)


def arrived(log: Log, given: Settings, query: Query) -> list[Input]:
    """What the query read, in the order in which it read it."""
    rows = [row for source in dict.fromkeys(s.topic for s in query.sources) for row in stored(log, source)]
    if isinstance(log, EmbeddedLog):
        return [_input(row) for row in sorted(rows, key=lambda row: row.sequence or 0)]
    manifest = Checkpoint(given.storage.data / "checkpoints" / PROGRAM / query.id).manifest
    assert manifest is not None
    cuts = [Cut(**json.loads(row.value or b"{}")) for row in stored(log, f"__cuts.{manifest.run}")]
    ordered = sorted(rows, key=_by_time if manifest.state or len(query.sources) > 1 else _by_place)
    return [_input(row) for cut in cuts for row in ordered if _is_in(row, cut)]


def _by_time(row: StoredRecord) -> tuple[object, ...]:
    return row.timestamp, row.topic, row.partition, row.offset


def _by_place(row: StoredRecord) -> tuple[object, ...]:
    """Where nothing is kept, and one topic read, records are not brought together: partitions keep their order."""
    return row.topic, row.partition, row.offset


def _is_in(row: StoredRecord, cut: Cut) -> bool:
    start, end = (side.get(row.topic, {}).get(str(row.partition), 0) for side in (cut.start, cut.end))
    return start <= row.offset < end


def _input(row: StoredRecord) -> Input:
    return row.topic, RawRecord(row.key, row.value, row.timestamp, (), row.partition, row.offset)


# -- answers --------------------------------------------------------------------------------------------------------


def undisturbed(query: Query, inputs: Iterable[Input]) -> tuple[list[Output], list[Letter]]:
    """What one chain in memory writes."""
    stores: defaultdict[str, Store] = defaultdict(dict)
    letters: list[Letter] = []
    pipe = Pipeline(query, Context(stores.__getitem__, lambda problem: letters.append(_told(problem))))
    written = [record for topic, record in inputs for record in pipe.feed(topic, [record])]
    return [(record.key, record.value, record.time) for record in written], letters


def _told(problem: Problem) -> Letter:
    shown = (x if x is None or isinstance(x, bytes) else repr(x).encode() for x in (problem.key, problem.row))
    return (problem.code, *shown)  # type: ignore[return-value]


def _letter(row: StoredRecord) -> Letter:
    code = next(value for name, value in row.record.headers if name == "code")
    return (code or b"").decode(), row.key, row.value


def _world(fed: Iterable[Fed]) -> dict[str, list[Output]]:
    world = World(live=True)
    world.execute(SCRIPT)
    for topic, key, value, time in fed:
        world.produce(topic, key, value, time)
    sinks = [running.query.sink.topic for running in world.running.values()]
    return {topic: [(e.key, e.value, e.timestamp) for e in world.topics[topic]] for topic in sinks}


def check_answer(log: Log, given: Settings, query: Query, found: Findings, spark: SparkSession) -> None:
    subject = VerifyTarget(query, checkpoint_folder(given.storage.data / "checkpoints" / PROGRAM, query.id))
    for one in verify(log, given, subject, spark=spark).differences:
        kind = DIFFERS if one.expected and one.found else LOST if one.expected else DUPLICATE
        where = f"{query.sink.topic} beside the batch answer, key {one.key}"
        found.add(kind, f"{where}: {one.found} instead of {one.expected}")


# -- comparison -----------------------------------------------------------------------------------------------------


def compare(topic: str, wanted: Iterable[Row], got: Iterable[Row], found: Findings, at: int = 0) -> None:
    """Hold records against those that should be there; `at` is where a key stands."""
    expected, there = _by_key(wanted, at), _by_key(got, at)
    for key in dict.fromkeys([*expected, *there]):
        if expected.get(key, []) != there.get(key, []):
            _name(f"{topic}, key {key!r}", expected.get(key, []), there.get(key, []), found)


def _by_key(rows: Iterable[Row], at: int) -> dict[object, list[Row]]:
    found: defaultdict[object, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[at]].append(row)
    return dict(found)


def _name(where: str, wanted: list[Row], got: list[Row], found: Findings) -> None:
    """Say what is wrong with a key's records: lost, there too often, or others than they should be."""
    missing, more = Counter(wanted) - Counter(got), Counter(got) - Counter(wanted)
    again = [row for row in more.elements() if row in set(wanted)]
    strange = [row for row in more.elements() if row not in set(wanted)]
    lost = list(missing.elements())
    for row in strange:
        found.add(DIFFERS, f"{where}: {row} instead of {lost.pop(0) if lost else 'nothing'}")
    for row in again:
        found.add(DUPLICATE, f"{where}: {row} is there {Counter(got)[row]} times, not {Counter(wanted)[row]}")
    for row in lost:
        found.add(LOST, f"{where}: {row}")
    if not missing and not more:
        found.add(DIFFERS, f"{where}: the records stand in another order")
