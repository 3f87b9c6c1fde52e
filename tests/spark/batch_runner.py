"""Plans with their inputs, run in memory, by the chain on Spark, and natively: what the batch tests share.

Everything is compared as bytes: a stream record by record, a table as the last record of each key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import itemgetter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.engine.sparksql import operators
from headrace.engine.sparksql.record_frames import records_frame
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.plan.relations import Kind
from headrace.testing.world import World
from tests.spark import chain_batch

Record = tuple[bytes | None, bytes | None, int]
Results = dict[str, list[Record]]


@dataclass(frozen=True)
class SamplePlan:
    """Statements, of which the last is a query, and records: topic, key, value, time."""

    name: str
    statements: str
    inputs: Sequence[tuple[str, str | None, str | None, int]]

    @cached_property
    def query(self) -> Query:
        world = World(live=False)
        world.execute(self.statements)
        return list(world.running.values())[-1].query

    @cached_property
    def records(self) -> list[tuple[str, RawRecord]]:
        return [
            (topic, RawRecord(_bytes(key), _bytes(value), time, offset=offset))
            for offset, (topic, key, value, time) in enumerate(self.inputs)
        ]

    @property
    def in_memory(self) -> list[Record]:
        return [(r.key, r.value, r.time) for r in Pipeline(self.query).run(self.records)]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def records(spark: SparkSession, samples: Sequence[SamplePlan]) -> DataFrame:
    """In one partition: a task costs more than these rows."""
    return records_frame(spark, [(s.name, topic, record) for s in samples for topic, record in s.records]).coalesce(1)


def by_chain(spark: SparkSession, samples: Sequence[SamplePlan], *, key_groups: int = 1) -> Results:
    """All samples in one job."""
    plans = chain_batch.query_plans({sample.name: sample.query for sample in samples}, key_groups=key_groups)
    results = chain_batch.run_queries(records(spark, samples), plans).where("problem is null").toArrow().to_pylist()
    return _collected(sorted(results, key=itemgetter("sequence", "index")))


def natively(spark: SparkSession, samples: Sequence[SamplePlan]) -> Results:
    """All samples in one job."""
    rows = records(spark, samples).cache()
    parts = [
        operators.run_encoded(rows.where(f.col("query") == s.name), s.query).withColumn("query", f.lit(s.name))
        for s in samples
    ]
    results = reduce(DataFrame.unionByName, parts).toArrow().to_pylist()
    rows.unpersist()
    return _collected(sorted(results, key=itemgetter("sequence", "place")))


def _collected(rows: Sequence[Mapping]) -> Results:
    results: defaultdict[str, list[Record]] = defaultdict(list)
    for row in rows:
        results[row["query"]].append((row["key"], row["value"], row["time"]))
    return results


def answer(sample: SamplePlan, written: Sequence[Record]) -> object:
    """What a native run must give: of a stream all records, of a table the last of each key."""
    if sample.query.sink.relation.kind is Kind.STREAM:
        return list(written)
    last = {key: value for key, value, _ in written}
    return {key: value for key, value in last.items() if value is not None}
