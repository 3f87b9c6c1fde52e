"""Case through-5gb: much more data than memory goes through the log; the harness watches the memory meanwhile."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from itertools import cycle, islice

from bench.harness.case import Outcome, Work
from bench.harness.measure import stopwatch
from bench.tables.log_records import batches, pool
from headrace.contracts import Ack, Append, Subscription, TopicSpec
from headrace.log.embedded import EmbeddedLog

_TOPIC = "through"
_POLL_ROWS = 50_000


def embedded(work: Work) -> Outcome:
    """Append everything, then consume everything in a group, in one process."""
    turns = cycle([[Append(_TOPIC, rows)] for rows in batches(pool(work), work["batch_rows"])])
    count = work["records"] // work["batch_rows"]
    with closing(EmbeddedLog(work.folder / "log")) as log:
        log.create_topic(_TOPIC, TopicSpec())
        with stopwatch() as appending:
            for appends in islice(turns, count):
                log.append(appends, ack=Ack.ALL)
        with stopwatch() as consuming:
            data_bytes = _consume(log, count * work["batch_rows"])
    records, seconds = count * work["batch_rows"], appending.seconds + consuming.seconds
    extra = {
        "append_rate": records / appending.seconds,
        "consume_rate": records / consuming.seconds,
        "data_gb": data_bytes / 1e9,
        "cpu_seconds": appending.cpu_seconds + consuming.cpu_seconds,
    }
    return Outcome(records, seconds, extra=extra)


def _consume(log: EmbeddedLog, count: int) -> int:
    """The consumed bytes of keys and values; raises if some are missing."""
    count_read = data_bytes = 0
    with closing(log.consumer("through", Subscription((_TOPIC,)))) as reader:
        while count_read < count:
            polled = reader.poll(timedelta(seconds=10), max_records=_POLL_ROWS)
            if not polled:
                raise RuntimeError(f"of {count} records only {count_read} came")
            count_read += sum(len(batch) for batch in polled)
            data_bytes += sum(batch.rows.column(name).nbytes for batch in polled for name in ("key", "value"))
            reader.commit()
    return data_bytes
