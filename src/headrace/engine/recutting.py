"""A batch that was begun, and of which nobody has seen anything, may be cut anew.

Spark notes what a batch reads before it runs, and repeats just that after any crash. One that is too large for the
memory that there is, or on Kafka for a transaction's time, would so never end, however small `batch_rows` is made.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from headrace.contracts import Log
from headrace.engine.checkpoint import Checkpoint, Manifest
from headrace.engine.realtime.choice import REALTIME
from headrace.engine.sink import writer_name
from headrace.log.embedded import EmbeddedLog

_logger = logging.getLogger(__name__)


def recut(log: Log, checkpoint: Checkpoint, manifest: Manifest, topics: Sequence[str], max_rows: int) -> None:
    """Forget a batch that is larger than it should be, before the query goes on."""
    done, begun = checkpoint.done(), checkpoint.begun()
    if begun <= done or manifest.way == REALTIME:
        return
    reached, end = checkpoint.position(done) or manifest.start, checkpoint.position(begun)
    is_large = _passes if isinstance(log, EmbeddedLog) else _holds_more
    if not is_large(log, topics, reached, end, max_rows):
        return
    writer = log.writer(writer_name(manifest.run))  # opened anew: whoever may still be at it can write no more
    writer.close()
    if writer.last is None or writer.last < begun:
        _logger.warning("batch %s of query %s is larger than batch_rows says, and cut anew", begun, manifest.query)
        checkpoint.forget(begun)


def _passes(log: Any, topics: Sequence[str], reached: Any, end: Any, max_rows: int) -> bool:
    return end["sequence"] > log.cut(topics, reached["sequence"] if reached else 0, max_rows)


def _holds_more(log: Log, topics: Sequence[str], reached: Any, end: Any, max_rows: int) -> bool:
    """On Kafka; what retention has removed since is not counted."""
    del topics
    rows = 0
    for topic, ends in end.items():
        starts = {str(partition): bounds.start for partition, bounds in log.bounds(topic).items()}
        begins = (reached or {}).get(topic, {})
        rows += sum(max(0, at - max(begins.get(p, 0), starts.get(p, 0))) for p, at in ends.items())
    return rows > max_rows
