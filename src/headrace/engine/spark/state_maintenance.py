"""Runs the maintenance of state files when a query stops, which Spark does once a minute while it runs.

A query that is repeatedly run for less than a minute would never get it: its changes would pile up, one file for each
batch and partition, and each start would have to read all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

_STATE = "org.apache.spark.sql.execution.streaming.state"
_DEFAULT = "default"
_logger = logging.getLogger(__name__)


def run_state_maintenance(query: Any, folder: Path) -> None:
    """Writes snapshots, removes the files they replace, and releases the memory of a stopped Spark query.

    Covers only what this Java process holds; executors of a cluster keep running and do their own maintenance. What
    fails is done in the next run.
    """
    jvm: Any = SparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    stores = sorted(_stores(folder / "state"))
    if jvm is None or not stores:
        return
    state = reduce(getattr, _STATE.split("."), jvm)
    run = jvm.java.util.UUID.fromString(query.runId)
    try:
        for operator, partition, name in stores:
            place = state.StateStoreId(f"file:{(folder / 'state').resolve()}", operator, partition, name)
            state.StateStore.doMaintenanceAndUnload(state.StateStoreProviderId(place, run))
    except Py4JError as error:
        _logger.warning("maintenance of the state in %s failed: %s", folder, error)


def _stores(folder: Path) -> Iterator[tuple[int, int, str]]:
    """Operator, partition and name of every store: a numbered folder each, with one subfolder per name."""
    for path in folder.glob("[0-9]*/[0-9]*"):
        operator, partition = int(path.parent.name), int(path.name)
        yield operator, partition, _DEFAULT
        yield from ((operator, partition, named.name) for named in path.iterdir() if named.is_dir())
