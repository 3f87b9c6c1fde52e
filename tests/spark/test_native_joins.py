"""Stream with stream natively: Spark's own join beside the chain in memory.

Input comes in pieces, with the query stopped and started again in between, and is cut into small batches. What is
written must be the same, in the same order for each key; so must the dead letters.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

from headrace.contracts import HEADERS_TYPE, Append, TopicSpec, dead_letter_topic
from headrace.engine.io.embedded_source import open_view
from headrace.engine.native.compiler import compile_native_query
from headrace.engine.native.stream_join.embedded_source import JoinReader, SpanResult
from headrace.engine.native.stream_join.task_spec import JoinTaskSpec, join_task_spec
from headrace.engine.planning.native_support import NATIVE, RECORD, choose_native
from headrace.engine.query import ensure_topic
from headrace.log.embedded import EmbeddedLog
from headrace.plan.nodes import Query
from headrace.settings import Settings
from tests import memory_and_spark
from tests.spark.conftest import drain
from tests.spark.join_inputs import SCHEMAS, STREAMS, Arrival, arrivals, as_records, batch, raw_appends, typed_appends
from tests.spark.native_runner import assert_same, halves, in_memory, natively, planned

pytestmark = pytest.mark.spark

CUT = Settings.of(query_max_batch_rows=17)
PLANS = {
    "inner": "CREATE STREAM o AS SELECT a.id, x, y FROM a JOIN b WITHIN 4 SECONDS GRACE PERIOD 1 SECOND"
    " ON a.id = b.id;",
    "patient": "CREATE STREAM o AS SELECT * FROM a JOIN b WITHIN 2 SECONDS GRACE PERIOD 30 SECONDS ON a.id = b.id;",
    "after": "CREATE STREAM o AS SELECT * FROM a JOIN b WITHIN (0 SECONDS, 5 SECONDS) GRACE PERIOD 2 SECONDS"
    " ON a.id = b.id WHERE x > 0;",
    "rekeyed": "CREATE STREAM o AS SELECT u, a.id, x + 1 AS z, b.id, y FROM a JOIN b WITHIN 4 SECONDS"
    " GRACE PERIOD 3 SECONDS ON a.u = b.w;",
    "parted": "CREATE STREAM o AS SELECT a.id AS i, x, b.w AS w FROM a JOIN b WITHIN 4 SECONDS GRACE PERIOD 1 SECOND"
    " ON a.id = b.id PARTITION BY b.w;",
    "nowhere": "CREATE STREAM o AS SELECT a.id, x, b.ROWTIME AS r FROM a JOIN b WITHIN 0 SECONDS GRACE PERIOD 1 SECOND"
    " ON a.id = b.id;",
}


def topics(log: EmbeddedLog, *, raw: bool = False, partitions: int = 1) -> dict[str, Any]:
    specs = {name: TopicSpec(partitions=partitions, schema=SCHEMAS[name]) for name in SCHEMAS}
    return {name: log.create_topic(name, TopicSpec() if raw else spec) for name, spec in specs.items()}


@pytest.mark.parametrize("name", PLANS)
def test_pairs_are_those_of_the_chain(name: str, spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    query = planned(STREAMS + PLANS[name])
    assert choose_native(query, topics(log)).way == NATIVE
    rows = arrivals(len(name) + 20, 60, spread=100 if name == "nowhere" else 1_000)
    rows = [(t, row, at // 500 * 500) for t, row, at in rows] if name == "nowhere" else rows
    found = natively(spark, log, query, [typed_appends(part) for part in halves(rows)], tmp_path / "q", CUT)
    wanted = in_memory(query, as_records(rows))
    assert_same(query, found, wanted)
    assert len(wanted.written) > 5
    assert sum(report.records for report in found.reports) == len(rows)


# -- which rows the reader gives, and when ---------------------------------------------------------------------------

ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from(["k", "k", "m", None]),
        st.integers(0, 40),
        st.sampled_from([True] * 9 + [False]),
    ),
    min_size=1,
    max_size=50,
)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(made=ROWS, name=st.sampled_from(["inner", "patient", "after"]), cut=st.integers(1, 50), lag=st.integers(0, 60))
def test_no_pair_is_lost_to_the_watermark(
    made: list[tuple[str, str | None, int, bool]], name: str, cut: int, lag: int, tmp_path_factory: Any
) -> None:
    """Without Spark: however the log is cut, and however far one side is behind the other, the rows that the reader
    gives make the chain's pairs by the join's condition, though rows behind the watermark are dropped."""
    query = planned(STREAMS + PLANS[name].replace("WHERE x > 0", ""))
    rows: list[Arrival] = [
        (topic, {**BLANK[topic], "id": key} if there else None, at * 1_000 + (lag * 1_000 if topic == "b" else 0))
        for topic, key, at, there in made
    ]
    with EmbeddedLog(tmp_path_factory.mktemp("log"), Settings.of(storage_maintenance_interval=timedelta(0))) as log:
        topics(log)
        for append in typed_appends(rows):
            log.append([append])
        wanted = in_memory(query, as_records(rows))
        found = Model(log, query).run(cut)
        assert Counter(found.pairs) == Counter(time for _, _, time in wanted.written)
        assert found.dead == wanted.dead


BLANK = {"a": {"x": 1, "u": "u"}, "b": {"y": 1.0, "w": "w"}}


class Model:
    """Spark's join by hand: rows at or behind the watermark are dropped, and forgotten when they are out of reach."""

    def __init__(self, log: EmbeddedLog, query: Query) -> None:
        found = join_task_spec(query, "")
        assert found is not None
        self.work: JoinTaskSpec = found
        self.pairs: list[int] = []
        self.dead: Counter[str] = Counter()
        self._held: list[dict[str, Any]] = []
        self._reached = [-1, -1]
        given = {"folder": str(log.folder.resolve()), "topics": '["a", "b"]'}
        self._reader = JoinReader(given, [log.topic("a"), log.topic("b")], None, self.work)

    def run(self, cut: int) -> Model:
        reader = self._reader
        reader.prepareForTriggerAvailableNow()
        start, end = reader.initialOffset(), None
        while start != end:
            start = end or start
            end = reader.latestOffset(start, ReadMaxRows(cut))
            parts = reader.partitions(start, end) if end != start else ()
            self._batch([row for part in parts for row in self._rows(reader.taken(part))])
        reader.view.close()
        open_view.cache_clear()
        return self

    def _rows(self, taken: SpanResult) -> list[dict[str, Any]]:
        self.dead.update(taken.report.problems)
        return [row for given in taken.batches for row in given.to_pylist()]

    def _batch(self, rows: list[dict[str, Any]]) -> None:
        watermark = max(min(self._reached) - 1, 0)
        assert all(row["at"] > watermark for row in rows)
        for row in rows:
            self.pairs += [max(row["time"], other["time"]) for other in self._held if self._meet(row, other)]
            self._held.append(row)
            self._reached[row["side"]] = max(self._reached[row["side"]], row["at"])
        self._held = [row for row in self._held if row["at"] >= watermark - self.work.bounds.retention]

    def _meet(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        """The condition that Spark gets, in Python."""
        left, right = (one, other) if one["side"] == 0 else (other, one)
        first, second = sorted((one, other), key=lambda row: row["sequence"])
        bounds = self.work.bounds
        close = -bounds.before <= right["time"] - left["time"] <= bounds.after
        held = first["time"] > second["now"] - bounds.retention
        near = abs(left["at"] - right["at"]) <= bounds.retention
        return left["side"] != right["side"] and left["l_k0"] == right["r_k0"] and close and held and near


# -- Spark's own part ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lag", [0, 20_000], ids=["together", "apart"])
def test_spark_drops_no_row_and_state_is_cleaned(
    lag: int, spark: SparkSession, log: EmbeddedLog, tmp_path: Path
) -> None:
    query = planned(STREAMS + PLANS["patient" if lag else "inner"])
    topics(log)
    rows, progress = arrivals(3, 240, lag=lag), list[dict]()
    for topic in ("O", dead_letter_topic("O")):
        ensure_topic(log, topic)
    for part in halves(rows):
        for append in typed_appends(part):
            log.append([append])
        flow = compile_native_query(spark, log, query, Settings.of(query_max_batch_rows=40), tmp_path / "q", "run")
        progress += drain(flow.rows, flow.write, tmp_path / "q" / "spark", flow.mode)
    wanted = in_memory(query, as_records(rows))
    assert memory_and_spark.by_key(memory_and_spark.written(log, "O")) == memory_and_spark.by_key(
        [(r[0], r[1], r[2]) for r in wanted.written]
    )
    assert log.bounds(dead_letter_topic("O"))[0].end == wanted.dead.total()
    operators = [batch["stateOperators"][0] for batch in progress]
    kept = [sum(o["numRowsUpdated"] - o["numRowsRemoved"] for o in operators[: i + 1]) for i in range(len(operators))]
    assert sum(operator["numRowsDroppedByWatermark"] for operator in operators) == 0
    assert kept[-1] < max(kept[: len(kept) // 2]) * 2


def test_a_batch_that_runs_again_changes_nothing(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    query = planned(STREAMS + PLANS["inner"])
    topics(log)
    rows = arrivals(5, 80)
    pieces = [typed_appends(part) for part in halves(rows)]
    found = natively(
        spark, log, query, [*pieces, []], tmp_path / "q", Settings.of(query_max_batch_rows=25), forget=True
    )
    assert_same(query, found, in_memory(query, as_records(rows)))


def test_topics_of_several_partitions(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    query = planned(STREAMS + PLANS["patient"])
    topics(log, partitions=3)
    rows = arrivals(6, 60)
    appends = [append for row in rows for append in typed_appends([row])]
    found = natively(spark, log, query, [appends[:25], appends[25:]], tmp_path / "q", CUT)
    assert_same(query, found, in_memory(query, as_records(rows)))


def test_raw_topics(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    query = planned(STREAMS + PLANS["rekeyed"])
    assert choose_native(query, topics(log, raw=True)).way == NATIVE
    rows = arrivals(8, 300)  # enough to be read as columns
    bad = Append("a", pa.RecordBatch.from_pydict({"value": pa.array([b"{", b"3"], pa.binary())}))
    pieces = [[*raw_appends(part), bad] for part in halves(rows)]
    found = natively(spark, log, query, pieces, tmp_path / "q", Settings.of(query_max_batch_rows=160))
    assert found.dead.pop("bad-record") == 4
    assert_same(query, found, in_memory(query, as_records(rows)))


def test_a_pair_has_the_headers_of_the_row_that_came_second(
    spark: SparkSession, log: EmbeddedLog, tmp_path: Path
) -> None:
    query = planned(STREAMS + PLANS["inner"])
    topics(log)
    rows: list[Arrival] = [("a", {"id": "k", "x": 1, "u": "u"}, 10), ("b", {"id": "k", "y": 2.0, "w": "w"}, 20)]
    headers = [pa.array([[{"name": "n", "value": value}]], HEADERS_TYPE) for value in (b"first", b"second")]
    appends = [
        Append(row[0], batch(row[0], [row]).append_column("$headers", header))
        for row, header in zip(rows, headers, strict=True)
    ]
    found = natively(spark, log, query, [appends], tmp_path / "q")
    assert_same(query, found, in_memory(query, as_records(rows)))
    (record,) = log.read("O", 0, 0, max_records=10).records()
    assert record.record.headers == (("n", b"second"),)


REFUSED = {
    "CREATE STREAM o AS SELECT * FROM a JOIN b WITHIN 3 SECONDS ON a.id = b.id;": "looks through all of them",
    "CREATE STREAM o AS SELECT * FROM a LEFT JOIN b WITHIN 1 SECOND GRACE PERIOD 1 SECOND ON a.id = b.id;"
    "": "goes out without a partner",
    "CREATE STREAM o AS SELECT * FROM a JOIN b WITHIN 1 SECOND ON UCASE(a.id) = b.id;": "computes its key",
    "CREATE TABLE o AS SELECT a.id, COUNT(*) AS n FROM a JOIN b WITHIN 1 SECOND ON a.id = b.id GROUP BY a.id;"
    "": "is grouped",
    "CREATE STREAM c (id STRING KEY, z INT) WITH (kafka_topic='a', format='JSON');"
    "CREATE STREAM o AS SELECT * FROM a JOIN c WITHIN 1 SECOND ON a.id = c.id;": "read one topic",
    "CREATE STREAM o AS SELECT a.id, x / 0 AS n FROM a JOIN b WITHIN 1 SECOND GRACE PERIOD 1 SECOND ON a.id = b.id;"
    "": "may fail",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_left_to_the_record_way_says_why(statement: str, log: EmbeddedLog) -> None:
    choice = choose_native(planned(STREAMS + statement), topics(log))
    assert choice.way == RECORD
    assert REFUSED[statement] in str(choice)
