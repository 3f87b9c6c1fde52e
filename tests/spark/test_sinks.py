"""What a query writes as columns, a second reads as it would have read the bytes; changes that are merged come to the
same table; and which way is chosen by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.contracts import Append
from headrace.control.program import Program
from headrace.errors import BadSetting, PlanChanged
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.log.topic_spec import ensure_topic
from headrace.record import Record
from headrace.settings import Settings, Size
from tests import memory_and_spark

STATEMENTS = """
CREATE STREAM clicks (id INT KEY, page STRING, spent BIGINT) WITH (kafka_topic='clicks', format='JSON', partitions=2);
CREATE STREAM copied AS SELECT id, page, spent * 2 AS spent FROM clicks WHERE spent > 1;
CREATE TABLE sums AS SELECT page, COUNT(*) AS n, SUM(spent) AS total FROM copied GROUP BY page;
CREATE TABLE few AS SELECT page, n, total FROM sums WHERE n < 5;
"""
INPUTS: Sequence[memory_and_spark.Input] = [
    ("clicks", str(n % 4), f'{{"PAGE": "/{n * n % 7}", "SPENT": {n % 5}}}' if n % 9 else None, 1000 + 10 * n)
    for n in range(60)
]


def run(
    log: EmbeddedLog, given: Settings, *pieces: Sequence[memory_and_spark.Input], statements: str = STATEMENTS
) -> list[str]:
    """A program over pieces; the ways of its queries."""
    ensure_topic(log, "clicks")
    with Program(log, given) as program:
        program.execute(statements)
        for piece in pieces:
            log_all(log, piece)
            program.wait(until_idle=True)
        return [running.execution_mode for running in program.running.values()]


def log_all(log: EmbeddedLog, piece: Sequence[memory_and_spark.Input]) -> None:
    """In one append: one batch, if there is room in it."""
    records = [Record(bytes_of(value), bytes_of(key), occurred_at=time) for _, key, value, time in piece]
    log.append([Append("clicks", from_records(records))])


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def table_of(records: Iterable[memory_and_spark.Output]) -> dict[bytes | None, tuple[bytes | None, int]]:
    last = {key: (value, time) for key, value, time in records}
    return {key: found for key, found in last.items() if found[0] is not None}


def test_a_second_query_reads_columns_as_it_reads_bytes(spark: SparkSession, tmp_path: Path) -> None:
    given = memory_and_spark.settings(tmp_path, query_sink_topics="typed")
    with EmbeddedLog(given.storage.data, given) as log:
        ensure_topic(log, "FEW")  # the last is looked at as bytes
        run(log, given, INPUTS[:25])
        run(log, given, INPUTS[25:40], INPUTS[40:])
        assert [str(log.topic(name).schema) for name in ("COPIED", "SUMS")] == [
            "ID int key, PAGE string, SPENT bigint",
            "PAGE string key, N bigint, TOTAL bigint",
        ]
        found = memory_and_spark.written(log, "FEW")
    assert memory_and_spark.by_key(found) == memory_and_spark.by_key(
        memory_and_spark.in_memory(STATEMENTS, INPUTS)["FEW"]
    )


@pytest.mark.parametrize(
    "more", [{"query_sink_topics": "typed"}, {"query_execution_mode": "record"}], ids=["native", "record"]
)
def test_merged_changes_give_the_same_table(more: dict, spark: SparkSession, tmp_path: Path) -> None:
    defaults = {"query_execution_mode": Settings().query.execution_mode, "query_emit": Settings().query.emit}
    given = memory_and_spark.settings(tmp_path, **{**defaults, **more})
    with EmbeddedLog(given.storage.data, given) as log:
        ensure_topic(log, "FEW")
        ways = run(log, given, INPUTS[:25], INPUTS[25:])
        found = memory_and_spark.written(log, "FEW")
        sums = log.bounds("SUMS")[0].end
    assert ways == ["record"] * 3 if "query_execution_mode" in more else ["native", "native", "record"]
    memory = memory_and_spark.in_memory(STATEMENTS, INPUTS)
    assert table_of(found) == table_of(memory["FEW"])
    assert sums < len(memory["SUMS"])


def test_an_assert_sees_every_change(spark: SparkSession, tmp_path: Path) -> None:
    given = Settings().replace(storage_data=tmp_path / "data", spark_driver_memory=Size(1 << 30))
    rows = "INSERT INTO clicks VALUES (1, '/', 20); INSERT INTO clicks VALUES (1, '/', 22);"
    held = "ASSERT VALUES sums (page, total) VALUES ('/', 40); ASSERT VALUES sums (page, total) VALUES ('/', 84);"
    with EmbeddedLog(given.storage.data, given) as log, Program(log, given) as program:
        program.execute(STATEMENTS.partition("CREATE TABLE few")[0] + rows + held)
        assert program.interpreter.assertions == 2


def test_a_resumed_query_keeps_its_execution_mode_and_emit(spark: SparkSession, tmp_path: Path) -> None:
    copied, sums = (STATEMENTS.partition(f"CREATE TABLE {name}")[0] for name in ("sums", "few"))
    given = memory_and_spark.settings(tmp_path, query_execution_mode="auto", query_emit="per-batch")
    with EmbeddedLog(given.storage.data, given) as log:
        assert run(log, given.replace(query_execution_mode="record"), INPUTS[:5], statements=copied) == ["record"]
        assert run(log, given, INPUTS[5:10], statements=sums) == ["record", "native"]
        with pytest.raises(PlanChanged, match="execution mode was record"):
            run(log, given.replace(query_execution_mode="native"), statements=copied)
        with pytest.raises(BadSetting, match="every change is to be sent"):
            run(
                log,
                given.replace(query_execution_mode="native", query_emit="per-record"),
                statements=sums.replace("copied", "other"),
            )
