"""The chain inside Spark, over a bounded input: exactly the records that one chain in memory would write.

Rows are grouped in pages; each page runs through a chain of its own, in order of arrival. Where `paging` shows that a
record's results depend only on records of the same page, there are several, side by side; else there is one. Many
queries go in one job: rows carry the id of the query they are for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headrace.clock import SystemClock
from headrace.engine.batch.frames import python_function
from headrace.engine.batch.paging import Pages, pages_of
from headrace.engine.batch.records import INPUT, OUTPUT, OUTPUT_SPARK, output_row, raw_records, table
from headrace.engine.batch.shipping import Setup, no_setup, packed, shipped
from headrace.plan.chain.chain import runs
from headrace.plan.chain.contract import Context, Problem
from headrace.plan.chain.pipe import Pipe
from headrace.plan.chain.records import Raw
from headrace.plan.nodes import Query


@dataclass(frozen=True)
class Plans:
    """The queries of a run, as workers get them; `setup` runs first there, to declare functions of the user's own."""

    queries: Mapping[str, bytes]
    setup: Setup = no_setup
    pages: int = 1
    at: int | None = None
    """What time it is in this run, for functions that ask: the same in all tasks, and when one is tried again."""

    def query(self, name: str) -> Query:
        return shipped(self.queries[name], self.setup)


def plans(queries: Mapping[str, Query], setup: Setup = no_setup, *, pages: int = 1) -> Plans:
    made = {name: packed(query) for name, query in queries.items()}
    return Plans(made, setup, pages, SystemClock().now())


def run_all(rows: DataFrame, made: Plans) -> DataFrame:
    """Rows of INPUT, for any of the queries, as rows of OUTPUT."""
    paged = rows.withColumn("page", _page_column(made)) if made.pages > 1 else rows.withColumn("page", f.lit(0))

    def run_page(key: tuple[pa.Scalar, ...], page: pa.Table) -> pa.Table:
        return run_rows(made, key[0].as_py(), page)

    return paged.groupBy("query", "page").applyInArrow(run_page, OUTPUT_SPARK)


def run(rows: DataFrame, query: Query, *, pages: int = 1) -> DataFrame:
    """One query over rows of INPUT; their `query` need not be filled."""
    named = rows.select(f.lit(query.id).alias("query"), *(name for name in INPUT.names if name != "query"))
    return run_all(named, plans({query.id: query}, pages=pages))


def written(results: DataFrame) -> DataFrame:
    """The records for the sink's topic, in order."""
    there = results.where(f.col("problem").isNull()).orderBy("sequence", "index")
    return there.select("topic", "key", "value", "time", "headers")


def problems(results: DataFrame) -> DataFrame:
    """What could not be used, in order."""
    there = results.where(f.col("problem").isNotNull()).orderBy("sequence", "index")
    return there.select("query", "problem.*", "time", "key", "value")


# -- in a worker ----------------------------------------------------------------------------------------------------


def run_rows(made: Plans, name: str, rows: pa.Table) -> pa.Table:
    """A page's rows through a new chain."""
    query = made.query(name)
    work = _Work(query, made.at)
    several = made.pages > 1 and pages_of(query).are_several
    for upto, topic, records in _steps(rows, one_by_one=several):
        work.feed(upto, topic, records)
    return table([output_row(name, place, query.sink.topic, item) for place, item in work.out], OUTPUT)


def _steps(rows: pa.Table, *, one_by_one: bool) -> Iterator[tuple[int, str, list[Raw]]]:
    """What is fed at once: with several pages single records, since the places of results are compared across pages."""
    records = raw_records(rows)
    if one_by_one:
        yield from ((sequence, topic, [record]) for sequence, topic, record in records)
        return
    for topic, items in runs((topic, (sequence, record)) for sequence, topic, record in records):
        yield items[-1][0], topic, [record for _, record in items]


@dataclass
class _Work:
    """A query at work on a page, with what came out and where."""

    query: Query
    at: int | None
    out: list[tuple[tuple[int, int], Raw | Problem]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._upto = self._index = 0
        self._pipe = Pipe(self.query, Context(lambda name: {}, self._put, now=lambda: self.at))

    def feed(self, upto: int, topic: str, records: list[Raw]) -> None:
        self._upto, self._index = upto, 0
        for record in self._pipe.feed(topic, records):
            self._put(record)

    def _put(self, item: Raw | Problem) -> None:
        self.out.append(((self._upto, self._index), item))
        self._index += 1


def _page_column(made: Plans) -> Column:
    def page(*columns: pa.Array) -> pa.Array:
        queries, topics, *rest = (column.to_pylist() for column in columns)
        found = (
            _pages(made, query).page(topic, Raw(*record), made.pages)
            for query, topic, *record in zip(queries, topics, *rest, strict=True)
        )
        return pa.array(found, pa.int32())

    return python_function(page, pa.int32())("query", "topic", "key", "value", "time")


def _pages(made: Plans, name: str) -> Pages:
    return _pages_of(made.queries[name], made.setup)


@lru_cache(64)
def _pages_of(data: bytes, setup: Setup) -> Pages:
    return pages_of(shipped(data, setup))
