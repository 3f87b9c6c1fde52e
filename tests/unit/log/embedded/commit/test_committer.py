"""Group commit: a request fails alone, a failed change rolls back, a cancelled request is not written."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.contracts import Ack, Append, TopicSpec
from headrace.errors import QuotaExceeded, UnknownTopic, WriterFenced
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.commit import committer
from headrace.log.embedded.commit.placement import Request, StaleTopic, WriterMark
from headrace.log.embedded.ipc import fair_lock
from headrace.long_waits import LONG_WAITS
from headrace.record import Record
from headrace.settings import Size
from tests.unit.log.embedded.conftest import OpenLog
from tests.unit.log.embedded.data_folder import extents, files, put, raw, read, values
from tests.wait import wait_until


def together(log: EmbeddedLog, *requests: Request) -> list[object]:
    """Commit requests as one group; each one's result, or its error."""
    with log.committer._busy:
        futures = [log.committer.submit(request) for request in requests]
        log.committer._drain()
    return [future.exception() or future.result() for future in futures]


def test_appends_of_a_group_become_one_extent_per_partition(log: EmbeddedLog) -> None:
    log.create_topic("t", TopicSpec(partitions=2))
    given = [Append("t", raw(b"%d" % i), i % 2) for i in range(6)]
    results = together(log, *(Request(log.appender.parts([append])) for append in given))
    assert [(r[0].partition, r[0].offset, r[0].count) for r in results] == [  # type: ignore[index]
        (i % 2, i // 2, 1) for i in range(6)
    ]
    assert extents(log) == [("inline", 3), ("inline", 3)]
    assert (values(log, "t", 0), values(log, "t", 1)) == ([b"0", b"2", b"4"], [b"1", b"3", b"5"])


def test_rows_with_different_columns_become_one_extent(log: EmbeddedLog) -> None:
    from headrace.log.stored_rows import from_records

    log.create_topic("t")
    batches = [from_records([Record(b"a")]), from_records([Record(b"b", headers=(("h", b"1"),), occurred_at=5)])]
    together(log, *(Request(log.appender.parts([Append("t", rows)])) for rows in batches))
    assert extents(log) == [("inline", 2)]
    assert [r.headers for r in read(log, "t").records()] == [(), (("h", b"1"),)]


def test_an_invalid_request_fails_alone(log: EmbeddedLog, folder: Path) -> None:
    log.create_topic("t")
    log.create_topic("gone")
    log.create_topic("small", TopicSpec(quota_bytes=Size(100)))
    log.create_topic("changed")
    requests = [
        Request(log.appender.parts([Append("t", raw(b"a"))])),
        Request(log.appender.parts([Append("gone", raw(b"b")), Append("t", raw(b"b"))])),
        Request(log.appender.parts([Append("small", raw(b"c" * 500)), Append("t", raw(b"c"))])),
        Request(log.appender.parts([Append("changed", raw(b"d")), Append("t", raw(b"d"))])),
        Request(log.appender.parts([Append("t", raw(b"e"))]), mark=WriterMark("w", 9, 1)),
        Request(log.appender.parts([Append("t", raw(b"f"))])),
    ]
    log.delete_topic("gone")
    log.alter_topic("changed", max_record_bytes=Size(1000))
    first, gone, small, changed, fenced, last = together(log, *requests)
    assert [type(e) for e in (gone, small, changed, fenced)] == [UnknownTopic, QuotaExceeded, StaleTopic, WriterFenced]
    assert (first[0].offset, last[0].offset) == (0, 1)  # type: ignore[index]
    assert values(log, "t") == [b"a", b"f"]
    assert log.head(["t"]) == 2


def test_a_failed_request_of_a_large_group_leaves_no_file(open_log: OpenLog, folder: Path) -> None:
    log = open_log(storage_inline_bytes=Size(1000))
    log.create_topic("t")
    requests = [Request(log.appender.parts([Append("t", raw(b"x" * 600))])) for _ in range(3)]
    requests.append(Request(log.appender.parts([Append("t", raw(b"y"))]), mark=WriterMark("w", 9, 1)))
    together(log, *requests)
    assert len(files(folder)) == 1
    assert len(values(log, "t")) == 3


def test_a_failed_change_is_rolled_back(log: EmbeddedLog) -> None:
    def change(db) -> None:
        db.execute("INSERT INTO writers VALUES ('half', 1, 1)")
        raise UnknownTopic("no")

    with pytest.raises(UnknownTopic):
        log.committer.change(change)
    assert log.store.query("SELECT * FROM writers") == []
    log.create_topic("t")


def test_a_repeated_sequence_within_a_group_is_applied_once(log: EmbeddedLog) -> None:
    log.create_topic("t")
    writer = log.writer("w")
    requests = [
        Request(log.appender.parts([Append("t", raw(b"%d" % i))]), mark=WriterMark("w", writer._epoch, number))
        for i, number in enumerate([1, 1, 2, 1])
    ]
    results = together(log, *requests)
    assert [r is None for r in results] == [False, True, False, True]
    assert values(log, "t") == [b"0", b"2"]


def test_a_cancelled_request_is_not_written(log: EmbeddedLog) -> None:
    log.create_topic("t")
    requests = [Request(log.appender.parts([Append("t", raw(b"%d" % i))])) for i in range(2)]
    with log.committer._busy:
        first, second = [log.committer.submit(request) for request in requests]
        assert first.cancel()
        log.committer._drain()
    assert second.result()[0].offset == 0
    assert values(log, "t") == [b"1"]


def test_a_log_opened_twice_in_one_process_commits_each_row_once(log: EmbeddedLog, open_log: OpenLog) -> None:
    log.create_topic("t")
    logs = [log, open_log(), open_log()]

    def work(number: int) -> None:
        for i in range(60):
            put(logs[number], "t", b"%d.%d" % (number, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = values(log, "t")
    assert len(found) == len(set(found)) == 180
    for number in range(3):
        mine = [v for v in found if v and v.startswith(b"%d." % number)]
        assert mine == [b"%d.%d" % (number, i) for i in range(60)]


def test_altering_a_topic_loses_no_unacknowledged_rows(log: EmbeddedLog, open_log: OpenLog) -> None:
    log.create_topic("t")
    other = open_log()
    for i in range(40):
        log.append([Append("t", raw(b"%d" % i))], ack=Ack.NONE)
        if i % 10 == 5:
            other.alter_topic("t", max_record_bytes=Size(1000 + i))
    put(log, "t", b"end")
    rung = log.store.commit_signal.commits
    while log.bounds("t")[0].end < 41:  # what was prepared again may come behind the last one
        rung = log.wait(rung, timedelta(seconds=10))
    assert sorted(v for v in values(log, "t") if v) == sorted([*(b"%d" % i for i in range(40)), b"end"])


def test_flush_raises_the_error_of_a_failed_record(log: EmbeddedLog) -> None:
    log.create_topic("t")
    producer = log.producer()
    with log.committer._busy:  # so that it stays in the queue until the topic is gone
        sent = producer.send("t", Record(b"x"))
        deleting = threading.Thread(target=log.delete_topic, args=("t",))
        deleting.start()
        while len(log.committer._pending) < 2:
            pass
        log.committer._pending.rotate(1)
    deleting.join()
    assert isinstance(sent.exception(), UnknownTopic)
    with pytest.raises(UnknownTopic):
        producer.flush()
    producer.flush()
    producer.close()


def test_levels_of_acknowledgement_differ_in_what_is_synced(log: EmbeddedLog) -> None:
    log.create_topic("t")
    page = log.store.commit_signal.page
    log.append([Append("t", raw(b"1"))], ack=Ack.WRITTEN)
    assert (page.committed, page.synced) == (1, 0)
    log.append([Append("t", raw(b"2"))], ack=Ack.ALL)
    assert (page.committed, page.synced) == (2, 2)
    log.append([Append("t", raw(b"3"))], ack=Ack.WRITTEN)
    assert log.head(["t"]) == 3  # a position that is given away is durable
    assert page.synced == 3


def test_a_writer_mark_without_rows_is_synced(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    writer, synced = log.writer("w"), []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(fd), real(fd)))
    writer.append(1, [])
    assert synced


def test_a_long_wait_for_the_commit_of_others_is_reported(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "REPORT_SECONDS", 0.01)
    log.create_topic("t")
    with ThreadPoolExecutor(1) as pool:
        with log.committer._busy:
            waiting = pool.submit(log.append, [Append("t", raw(b"a"))])
            wait_until(lambda: any(wait.what == "commit" for wait in LONG_WAITS.current()))
        log.committer._call.set()
        assert waiting.result(30)[0].count == 1
    assert not any(wait.what == "commit" for wait in LONG_WAITS.current())


def test_a_long_wait_for_the_write_lock_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_lock, "REPORT_SECONDS", 0.01)
    lock = fair_lock.FairLock.of(tmp_path / "lock")

    def hold() -> None:
        with lock.held():
            pass

    with ThreadPoolExecutor(1) as pool:
        with lock.held():
            waiting = pool.submit(hold)
            wait_until(lambda: any(wait.what == "write lock of the log" for wait in LONG_WAITS.current()))
        waiting.result(30)
    with lock.held(), ThreadPoolExecutor(1) as pool, pytest.raises(TimeoutError):
        pool.submit(lambda: lock.held(0.001).__enter__()).result(30)
