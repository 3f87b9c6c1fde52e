"""A batch that was begun, and of which nobody has seen anything, may be cut anew.

Spark notes what a batch reads before it runs, and repeats just that after any crash. One that is too large for the
memory that there is would so never end, however small `batch_rows` is made.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headrace.contracts import Log
from headrace.engine.checkpoint import Checkpoint, Manifest
from headrace.engine.sink import writer_of
from headrace.log.embedded import EmbeddedLog

_logger = logging.getLogger(__name__)


def recut(log: Log, checkpoint: Checkpoint, manifest: Manifest, topics: Sequence[str], max_rows: int) -> None:
    """Forget a batch that is larger than it should be, before the query goes on.

    On the embedded log only: on Kafka a cut is noted in the log as well, and parts of a batch may be written.
    """
    done, begun = checkpoint.done(), checkpoint.begun()
    if begun <= done or not isinstance(log, EmbeddedLog):
        return
    written = writer_of(log, manifest.run).last  # opened anew: whoever may still be at it can write no more
    reached = checkpoint.position(done) or manifest.start or {"sequence": 0}
    end = log.cut(topics, reached["sequence"], max_rows)
    if (written is None or written < begun) and checkpoint.position(begun)["sequence"] > end:
        _logger.warning("batch %s of query %s is larger than batch_rows says, and cut anew", begun, manifest.query)
        checkpoint.forget(begun)
