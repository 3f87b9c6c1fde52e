"""Spark's errors in our words: what a person can act on, of a story that is told through two languages.

An error of ours that was raised in a worker arrives as text; it is read back, so that its code, place and fix stay.
That a process has died, or was not there in time, is `process-lost`: whoever started the query may start it again. If
it had not enough memory that is `out-of-memory`, and not worth many tries.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

from headrace.errors import CODES, DiskFull, HeadraceError, OutOfMemory, ProcessLost, QueryFailed

GONE = (Py4JError, OSError)
"""What a call to Spark raises when its process has ended, among other things."""
_LOST = ("failed to connect back", "Python worker exited unexpectedly", "java.io.EOFException", "Broken pipe")
"""What Spark says when a process of Python's has died, or was not there within its 10 s."""
_AGAIN = "run it again: it goes on where it was; a machine that is too busy may need fewer queries"
_MEMORY = re.compile(r"OutOfMemoryError|\bMemoryError\b|ArrowMemoryError|Cannot allocate memory")
_OUT_OF_MEMORY = (3, 52)
"""What Java ends with, by itself and by Spark's hand, when it has no memory left."""
_MORE = (
    "give it more with `spark_memory`, or smaller batches with `batch_rows` (on Kafka a batch that was begun keeps its "
    "size), then run it again: it goes on where it was"
)
_SECONDS = 5.0  # that a process whose pipes are closed has to be gone
_NO_SPACE = "No space left on device"
_FREE = "free space or shorten retention, then run it again: it goes on where it was"
_TELLERS = ("pyspark.", "py4j.", "org.apache.", "java.")
"""Errors that only say that there was another."""
_PYTHON_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Exit|Interrupt)|[\w.]*\.\w+): .*$", re.MULTILINE)
_OURS = re.compile(r"^headrace\.errors\.\w+: ([a-z-]+): (.*)(?:\n  at (.*))?(?:\n  fix: (.*))?", re.MULTILINE)


def failure_of(error: BaseException, query: str, folder: Path) -> HeadraceError:
    """Why a query ended, or did not begin; the folder is its checkpoint's."""
    told = error if isinstance(error, HeadraceError) else _ours(str(error))
    if told is not None:
        return told
    if _NO_SPACE in str(error):
        return DiskFull(f"query {query} found no space left", where=str(folder), fix=_FREE)
    if _MEMORY.search(f"{error} {_stack(error)}") or (is_gone(error) and _exit_code() in _OUT_OF_MEMORY):
        return OutOfMemory(f"query {query} ran out of memory", where=str(folder), fix=_MORE)
    if is_gone(error) or any(sign in f"{error} {_stack(error)}" for sign in _LOST):
        return ProcessLost(f"query {query} lost a process of its own", where=str(folder), fix=_AGAIN)
    return QueryFailed(
        f"query {query} ended: {_cause(error)}",
        where=str(folder),
        fix="logs/spark.log of the data folder tells all; what was acknowledged is safe, start the query again",
    )


@contextmanager
def retold(query: str, folder: Path) -> Iterator[None]:
    """What is raised inside is raised in our words."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise failure_of(error, query, folder) from error


def is_gone(error: BaseException) -> bool:
    """Spark's process does not answer. An error of Java's comes as a subclass, and says that it is still there."""
    return type(error) in (Py4JError, Py4JNetworkError) or isinstance(error, ChildProcessError | ConnectionError)


def _exit_code() -> int | None:
    """How Spark's process ended; None if there is none, or it is still there."""
    process = getattr(SparkContext._gateway, "proc", None)  # pyright: ignore[reportPrivateUsage]
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        return process.wait(_SECONDS)
    return None


def _ours(text: str) -> HeadraceError | None:
    """The last one that is told; those before it are its causes."""
    found = [match for match in _OURS.finditer(text) if match[1] in CODES]
    return CODES[found[-1][1]](found[-1][2], where=found[-1][3], fix=found[-1][4]) if found else None


def _stack(error: BaseException) -> str:
    """Where Spark was; that the other end of a pipe is gone is told nowhere else."""
    cause = getattr(error, "_cause", None)
    return f"{getattr(error, '_stackTrace', '')} {'' if cause is None else _stack(cause)}"


def _cause(error: BaseException) -> str:
    """The innermost error of Python's."""
    text = str(error)
    found = (match.group(0) for match in _PYTHON_ERROR.finditer(text))
    lines = (line.strip() for line in text.splitlines())
    told = (line for line in found if not line.startswith(_TELLERS))
    return next(told, None) or next((line for line in lines if line), type(error).__name__)
