"""The process that Spark's Python workers are forked from, with all that they need in its memory already.

Spark's own imports nothing, so that every worker imports everything again: seconds of CPU for each, when a query
starts. It does so since a fork copies one thread only, and libraries start threads when they are imported. Here they
are told not to, and if one has, this process gives way to Spark's own.
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
NEEDED = (
    "pandas",
    "pyarrow.compute",
    "pyspark.sql.pandas.serializers",
    "headrace.engine.native.source",
    "headrace.engine.native.sink",
    "headrace.engine.record.kafka",
    "headrace.engine.record.operator",
    "headrace.engine.record.sink",
    "headrace.engine.record.source",
)


def main() -> None:
    load(sys.argv[1] if len(sys.argv) > 1 else _WORKER)
    if threads() > 1:
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    gc.collect()
    gc.freeze()  # what is shared with the workers stays so
    from pyspark.daemon import manager

    manager()


def load(worker: str) -> None:
    """Import what workers of this module need."""
    os.environ.update(_QUIET)
    for name in (worker, *NEEDED):
        with suppress(ImportError, KafkaNotInstalled):  # an extra; what else is missing, the worker will tell
            importlib.import_module(name)


def threads() -> int:
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else 1


if __name__ == "__main__":
    main()
