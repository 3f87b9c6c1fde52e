"""What Spark and its bridge to Python keep of a query that has ended: let go of, since nobody else does.

A server that has seen thousands of queries come and go, or leave for a while and come back, must not hold anything for
each. One thing is beyond reach: for every start of a query that reads the embedded log, Spark opens a selector, with
two files and a socket, and drops it open.
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext

_MONITOR = "Idle Worker Monitor for "
_FACTORY = "org$apache$spark$api$python$PythonWorkerFactory$MonitorThread$$$outer"


class Line:
    """The connection by which a query's thread in Java calls Python; a thread of Python's waits at its end."""

    def __init__(self) -> None:
        self._connection: Any = None

    def note(self) -> None:
        """To be called in a call from Java: only there it is known which line it came by."""
        if self._connection is None:
            self._connection = _callbacks().getPerThreadConnection()

    def close(self) -> None:
        """Once the query's thread has ended; may be called again."""
        if self._connection is not None:
            self._connection.shutdown()
            _callbacks().connectionStopped(self._connection)
            self._connection = None


def _callbacks() -> Any:
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    return gateway.java_gateway_server.getCallbackClient()


def end_idle_monitors() -> None:
    """End the threads that look after the idle workers of a source. Each source has one, which outlives it, and looks
    after nothing: a source's only worker is never idle.
    """
    context: Any = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]
    if context is None:
        return
    java = context._jvm
    quiet = java.java.beans.EventHandler.create(
        java.java.lang.Class.forName("java.lang.Thread$UncaughtExceptionHandler"), "", "toString"
    )
    found = java.org.apache.commons.lang3.ThreadUtils.findThreadsByName(f"{_MONITOR}{context.pythonExec}")
    for thread in found.toArray():
        if not getattr(thread, _FACTORY)().useDaemonEnabled():
            thread.setUncaughtExceptionHandler(quiet)  # else its end is told as an error
            thread.interrupt()
