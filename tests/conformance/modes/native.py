"""Queries that can run natively, run a second time by Spark's own operators: both ways must come to the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.conformance import corpus_functions

from headrace.engine.planning.sparksql_support import BatchMode, choose_batch_mode
from headrace.engine.sparksql import operators
from headrace.engine.sparksql.record_frames import headers_of, records_frame
from headrace.plan.analysis.partitioning import scalar_calls
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Aggregate, Query, walk
from headrace.plan.relations import Kind

AT_ONCE = 24
"""Queries in one Spark job: more, and Spark takes longer to plan the job than to run it."""

Inputs = Mapping[str, Sequence[tuple[str, RawRecord]]]


def is_native(query: Query) -> bool:
    """Workers do not know the functions of the corpus, so queries that call them are left out."""
    nodes = list(walk(query.sink))
    called = {name.upper() for node in nodes for name in scalar_calls(vars(node))}
    called |= {call.function.upper() for node in nodes if isinstance(node, Aggregate) for call in node.calls}
    own = {
        function.name
        for function in (*corpus_functions.SCALARS, *corpus_functions.TABLES, *corpus_functions.AGGREGATES)
    }
    return not called & own and choose_batch_mode(query).mode is BatchMode.NATIVE


def answer(query: Query, records: Sequence[RawRecord]) -> object:
    """What must be the same: of a stream all records in order, of a table the last of each key."""
    if query.sink.relation.kind is Kind.STREAM:
        return list(records)
    last = {record.key: record.value for record in records}
    return {key: value for key, value in last.items() if value is not None}


def written(session: SparkSession, queries: Mapping[str, Query], inputs: Inputs) -> dict[str, list[RawRecord]]:
    """What each query writes natively, in order."""
    found: defaultdict[str, list[RawRecord]] = defaultdict(list)
    names = list(queries)
    for start in range(0, len(names), AT_ONCE):
        for row in _rows(session, {name: queries[name] for name in names[start : start + AT_ONCE]}, inputs):
            found[row["query"]].append(RawRecord(row["key"], row["value"], row["time"], headers_of(row["headers"])))
    return found


def _rows(session: SparkSession, queries: Mapping[str, Query], inputs: Inputs) -> Iterator[Mapping[str, Any]]:
    records = (
        records_frame(session, [(name, *record) for name in queries for record in inputs[name]]).coalesce(1).cache()
    )
    parts = [
        operators.run_encoded(records.where(f.col("query") == name), query).withColumn("query", f.lit(name))
        for name, query in queries.items()
    ]
    rows = reduce(DataFrame.unionByName, parts).toArrow().to_pylist()
    records.unpersist()
    return iter(sorted(rows, key=itemgetter("sequence", "place")))
