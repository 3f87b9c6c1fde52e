"""Discards a batch that has started but has not been committed, so that it is cut again.

Spark stores what a batch reads before it runs, and repeats exactly that after any crash. A batch that is too large for
the memory, or on Kafka for the transaction timeout, would thus never complete, however small
`query.max_batch_rows` is set.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headrace.contracts import Log
from headrace.engine.checkpoint import Checkpoint, Manifest, writer_name
from headrace.engine.execution_mode import REALTIME
from headrace.engine.io.batch_cuts import batch_cuts

_logger = logging.getLogger(__name__)


def discard_oversized_batch(
    log: Log, checkpoint: Checkpoint, manifest: Manifest, topics: Sequence[str], max_rows: int
) -> None:
    """Discards an uncommitted batch that exceeds `max_rows`, before the query resumes."""
    committed, started = checkpoint.last_committed(), checkpoint.last_started()
    if started <= committed or manifest.execution_mode == REALTIME:
        return
    position, end = checkpoint.position(committed) or manifest.start, checkpoint.position(started)
    if not batch_cuts(log, topics).exceeds(position, end, max_rows):
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
