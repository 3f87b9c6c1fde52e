"""The process that Spark's Python workers are forked from, with their modules already imported.

Spark's own daemon imports nothing, so every worker imports everything again: seconds of CPU for each, when a query
starts. The reason is that a fork copies one thread only, and libraries start threads when they are imported. Here they
are configured not to, and if one does, this process is replaced by Spark's own daemon.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path

from headrace.errors import KafkaNotInstalled

# Read by OpenBLAS and by Arrow's jemalloc when they are loaded: no threads.
_QUIET = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
_WORKER = "pyspark.worker"
PRELOADED_MODULES = (
    "pandas",
    "pyarrow.compute",
    "pyspark.sql.pandas.serializers",
    "headrace.engine.native.embedded_source",
    "headrace.engine.native.sink",
    "headrace.engine.record.kafka_source",
    "headrace.engine.record.chain_operator",
    "headrace.engine.record.sink",
    "headrace.engine.record.embedded_source",
)


def main() -> None:
    preload(sys.argv[1] if len(sys.argv) > 1 else _WORKER)
    if thread_count() > 1:
        os.execv(sys.executable, [sys.executable, "-P", "-m", "pyspark.daemon", *sys.argv[1:]])
    gc.collect()
    gc.freeze()  # memory shared with the workers stays shared
    from pyspark.daemon import manager

    manager()


def preload(worker: str) -> None:
    """Imports the modules that workers need."""
    os.environ.update(_QUIET)
    for name in (worker, *PRELOADED_MODULES):
        with suppress(ImportError, KafkaNotInstalled):  # an extra; else the worker reports it
            importlib.import_module(name)


def thread_count() -> int:
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else 1


if __name__ == "__main__":
    main()
