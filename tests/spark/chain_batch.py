"""Runs the chain inside Spark, over a bounded input: it writes exactly the records of one chain in memory.

Rows are grouped by key group; each key group runs through a chain of its own, in order of arrival. Where
`plan.analysis.partitioning` shows that a record's results depend only on records of the same key group, there are
several in parallel; else there is one. One job can run many queries: rows carry the id of their query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headrace.clock import SystemClock
from headrace.engine.sparksql.frames import python_function
from headrace.engine.sparksql.record_frames import INPUT, OUTPUT, OUTPUT_SPARK, output_row, raw_records, rows_table
from headrace.plan.analysis.partitioning import KeyGroupAssigner, key_group_assigner
from headrace.plan.chain.contract import Context, Problem
from headrace.plan.chain.interpreter import group_by_topic
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup, load_plan, no_setup, serialize_plan


@dataclass(frozen=True)
class QueryPlans:
    """The queries of a run, serialized for workers; `setup` runs there first, to declare the user's functions."""

    queries: Mapping[str, bytes]
    setup: Setup = no_setup
    key_groups: int = 1
    at: int | None = None
    """The current time of this run, for functions that need it: the same in all tasks, and in retries."""

    def query(self, name: str) -> Query:
        return load_plan(self.queries[name], self.setup)


def query_plans(queries: Mapping[str, Query], setup: Setup = no_setup, *, key_groups: int = 1) -> QueryPlans:
    made = {name: serialize_plan(query) for name, query in queries.items()}
    return QueryPlans(made, setup, key_groups, SystemClock().now())


def run_queries(rows: DataFrame, made: QueryPlans) -> DataFrame:
    """Runs the queries over rows of INPUT; returns rows of OUTPUT."""
    grouped = (
        rows.withColumn("page", _key_group_column(made)) if made.key_groups > 1 else rows.withColumn("page", f.lit(0))
    )

    def run_key_group(key: tuple[pa.Scalar, ...], group: pa.Table) -> pa.Table:
        return run_key_group_rows(made, key[0].as_py(), group)

    return grouped.groupBy("query", "page").applyInArrow(run_key_group, OUTPUT_SPARK)


def run_query(rows: DataFrame, query: Query, *, key_groups: int = 1) -> DataFrame:
    """Runs one query over rows of INPUT; their `query` need not be filled."""
    named = rows.select(f.lit(query.id).alias("query"), *(name for name in INPUT.names if name != "query"))
    return run_queries(named, query_plans({query.id: query}, key_groups=key_groups))


def written_records(results: DataFrame) -> DataFrame:
    """The records for the sink's topic, in order."""
    there = results.where(f.col("problem").isNull()).orderBy("sequence", "index")
    return there.select("topic", "key", "value", "time", "headers")


def problems(results: DataFrame) -> DataFrame:
    """The records and values that could not be used, in order."""
    there = results.where(f.col("problem").isNotNull()).orderBy("sequence", "index")
    return there.select("query", "problem.*", "time", "key", "value")


# -- in a worker ----------------------------------------------------------------------------------------------------


def run_key_group_rows(made: QueryPlans, name: str, rows: pa.Table) -> pa.Table:
    """Runs a key group's rows through a new chain."""
    query = made.query(name)
    work = _Work(query, made.at)
    several = made.key_groups > 1 and key_group_assigner(query).are_several
    for upto, topic, records in _steps(rows, one_by_one=several):
        work.feed(upto, topic, records)
    return rows_table([output_row(name, place, query.sink.topic, item) for place, item in work.out], OUTPUT)


def _steps(rows: pa.Table, *, one_by_one: bool) -> Iterator[tuple[int, str, list[RawRecord]]]:
    """The records per feed: with several key groups one each, as results are ordered across key groups."""
    records = raw_records(rows)
    if one_by_one:
        yield from ((sequence, topic, [record]) for sequence, topic, record in records)
        return
    for topic, items in group_by_topic((topic, (sequence, record)) for sequence, topic, record in records):
        yield items[-1][0], topic, [record for _, record in items]


@dataclass
class _Work:
    """A query over one key group, with its output and the order of it."""

    query: Query
    at: int | None
    out: list[tuple[tuple[int, int], RawRecord | Problem]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._upto = self._index = 0
        self._pipe = Pipeline(self.query, Context(lambda name: {}, self._put, now=lambda: self.at))

    def feed(self, upto: int, topic: str, records: list[RawRecord]) -> None:
        self._upto, self._index = upto, 0
        for record in self._pipe.feed(topic, records):
            self._put(record)

    def _put(self, item: RawRecord | Problem) -> None:
        self.out.append(((self._upto, self._index), item))
        self._index += 1


def _key_group_column(made: QueryPlans) -> Column:
    def key_group(*columns: pa.Array) -> pa.Array:
        queries, topics, *rest = (column.to_pylist() for column in columns)
        found = (
            _assigner(made, query).key_group(topic, RawRecord(*record), made.key_groups)
            for query, topic, *record in zip(queries, topics, *rest, strict=True)
        )
        return pa.array(found, pa.int32())

    return python_function(key_group, pa.int32())("query", "topic", "key", "value", "time")


def _assigner(made: QueryPlans, name: str) -> KeyGroupAssigner:
    return _assigner_of(made.queries[name], made.setup)


@lru_cache(64)
def _assigner_of(data: bytes, setup: Setup) -> KeyGroupAssigner:
    return key_group_assigner(load_plan(data, setup))
