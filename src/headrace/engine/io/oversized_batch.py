"""Discards a batch that has started but has not been committed, so that it is cut again.

Spark stores what a batch reads before it runs, and repeats exactly that after any crash. A batch that is too large for
the memory, or on Kafka for the transaction timeout, would thus never complete, however small
`query.max_batch_rows` is set.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from headrace.contracts import Log
from headrace.engine.checkpoint import Checkpoint, Manifest, writer_name
from headrace.engine.execution_mode import REALTIME
from headrace.log.embedded import EmbeddedLog

_logger = logging.getLogger(__name__)


def discard_oversized_batch(
    log: Log, checkpoint: Checkpoint, manifest: Manifest, topics: Sequence[str], max_rows: int
) -> None:
    """Discards an uncommitted batch that exceeds `max_rows`, before the query resumes."""
    committed, started = checkpoint.last_committed(), checkpoint.last_started()
    if started <= committed or manifest.execution_mode == REALTIME:
        return
    reached, end = checkpoint.position(committed) or manifest.start, checkpoint.position(started)
    is_large = _exceeds_in_embedded_log if isinstance(log, EmbeddedLog) else _exceeds_on_kafka
    if not is_large(log, topics, reached, end, max_rows):
        return
    writer = log.writer(writer_name(manifest.run))  # opening it fences any earlier writer
    writer.close()
    if writer.last is None or writer.last < started:
        _logger.warning(
            "batch %s of query %s is larger than query.max_batch_rows allows and is split again",
            started,
            manifest.query,
        )
        checkpoint.discard_batch(started)


def _exceeds_in_embedded_log(log: Any, topics: Sequence[str], reached: Any, end: Any, max_rows: int) -> bool:
    return end["sequence"] > log.cut(topics, reached["sequence"] if reached else 0, max_rows)


def _exceeds_on_kafka(log: Log, topics: Sequence[str], reached: Any, end: Any, max_rows: int) -> bool:
    """Whether a batch on Kafka exceeds the limit; records removed by retention since are not counted."""
    del topics
    rows = 0
    for topic, ends in end.items():
        starts = {str(partition): bounds.start for partition, bounds in log.bounds(topic).items()}
        begins = (reached or {}).get(topic, {})
        rows += sum(max(0, at - max(begins.get(p, 0), starts.get(p, 0))) for p, at in ends.items())
    return rows > max_rows
