"""Releases what Spark and Py4J still hold of a stopped query.

A server that has started and stopped, or suspended and resumed, thousands of queries must not hold anything for each.
One leak is out of reach: for every start of a query that reads the embedded log, Spark opens a selector, with two files
and a socket, and never closes it.
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext

_MONITOR = "Idle Worker Monitor for "
_FACTORY = "org$apache$spark$api$python$PythonWorkerFactory$MonitorThread$$$outer"


class CallbackConnection:
    """The connection over which a query's Java thread calls Python; a Python thread serves its other end."""

    def __init__(self) -> None:
        self._connection: Any = None

    def remember(self) -> None:
        """Remembers the connection. Must run inside a call from Java: only there the connection in use is known."""
        if self._connection is None:
            self._connection = _callbacks().getPerThreadConnection()

    def close(self) -> None:
        """Closes the connection once the query's thread has ended; may be called again."""
        if self._connection is not None:
            self._connection.shutdown()
            _callbacks().connectionStopped(self._connection)
            self._connection = None


def _callbacks() -> Any:
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    return gateway.java_gateway_server.getCallbackClient()


def stop_idle_monitors() -> None:
    """Stops the threads that monitor the idle workers of sources.

    Each source has one, which outlives it and is useless: a source's only worker is never idle.
    """
    context: Any = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]
    if context is None:
        return
    java = context._jvm
    quiet = java.java.beans.EventHandler.create(
        java.java.lang.Class.forName("java.lang.Thread$UncaughtExceptionHandler"), "", "toString"
    )
    threads = java.org.apache.commons.lang3.ThreadUtils.findThreadsByName(f"{_MONITOR}{context.pythonExec}")
    for thread in threads.toArray():
        if not getattr(thread, _FACTORY)().useDaemonEnabled():
            thread.setUncaughtExceptionHandler(quiet)  # else its end is logged as an error
            thread.interrupt()
