"""Failures that Spark reports become coded errors."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

from headrace.engine.spark.failures import failure_of, translate_errors
from headrace.errors import OutOfMemory, QueryFailed, UnexpectedFailure, UnknownTopic

FOLDER = Path("checkpoints/q")
TRACE = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure
Traceback (most recent call last):
  File "pages.py", line 86, in run
ValueError: 12 is odd

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
{last}
\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
"""


READ = "\n\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:398)"
STATE = "org.apache.spark.sql.execution.streaming.state"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Exception("Python worker failed to connect back."), "process-lost"),
        (Exception("... Caused by: java.io.EOFException ..."), "python-worker-lost"),
        (Py4JError("An error occurred while calling o54.start"), "process-lost"),
        (Exception("java.net.SocketException: Connection reset"), "python-worker-lost"),
        (Exception("An error occurred while calling o606.load"), "unexpected-failure"),
        (Py4JNetworkError("Answer from Java side is empty"), "process-lost"),
        (ConnectionRefusedError(111, "Connection refused"), "process-lost"),
        (Exception("java.io.IOException: No space left on device"), "disk-full"),
        (Exception("java.lang.OutOfMemoryError: Java heap space"), "out-of-memory"),
        (Exception("in run\nMemoryError\n\tat org.apache.spark"), "out-of-memory"),
        (
            Exception("[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] Error reading ..."),
            "state-unreadable",
        ),
        (Exception("org.rocksdb.RocksDBException: Corruption: bad block contents"), "state-unreadable"),
        (Exception("[CANNOT_LOAD_STATE_STORE.UNEXPECTED_FILE_SIZE] Copied a to b"), "state-unreadable"),
        (Exception("[CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR] a thread"), "unexpected-failure"),
        (Exception("org.apache.hadoop.fs.ChecksumException: Checksum error: file:/x"), "state-unreadable"),
        (Exception("java.io.FileNotFoundException: File file:/c/spark/state/0/1/2.zip does not"), "state-unreadable"),
        (Exception(f"java.io.EOFException{READ}\n\tat {STATE}.RocksDB.load"), "state-unreadable"),
        (Exception(f"java.io.EOFException{READ}\n\tat org.apache.spark.api.python.Runner"), "python-worker-lost"),
        (Exception("java.util.zip.ZipException: zip END header not found"), "state-unreadable"),
        (Exception("java.lang.IllegalStateException: Incomplete log file"), "state-unreadable"),
        (Exception("Python worker exited unexpectedly (crashed)"), "python-worker-lost"),
        (Exception("org.apache.spark.api.python.PythonException: SystemExit: 1"), "task-failed"),
        (Exception("ValueError: no MemoryErrors here"), "unexpected-failure"),
        (UnknownTopic('topic "a" does not exist'), "unknown-topic"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_failures_have_codes(error: Exception, code: str) -> None:
    assert failure_of(error, "q", FOLDER).code == code


@pytest.mark.parametrize(
    ("code", "expected"), [(3, "spark-out-of-memory"), (52, "spark-out-of-memory"), (1, "process-lost")]
)
def test_the_end_of_spark_for_want_of_memory_has_a_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, code: int, expected: str
) -> None:
    with subprocess.Popen(["sh", "-c", f"exit {code}"]) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        error = failure_of(ConnectionRefusedError(111, "Connection refused"), "q", FOLDER)
    assert error.code == expected
    assert isinstance(error, OutOfMemory) == (expected != "process-lost")


def test_damaged_state_names_its_partition() -> None:
    text = "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_X] Error reading file:/c/server/q/spark/state/0/12/7.changelog of it"
    error = failure_of(Exception(text), "q", FOLDER)
    assert error.what.startswith("the state of query q is damaged in partition 12: CANNOT_LOAD")
    assert error.where == str(FOLDER / "spark" / "state" / "0" / "12")
    assert "headrace state recover" in (error.fix or "")


def test_a_headrace_error_keeps_its_code_and_fields() -> None:
    ours = QueryFailed("query q failed at a record", where="topic a, partition 0, offset 7", fix="set x to false")
    told = failure_of(Exception(TRACE.format(last=f"headrace.errors.queries.QueryFailed: {ours}")), "q", FOLDER)
    assert told.as_dict() == ours.as_dict()
    short = UnknownTopic('topic "a" does not exist')
    told = failure_of(Exception(TRACE.format(last=f"headrace.errors.log.UnknownTopic: {short}")), "q", FOLDER)
    assert (told.as_dict(), type(told)) == (short.as_dict(), UnknownTopic)


def test_the_innermost_python_error_is_reported() -> None:
    told = failure_of(Exception(TRACE.format(last="pyspark.errors.PythonException: no")), "q", FOLDER)
    assert told.what == "query q failed: ValueError: 12 is odd"


def test_errors_of_a_query_are_translated() -> None:
    with pytest.raises(UnexpectedFailure, match="query q failed: odd"), translate_errors("q", FOLDER):
        raise RuntimeError("odd")
    with pytest.raises(UnknownTopic), translate_errors("q", FOLDER):
        raise UnknownTopic("no")
