"""A query that runs out of memory in its own process fails with a code; other queries continue without loss."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.contracts import Append
from headrace.control.program import Program
from headrace.errors import OutOfMemory
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.settings import Settings, Size
from tests import memory_and_spark

SCRIPT = """
CREATE STREAM texts (id INT KEY, body STRING) WITH (kafka_topic='texts', format='JSON');
CREATE STREAM words (id INT KEY, body STRING) WITH (kafka_topic='words', format='JSON');
CREATE TABLE lengths AS SELECT LEN(body) AS n, COUNT(*) AS texts FROM texts GROUP BY LEN(body);
CREATE STREAM copy AS SELECT id, body FROM words;
"""
LONG, TEXTS = 900_000, 600
"""Letters of a text, and how many there are: together more than all the memory below."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return memory_and_spark.settings(tmp_path, query_isolation="process", spark_driver_memory=Size(512 << 20))


@pytest.fixture
def log(settings: Settings) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(settings.storage.data, settings) as opened:
        yield opened


def test_a_query_out_of_memory_fails_with_a_coded_error_and_leaves_the_others_running(
    log: EmbeddedLog, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    with Program(log, settings) as program:
        program.execute(SCRIPT)
        memory_and_spark.append(log, "texts", "0", '{"BODY": "x"}', 0)
        memory_and_spark.append(log, "words", "1", '{"BODY": "a"}', 1)
        program.wait(until_idle=True)
        _append_texts(log)
        with pytest.raises(OutOfMemory) as caught:  # in the end, when the others have done all there is
            program.wait(until_idle=True)
        assert caught.value.what == "query CTAS_LENGTHS_0 ran out of memory"
        assert "spark.driver_memory" in (caught.value.fix or "")
        assert [text for text in caplog.messages if "is restarted" in text] == [
            "query CTAS_LENGTHS_0 is restarted: query CTAS_LENGTHS_0 ran out of memory"
        ]
        assert program.failed.keys() == {"CTAS_LENGTHS_0"}

        memory_and_spark.append(log, "words", "2", '{"BODY": "b"}', 2)
        with pytest.raises(OutOfMemory):
            program.wait(until_idle=True)
        assert [key for key, _, _ in memory_and_spark.written(log, "COPY")] == [b"1", b"2"]
        assert program.running["CSAS_COPY_1"].is_active
    assert _counts(log) == [1]

    lengths = SCRIPT.partition("CREATE STREAM copy")[0]
    with Program(log, settings.replace(query_max_batch_rows=40)) as program:  # as the fix says
        program.execute(lengths)
        program.wait(until_idle=True)
        assert program.orphaned_checkpoints == ["CSAS_COPY_1"]
    assert _counts(log) == [1, *range(1, TEXTS + 1)]


def _append_texts(log: EmbeddedLog) -> None:
    """All at once: no batch sees only some of them."""
    value = b'{"BODY": "%s"}' % (b"x" * LONG)
    keys = [range(start, start + 50) for start in range(0, TEXTS, 50)]
    log.append([Append("texts", from_records([Record(value, b"%d" % key) for key in some])) for some in keys])


def _counts(log: EmbeddedLog) -> list[int]:
    return [json.loads(value or b"")["TEXTS"] for _, value, _ in memory_and_spark.written(log, "LENGTHS")]
