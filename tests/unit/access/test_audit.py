"""Entries of what was done: written by several, killed in between, and tampered with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.access.audit import (
    GENESIS_HASH,
    MAX_DISTINCT_REFUSALS,
    TOPIC,
    Audit,
    RefusalLimiter,
    newest_entries,
    read_audit,
    verify_audit,
)
from headrace.clock import ManualClock, SystemClock
from headrace.contracts import Append
from headrace.errors import AuditBroken
from headrace.log.embedded import EmbeddedLog
from headrace.log.topic_spec import ensure_topic
from headrace.record import Record
from tests.wait import wait_until


def _written(log: EmbeddedLog, count: int = 6) -> None:
    audit = Audit(log, ManualClock(1000))
    for number in range(count):
        audit.note("statement", "alice", text=f"CREATE STREAM S{number};")


def test_entries_are_read_back_in_order(log: EmbeddedLog) -> None:
    _written(log, 2)
    found = list(read_audit(log))
    assert [(e.number, e.at, e.action, e.principal, e.details["text"]) for e in found] == [
        (0, 1000, "statement", "alice", "CREATE STREAM S0;"),
        (1, 1000, "statement", "alice", "CREATE STREAM S1;"),
    ]
    assert verify_audit(log).count == 2
    assert verify_audit(log).head == found[-1].hash


@pytest.mark.parametrize(
    ("before", "limit", "numbers"),
    [(None, 2, [4, 3]), (3, 2, [2, 1]), (1, 9, [0]), (0, 9, []), (99, 1, [4]), (None, 9, [4, 3, 2, 1, 0])],
)
def test_the_newest_entries_come_first(log: EmbeddedLog, before: int | None, limit: int, numbers: list[int]) -> None:
    audit = Audit(log, SystemClock())
    assert newest_entries(log, before, limit) == []
    for _ in range(5):
        audit.note("log-in", "alice")
    assert [entry.number for entry in newest_entries(log, before, limit)] == numbers


def test_reading_from_a_number_reads_no_earlier_entry(log: EmbeddedLog) -> None:
    _written(log, 6)
    assert [e.number for e in read_audit(log, 2, 3)] == [2, 3, 4]
    assert [e.number for e in read_audit(log, 4, 3)] == [4, 5]
    assert list(read_audit(log, 6, 3)) == []
    log.truncate(TOPIC, 0, 3)
    assert [e.number for e in read_audit(log, 1, 2)] == [3, 4]


def test_an_empty_audit_log_verifies(log: EmbeddedLog) -> None:
    assert (verify_audit(log).count, verify_audit(log).head) == (0, GENESIS_HASH)


def test_a_repeated_refusal_is_recorded_once(log: EmbeddedLog) -> None:
    audit = Audit(log, SystemClock())
    for _ in range(50):
        audit.note_once("refused", "mallory", what="read topic x")
    audit.note_once("refused", "mallory", what="read topic y")
    assert verify_audit(log).count == 2


# -- several who write ----------------------------------------------------------------------------------------------


def test_concurrent_writers_extend_one_hash_chain(log: EmbeddedLog) -> None:
    with EmbeddedLog(log.folder) as elsewhere:
        audits = [Audit(log, SystemClock()), Audit(elsewhere, SystemClock())]

        def write(number: int) -> None:
            for at in range(25):
                audits[number].note("deed", str(number), at_turn=at)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert verify_audit(log).count == 50
    for number in range(2):
        assert [e.details["at_turn"] for e in read_audit(log) if e.principal == str(number)] == list(range(25))


_ENDLESS = """
import sys
from pathlib import Path
from headrace.access.audit import Audit
from headrace.clock import SystemClock
from headrace.log.embedded import EmbeddedLog
audit, number = Audit(EmbeddedLog(Path(sys.argv[1])), SystemClock()), 0
while True:
    audit.note("deed", "child", number=number)
    number += 1
    print(number, flush=True)
"""


def test_the_chain_survives_a_kill_during_a_write(log: EmbeddedLog) -> None:
    child = subprocess.Popen([sys.executable, "-c", _ENDLESS, str(log.folder)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    os.set_blocking(child.stdout.fileno(), False)
    told = bytearray()

    def enough() -> bool:
        told.extend(child.stdout.read() or b"")  # type: ignore[union-attr]
        return told.count(b"\n") >= 20

    try:
        wait_until(enough)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        told.extend(child.stdout.read() or b"")
        child.stdout.close()
    acknowledged = told.count(b"\n")
    Audit(log, SystemClock()).note("deed", "parent")
    assert verify_audit(log).count in (acknowledged + 1, acknowledged + 2)
    assert list(read_audit(log))[-1].principal == "parent"


# -- tampering ------------------------------------------------------------------------------------------------------

Texts = list[bytes]


def _changed(texts: Texts) -> Texts:
    texts[2] = texts[2].replace(b"alice", b"bobby")
    return texts


def _removed(texts: Texts) -> Texts:
    return texts[:2] + texts[4:]


def _first_removed(texts: Texts) -> Texts:
    return texts[1:]


def _put_in(texts: Texts) -> Texts:
    return [*texts[:3], texts[2].replace(b"S2", b"S9"), *texts[3:]]


def _exchanged(texts: Texts) -> Texts:
    texts[2], texts[3] = texts[3], texts[2]
    return texts


def _renumbered(texts: Texts) -> Texts:
    """Removed, and the numbers mended."""
    left = [json.loads(text) for text in texts[:2] + texts[3:]]
    return [json.dumps({**one, "number": at}).encode() for at, one in enumerate(left)]


def _unreadable(texts: Texts) -> Texts:
    return [*texts[:2], b"\xff", *texts[3:]]


def _last_removed(texts: Texts) -> Texts:
    return texts[:-2]


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (_changed, "entry 2 was changed"),
        (_removed, "entries 2 to 3 were removed"),
        (_first_removed, "entries 0 to 0 were removed"),
        (_put_in, "an entry with number 2 was inserted after entry 2"),
        (_exchanged, "entries 2 to 2 were removed"),
        (_renumbered, "entry 1 was changed, or entry 2 was inserted"),
        (_unreadable, "cannot be read"),
        (_last_removed, "entries 4 to 5, the last ones, are missing"),
    ],
)
def test_tampering_is_detected(log: EmbeddedLog, tamper: Callable[[Texts], Texts], said: str) -> None:
    _written(log)
    assert verify_audit(log).count == 6
    _rewritten(log, tamper)
    with pytest.raises(AuditBroken, match=said):
        verify_audit(log)


def test_a_rewritten_chain_lacks_the_recorded_hash(log: EmbeddedLog, tmp_path: Path) -> None:
    _written(log)
    noted = verify_audit(log).head
    assert verify_audit(log, noted).count == 6
    with EmbeddedLog(tmp_path / "other") as other:
        audit = Audit(other, ManualClock(1000))
        for number in range(6):
            audit.note("statement", "bob", text=f"CREATE STREAM S{number};")
        assert verify_audit(other).count == 6
        with pytest.raises(AuditBroken, match="rewritten"):
            verify_audit(other, noted)


def _rewritten(log: EmbeddedLog, tamper: Callable[[Texts], Texts]) -> None:
    """As somebody does who has the log, and knows nothing of the writer."""
    texts = [record.value or b"" for record in log.read(TOPIC, 0, 0).records()]
    log.delete_topic(TOPIC)
    ensure_topic(log, TOPIC)
    log.append([Append(TOPIC, [Record(text) for text in tamper(texts)], 0)])


def test_refusals_of_one_principal_are_recorded_up_to_a_limit() -> None:
    now = [0.0]
    refusals = RefusalLimiter(lambda: now[0])
    assert [refusals.add("nobody", number) for number in range(1000)] == [0] * MAX_DISTINCT_REFUSALS + [None] * (
        1000 - MAX_DISTINCT_REFUSALS
    )
    assert refusals.add("somebody", 1) == 0
    now[0] = 61.0
    assert refusals.add("nobody", 1) == 1000 - MAX_DISTINCT_REFUSALS  # how many were not
    assert refusals.add("nobody", 1) is None
