"""Record mode in table `engine`: a count per key over the embedded log, every change written.

Throughput over many keys, and the duration of a small batch when the state is large.
"""

from __future__ import annotations

import time
from contextlib import closing
from statistics import median

from bench.harness.case import Outcome, Work
from bench.tables import engine_program as ours
from bench.tables import engine_results as results
from bench.tables.engine_rows import FILLERS, clicks, raw
from headrace.contracts import Append
from headrace.control.program import Program
from headrace.log.embedded import EmbeddedLog


def counted(work: Work) -> Outcome:
    """All rows of the topic, then `small_batches` batches of `small_rows` each, one after the other."""
    settings = ours.settings_of(work, query_key_groups=work["key_groups"])
    with closing(EmbeddedLog(settings.storage.data, settings)) as log:
        fill = FILLERS[work["source"]]
        fill(log, "warming", work["warmup_records"], work["users"])
        fill(log, "clicks", work["records"], work["users"])
        ours.run(log, settings, work, "warming", "warmed")
        started = time.perf_counter()
        with ours.started_program(log, settings, work, "clicks", "results") as program:
            seconds, extra = ours.finished(program, work, started)
            small = [_small(log, program, work) for _ in range(work["small_batches"])]
        rows = work["records"] + work["small_batches"] * work["small_rows"]
        results.check("count", results.in_log(log, "results"), rows)
    timed = small[len(small) // 4 :]  # the first ones also warm up
    return Outcome(work["records"], seconds, extra={**extra, **({"small_batch_ms": median(timed)} if timed else {})})


def _small(log: EmbeddedLog, program: Program, work: Work) -> float:
    """Milliseconds from the append until the results are in the log."""
    rows = next(clicks(work["small_rows"], work["users"]))
    rows = raw(rows) if work["source"] == "raw" else rows
    before = _ends(log)
    started = time.perf_counter()
    log.append([Append("clicks", rows)])
    while _ends(log) - before < work["small_rows"]:
        ours.raise_failure(program)
        time.sleep(0.002)
    return (time.perf_counter() - started) * 1e3


def _ends(log: EmbeddedLog) -> int:
    return sum(bounds.end for bounds in log.bounds("results").values())
