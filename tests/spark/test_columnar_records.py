"""Batches large enough for columnar decoding and encoding give the results of memory, in both modes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.contracts import Append, dead_letter_topic
from headrace.control.program import Program
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.log.topic_spec import ensure_topic
from headrace.record import Record
from tests import memory_and_spark

STATEMENTS = """
CREATE STREAM clicks (id INT KEY, page STRING, ms DOUBLE) WITH (kafka_topic='clicks', format='JSON', partitions=1);
CREATE STREAM slow AS SELECT id, page, ms FROM clicks WHERE ms > 2;
CREATE TABLE counts AS SELECT page, COUNT(*) AS n FROM clicks WINDOW TUMBLING (SIZE 10 MILLISECONDS) GROUP BY page;
"""
BAD = {300: "{", 301: '{"page": 5', 777: '{"ms": "x"}'}


def _value(n: int) -> str | None:
    odd = {7: None, 8: '{"PAGE":"quoted \\" \\u00e9","more":[1]}', 9: '{"ms":"4.5"}', **BAD}
    return odd.get(n, f'{{"page":"/{n % 5}","ms":{n % 7}.25}}')


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


INPUTS: list[memory_and_spark.Input] = [("clicks", str(n % 9), _value(n), n) for n in range(1200)]


@pytest.mark.parametrize("way", ["record", "auto"])
def test_large_batches_give_the_results_of_memory(way: str, spark: SparkSession, tmp_path: Path) -> None:
    given = memory_and_spark.settings(tmp_path, query_execution_mode=way)
    with EmbeddedLog(given.storage.data, given) as log:
        ensure_topic(log, "clicks")
        for half in (INPUTS[:700], INPUTS[700:]):
            records = [Record(_bytes(v), _bytes(k), occurred_at=at) for _, k, v, at in half]
            with Program(log, given) as program:
                program.execute(STATEMENTS)
                log.append([Append("clicks", from_records(records))])
                program.wait(until_idle=True)
        found = {topic: memory_and_spark.written(log, topic) for topic in ("SLOW", "COUNTS")}
        letters = [log.bounds(dead_letter_topic(topic)) for topic in found]
    wanted = memory_and_spark.in_memory(STATEMENTS, INPUTS)
    assert {t: memory_and_spark.by_key(r) for t, r in found.items()} == {
        t: memory_and_spark.by_key(r) for t, r in wanted.items()
    }
    assert [Counter({p: end - start for p, (start, end) in each.items()}).total() for each in letters] == [
        len(BAD),
        len(BAD) + 2,  # that without a value and that without a page have no group
    ]
