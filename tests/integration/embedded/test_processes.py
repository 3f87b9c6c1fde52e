"""Several processes on one folder: group commit through the mailbox, kills at chosen points, stopped processes."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.contracts import Ack, Append, Subscription, TopicPartition, TopicSpec
from headrace.errors import LogBusy
from headrace.faultpoints import VARIABLE
from headrace.log.embedded.commit.mailbox import Mailbox
from headrace.log.embedded.log import EmbeddedLog
from tests.unit.log.embedded.conftest import OpenLog
from tests.unit.log.embedded.data_folder import files, line, process, put, raw, read, tell, values

APPENDER = """
import sys
from datetime import timedelta
from headrace.contracts import Append
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.settings import Settings
folder, name, count, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
log = EmbeddedLog(folder, Settings.of(storage_maintenance_interval=timedelta(0)))
print("ready", flush=True)
sys.stdin.readline()
for i in range(count):
    value = f"{name}.{i:04}".encode().ljust(size, b".")
    # Single records travel bare, rows encoded: whoever leads has both before it.
    (place,) = log.append([Append("t", [Record(value)] if i % 3 else from_records([Record(value)]))])
    print(place.offset, flush=True)
log.close()
"""

HOLDER = """
import sys
from headrace.log.embedded import EmbeddedLog
log = EmbeddedLog(sys.argv[1])
with log.store.transaction():
    print("held", flush=True)
    sys.stdin.readline()
"""


def kill_at(point: str, count: int, mark: Path) -> dict[str, str]:
    return {**os.environ, VARIABLE: f"{point}:{count}:{mark}"}


def test_eight_processes_append_single_rows(log: EmbeddedLog, folder: Path) -> None:
    log.create_topic("t")
    from contextlib import ExitStack

    with ExitStack() as stack:
        children = [stack.enter_context(process(APPENDER, folder, f"p{i}", 40, 0)) for i in range(8)]
        for child in children:
            assert line(child) == "ready"
        for child in children:
            tell(child)
        placed = [[int(line(child)) for _ in range(40)] for child in children]
        for child in children:
            assert child.wait(30) == 0
    found = values(log, "t")
    assert sorted(o for places in placed for o in places) == list(range(320))
    for i, places in enumerate(placed):
        assert [found[offset] for offset in places] == [b"p%d.%04d" % (i, j) for j in range(40)]
    sequences = read(log, "t").rows.column("$sequence").to_pylist()
    assert sequences == list(range(1, 321))


@pytest.mark.faults
@pytest.mark.parametrize(
    "point",
    ["commit.placed", "commit.committed", "commit.synced", "mail.taken", "mail.answering", "mail.posted"],
)
def test_a_leader_killed_during_a_group_commit_repeats_and_loses_nothing(
    log: EmbeddedLog, folder: Path, tmp_path: Path, point: str
) -> None:
    log.create_topic("t")
    from contextlib import ExitStack

    with ExitStack() as stack:
        # Two more go on, so that the one that is killed leads for some of them.
        doomed = stack.enter_context(
            process(APPENDER, folder, "doomed", 500, 0, env=kill_at(point, 5, tmp_path / "mark"))
        )
        others = [stack.enter_context(process(APPENDER, folder, f"p{i}", 60, 0)) for i in range(2)]
        for child in (doomed, *others):
            assert line(child) == "ready"
        for child in (doomed, *others):
            tell(child)
        placed = [[int(line(child)) for _ in range(60)] for child in others]
        for child in others:
            assert child.wait(60) == 0
        acknowledged = [int(text) for text in doomed.communicate()[0].split()]
    found = values(log, "t")
    for i, places in enumerate(placed):
        mine = [v for v in found if v and v.startswith(b"p%d." % i)]
        assert mine == [b"p%d.%04d" % (i, j) for j in range(60)]  # each of them once
        assert [found[offset] for offset in places] == mine
    theirs = [v for v in found if v and v.startswith(b"doomed")]
    assert len(set(theirs)) == len(theirs)
    assert [found[o] for o in acknowledged] == [b"doomed.%04d" % j for j in range(len(acknowledged))]
    assert len(theirs) - len(acknowledged) in (0, 1)
    put(log, "t", b"end")
    assert values(log, "t")[-1] == b"end"


@pytest.mark.faults
def test_files_of_a_killed_process_are_removed(log: EmbeddedLog, folder: Path, tmp_path: Path) -> None:
    log.create_topic("t")
    with process(APPENDER, folder, "p", 5, 200_000, env=kill_at("extent.written", 3, tmp_path / "mark")) as child:
        assert line(child) == "ready"
        tell(child)
        assert child.wait(60) == -signal.SIGKILL
    assert len(files(folder)) == 3
    report = log.maintenance.run()
    assert report is not None
    assert report.orphans == 1
    assert (len(files(folder)), len(values(log, "t"))) == (2, 2)


def test_a_stopped_process_with_the_lock_makes_appends_fail(open_log: OpenLog, folder: Path) -> None:
    log = open_log(storage_lock_timeout=timedelta(milliseconds=200))
    log.create_topic("t")
    with process(HOLDER, folder) as child:
        assert line(child) == "held"
        os.kill(child.pid, signal.SIGSTOP)
        for ask in (lambda: put(log, "t", b"x"), lambda: log.create_topic("u"), lambda: log.writer("w")):
            with pytest.raises(LogBusy) as raised:
                ask()
            assert raised.value.where == str(folder)
        assert values(log, "t") == []
        assert log.bounds("t") == {0: (0, 0)}  # reading goes on
        os.kill(child.pid, signal.SIGCONT)
        tell(child)
        child.wait(30)
    put(log, "t", b"y")
    assert values(log, "t") == [b"y"]


LEADER = """
import sys
from pathlib import Path
from headrace.log.embedded import EmbeddedLog
log = EmbeddedLog(sys.argv[1])
assert log._mailbox.try_lead()
print("leads", flush=True)
sys.stdin.readline()
posts = log._mailbox.collect()
print(len(posts), flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("taken", [False, True])
def test_a_stopped_leader_does_not_block_others(open_log: OpenLog, folder: Path, taken: bool) -> None:
    log = open_log(storage_lock_timeout=timedelta(milliseconds=400))
    log.create_topic("t")
    with process(LEADER, folder) as child:
        assert line(child) == "leads"
        if not taken:
            os.kill(child.pid, signal.SIGSTOP)
        future = log.appender.submit([Append("t", raw(b"x"))], Ack.ALL)
        if taken:
            deadline = time.monotonic() + 30
            while not _posted(log._mailbox):
                assert time.monotonic() < deadline
            tell(child)
            assert line(child) == "1"
        (place,) = future.result(60)
        assert place.offset == 0
    assert values(log, "t") == [b"x"]


def _posted(mailbox: Mailbox) -> bool:
    return mailbox.state != 0


CONSUMER = """
import sys
from datetime import timedelta
from headrace.contracts import Subscription
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings
session = timedelta(seconds=float(sys.argv[2]))
settings = Settings.of(storage_maintenance_interval=timedelta(0), storage_group_session_timeout=session)
log = EmbeddedLog(sys.argv[1], settings)
consumer = log.consumer("g", Subscription(("t",)))
print(len(consumer.assignment), flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize(("how", "session"), [(signal.SIGKILL, 60.0), (signal.SIGSTOP, 1.0)])
@pytest.mark.parametrize("busy", [False, True])
def test_a_member_that_dies_or_stops_is_replaced(
    open_log: OpenLog, folder: Path, how: signal.Signals, session: float, busy: bool
) -> None:
    log = open_log(storage_group_session_timeout=timedelta(seconds=session))
    log.create_topic("t", TopicSpec(partitions=2))
    with process(CONSUMER, folder, session) as child:
        assert line(child) == "2"
        consumer = log.consumer("g", Subscription(("t",)))
        assert len(consumer.assignment) == 1
        os.kill(child.pid, how)
        if how is signal.SIGKILL:
            child.wait()
        deadline = time.monotonic() + 60
        while len(consumer._membership.partitions) < 2:
            assert time.monotonic() < deadline
            if busy:  # what it polls is never nothing, and it must look after the others all the same
                (place,) = consumer._membership.partitions
                log.append([Append("t", raw(b"x"), place.partition)])
            consumer.poll(timedelta(milliseconds=50))
        consumer.commit({TopicPartition("t", p): 0 for p in range(2)})
        consumer.close()


READER = """
import sys
from datetime import timedelta
from headrace.log.embedded.log import EmbeddedLog
from headrace.settings import Settings
log = EmbeddedLog(sys.argv[1], Settings.of(storage_maintenance_interval=timedelta(0)))
print("ready", flush=True)
seen = 0
while seen < 60:
    kept = [o for o in log.read("t", 0, 0, max_records=10**6).rows.column("$offset").to_pylist() if o % 2]
    assert kept == list(range(1, 2 * len(kept), 2)), kept
    seen = len(kept)
log.close()
print("fine", flush=True)
"""


def test_maintenance_does_not_affect_readers_of_other_processes(open_log: OpenLog, folder: Path) -> None:
    from headrace.settings import Size

    log = open_log(storage_file_delete_delay=timedelta(0), storage_inline_bytes=Size(300))
    log.create_topic("t", TopicSpec(compact=True))
    with process(READER, folder) as child:
        assert line(child) == "ready"
        for i in range(60):
            put(log, "t", b"%d" % i * 100, key=b"%d" % (i % 3))
            put(log, "t", b"kept")
            log.maintenance.run(force_compaction=True)
        assert line(child) == "fine"
