"""A table for the harness itself: hashes, in milliseconds, with a peer in an environment of its own."""

from __future__ import annotations

import hashlib
import random

from bench.harness.case import OURS, Case, Outcome, Side, Table, Work
from bench.harness.latency import Schedule, SystemTimer, millis_since, send_on
from bench.harness.measure import stopwatch


def hashes(work: Work) -> Outcome:
    """Hash a block again and again."""
    block, count = random.Random(0).randbytes(work["block_bytes"]), work["records"]
    digest = getattr(hashlib, work["algorithm"])
    with stopwatch() as watch:
        for _ in range(count):
            digest(block).digest()
    return Outcome(count, watch.seconds, extra={"cpu_seconds": watch.cpu_seconds})


def paced(work: Work) -> Outcome:
    """Hash at a fixed rate; latency from the intended time."""
    timer, latencies = SystemTimer(), []
    schedule = Schedule(timer.now(), work["rate"], work["records"])

    def send(intended: int) -> None:
        hashlib.sha256(b"x").digest()
        latencies.append(millis_since(intended, timer.now()))

    with stopwatch() as watch:
        send_on(schedule, send, timer)
    return Outcome(work["records"], watch.seconds, latencies)


def broken(work: Work) -> Outcome:
    """Fails if its settings say so."""
    if work["broken"]:
        raise RuntimeError("broken on purpose")
    return Outcome(1, 1.0)


TABLE = Table(
    "selftest",
    "The harness measures itself",
    (
        Case(
            "hash",
            "sha256 beside md5 over the same block",
            {
                OURS: Side(hashes, settings={"algorithm": "sha256"}),
                "md5": Side(hashes, settings={"algorithm": "md5"}),
                "elsewhere": Side(script="selftest.py", requirements="selftest.txt"),
            },
            unit="blocks",
        ),
        Case("paced", "a hash at a fixed rate", {OURS: Side(paced)}, unit="hashes"),
        Case("broken", "a side that may fail", {OURS: Side(broken), "other": Side(broken, settings={"broken": False})}),
    ),
)
