"""Translates Spark's errors into errors that a user can act on.

An error of headrace that was raised in a worker arrives as text; it is parsed, so that its code, place and fix are
preserved. Spark's process that died, or a Python worker that did not start in time, is `process-lost`; a Python worker
that died is `python-worker-lost`, and one that ran out of memory `out-of-memory`. If Spark's process ran out of memory,
any of its queries may be the cause: `spark-out-of-memory`. An error of Python in a task is `task-failed`, any other
error `unexpected-failure`. `control.queries.restart_policy` says what follows.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

from headrace.engine.checkpoint import state_cures
from headrace.errors import (
    CODES,
    DiskFull,
    HeadraceError,
    OutOfMemory,
    ProcessLost,
    PythonWorkerLost,
    SparkOutOfMemory,
    StateUnreadable,
    TaskFailed,
    UnexpectedFailure,
)

SPARK_GONE_ERRORS = (Py4JError, OSError)
"""What a call to Spark raises when its process has ended, among other errors."""
_NOT_STARTED = "failed to connect back"
"""Spark's message when a Python process did not connect within 10 s."""
_LOST_WORKER_TEXTS = (
    "Python worker exited unexpectedly",
    "java.io.EOFException",
    "Broken pipe",
    "Connection reset",
    "java.io.IOException: Stream closed",
)
"""Spark's messages when a Python process has died."""
_TASK_ERROR = re.compile(r"PythonException|handlePythonException")
_START_AGAIN = "start it again and it resumes from its checkpoint; on an overloaded machine run fewer queries"
_OUT_OF_MEMORY_TEXT = re.compile(r"OutOfMemoryError|\bMemoryError\b|ArrowMemoryError|Cannot allocate memory")
_OUT_OF_MEMORY = (3, 52)
"""Java's exit codes when it runs out of memory: its own, and Spark's."""
RAISE_MEMORY = (
    "raise `spark.driver_memory` or lower `query.max_batch_rows` (on Kafka a batch that has started keeps its size), "
    "then start it again: it resumes from its checkpoint"
)
_RAISE_SHARED_MEMORY = (
    "raise `spark.driver_memory` or lower `query.max_batch_rows`; `query.isolation = process` shows which query needs "
    "the memory, and lets the others run"
)
_EXIT_WAIT_SECONDS = 5.0  # for a process whose pipes are closed to end
_NO_SPACE = "No space left on device"
_FREE_SPACE = "free space or shorten retention, then start it again and it resumes from its checkpoint"
_DAMAGED_STATE = re.compile(
    r"CANNOT_LOAD_STATE_STORE\.(?!UNCATEGORIZED|UNRELEASED_THREAD|FAILED_TO_GET|\w*OUT_OF_MEMORY)\w+[^\n]*"
    r"|CANNOT_READ_\w*FILE\w*[^\n]*|\w*CHECKSUM_VERIFICATION_FAILED[^\n]*|RocksDBException: Corruption[^\n]*"
    r"|ZipException[^\n]*|Incomplete log file[^\n]*|Error reading (?:delta|snapshot) file[^\n]*"
    r"|ChecksumException[^\n]*|Stream is corrupted[^\n]*|UTFDataFormatException[^\n]*"
    r"|FileNotFoundException: [^\n]*/state/\d+/\d+/[^\n]*"
    r"|EOFException(?=[^\n]*(?:\n\s+at [^\n]*){1,12}\n\s+at org\.apache\.spark\.sql\.execution\.streaming\.state\.)"
)
"""Spark's messages about a file of a checkpoint that is missing, cut off or overwritten."""
_STATE_PARTITION = re.compile(r"/state/(\d+)/(\d+)(?![\d.])")
"""The folder of a state's partition in a message of Spark's: operator and partition."""
_WRAPPER_PREFIXES = ("pyspark.", "py4j.", "org.apache.", "java.")
"""Errors that only wrap another one."""
_PYTHON_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Exit|Interrupt)|[\w.]*\.\w+): .*$", re.MULTILINE)
_HEADRACE_ERROR = re.compile(r"^headrace\.errors\.\S+: ([a-z-]+): (.*)(?:\n  at (.*))?(?:\n  fix: (.*))?", re.MULTILINE)


def failure_of(error: BaseException, query: str, folder: Path) -> HeadraceError:
    """Why a query failed, or did not start; the folder is its checkpoint."""
    headrace_error = error if isinstance(error, HeadraceError) else _headrace_error(str(error))
    if headrace_error is not None:
        return headrace_error
    if _NO_SPACE in str(error):
        return DiskFull(f"query {query} failed: no space left on the device", where=str(folder), fix=_FREE_SPACE)
    text = f"{error} {_stack(error)}"
    if _OUT_OF_MEMORY_TEXT.search(text):
        return OutOfMemory(f"query {query} ran out of memory", where=str(folder), fix=RAISE_MEMORY)
    if is_spark_gone(error) and _exit_code() in _OUT_OF_MEMORY:  # this query noticed it first, which says nothing
        what = f"query {query} lost Spark's process, which ran out of memory"
        return SparkOutOfMemory(what, where=str(folder), fix=_RAISE_SHARED_MEMORY)
    if (damage := _DAMAGED_STATE.search(text)) is not None:
        return _damaged_state(query, folder, damage[0].strip(), text)
    if is_spark_gone(error) or _NOT_STARTED in text:
        return ProcessLost(f"query {query} lost a process of Spark's", where=str(folder), fix=_START_AGAIN)
    if any(sign in text for sign in _LOST_WORKER_TEXTS):
        return PythonWorkerLost(f"query {query} lost a Python worker process", where=str(folder), fix=_START_AGAIN)
    kind = TaskFailed if _TASK_ERROR.search(text) else UnexpectedFailure
    return kind(
        f"query {query} failed: {_cause(error)}",
        where=str(folder),
        fix="see logs/spark.log in the data folder; committed results are safe, and a restart resumes from them",
    )


def _damaged_state(query: str, folder: Path, damage: str, text: str) -> StateUnreadable:
    """The error for a damaged file of the state, at the folder of the partition if Spark names that."""
    place = _STATE_PARTITION.search(text)
    partition = "" if place is None else f" in partition {place[2]}"
    where = folder / "spark" / ("state" if place is None else place[0].strip("/"))
    return StateUnreadable(
        f"the state of query {query} is damaged{partition}: {damage}", where=str(where), fix=state_cures(folder)
    )


@contextmanager
def translate_errors(query: str, folder: Path) -> Iterator[None]:
    """Raises errors of the block as errors of headrace."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise failure_of(error, query, folder) from error


def is_spark_gone(error: BaseException) -> bool:
    """Whether Spark's process does not respond. A Java error is a subclass, and means that the process is alive."""
    return type(error) in (Py4JError, Py4JNetworkError) or isinstance(error, ChildProcessError | ConnectionError)


def _exit_code() -> int | None:
    """The exit code of Spark's process; None if there is none, or if it still runs."""
    process = getattr(SparkContext._gateway, "proc", None)  # pyright: ignore[reportPrivateUsage]
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        return process.wait(_EXIT_WAIT_SECONDS)
    return None


def _headrace_error(text: str) -> HeadraceError | None:
    """The last error of headrace in a text; those before it are its causes."""
    matches = [match for match in _HEADRACE_ERROR.finditer(text) if match[1] in CODES]
    return CODES[matches[-1][1]](matches[-1][2], where=matches[-1][3], fix=matches[-1][4]) if matches else None


def _stack(error: BaseException) -> str:
    """Spark's stack trace; a broken pipe is reported nowhere else."""
    cause = getattr(error, "_cause", None)
    return f"{getattr(error, '_stackTrace', '')} {'' if cause is None else _stack(cause)}"


def _cause(error: BaseException) -> str:
    """The innermost Python error."""
    text = str(error)
    error_lines = (match.group(0) for match in _PYTHON_ERROR.finditer(text))
    lines = (line.strip() for line in text.splitlines())
    innermost = (line for line in error_lines if not line.startswith(_WRAPPER_PREFIXES))
    return next(innermost, None) or next((line for line in lines if line), type(error).__name__)
