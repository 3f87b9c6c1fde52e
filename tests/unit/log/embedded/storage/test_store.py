"""The folder, its files and its database: damage, foreign folders, newer formats, forks, closing, quotas."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.contracts import Ack, Append, Subscription, TopicSpec
from headrace.errors import Closed, DamagedExtent, NewerFormat, NotADataFolder, QuotaExceeded, UnknownTopic
from headrace.log.embedded import EmbeddedLog
from headrace.schema import Schema
from headrace.settings import Settings, Size
from tests.unit.log.embedded.conftest import OpenLog
from tests.unit.log.embedded.data_folder import LARGE, extents, files, put, raw, read, values


def test_everything_is_restored_after_reopening(folder: Path, open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("t", TopicSpec(partitions=2))
    put(log, "t", b"small", key=b"k")
    put(log, "t", LARGE, key=b"k")
    log.writer("w").append(3, [Append("t", raw(b"w"))])
    before = [read(log, "t", p).rows for p in range(2)]
    log.close()
    again = open_log()
    assert [read(again, "t", p).rows for p in range(2)] == before
    assert again.writer("w").last == 3


def test_a_new_folder_is_created_with_its_parents(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b" / "FORMAT").read_text() == "headrace 1\n"


def test_a_folder_with_foreign_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(NotADataFolder) as raised:
        EmbeddedLog(tmp_path)
    assert "precious.txt" in raised.value.what
    assert [p.name for p in tmp_path.iterdir()] == ["precious.txt"]


@pytest.mark.parametrize("mark", [b"something else", b"headrace x", b"", b"\xff\xfe"])
def test_a_foreign_format_file_is_refused(tmp_path: Path, mark: bytes) -> None:
    (tmp_path / "FORMAT").write_bytes(mark)
    with pytest.raises(NotADataFolder):
        EmbeddedLog(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "FORMAT").write_text("headrace 2\n")
    with pytest.raises(NewerFormat):
        EmbeddedLog(tmp_path)


def test_a_file_instead_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(Exception) as raised:  # noqa: PT011
        EmbeddedLog(tmp_path / "data")
    assert raised.value.code in ("read-only", "not-a-data-folder")  # type: ignore[attr-defined]


def test_a_damaged_commit_log_raises_an_error(log: EmbeddedLog) -> None:
    log.create_topic("t")
    put(log, "t", b"good")
    put(log, "t", b"bad", b"worse")
    with log.store.transaction() as db:
        ((payload,),) = db.execute("SELECT payload FROM extents WHERE base_offset = 1")
        db.execute("UPDATE extents SET payload = ? WHERE base_offset = 1", (payload.replace(b"bad", b"Bad"),))
    assert log.read("t", 0, 0, max_records=1).rows.column("value").to_pylist() == [b"good"]
    with pytest.raises(DamagedExtent) as raised:
        read(log, "t")
    assert raised.value.where == "t/0, offsets 1 to 2"


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "gone"])
def test_a_damaged_extent_raises_an_error(log: EmbeddedLog, folder: Path, damage: str) -> None:
    log.create_topic("t")
    put(log, "t", LARGE)
    (path,) = (folder / "extents").iterdir()
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"flip": data[:1000] + b"!" + data[1001:], "cut": data[:-9], "empty": b""}[damage])
    with pytest.raises(DamagedExtent) as raised:
        read(log, "t")
    assert raised.value.where is not None
    assert raised.value.where.startswith("t/0")
    assert path.name in f"{raised.value.where} {raised.value.what}"


@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_a_damaged_archive_raises_an_error(open_log: OpenLog, clock, folder: Path, damage: str) -> None:
    from datetime import timedelta

    log = open_log(clock)
    log.create_topic("t", TopicSpec(retention_time=timedelta(seconds=1), archive=True))
    put(log, "t", b"\x01\x02\x03" * 999)
    clock.advance(timedelta(seconds=5))
    log.maintenance.run()
    (path,) = (folder / "archive").iterdir()
    data = path.read_bytes()
    middle = data.index(b"\x01\x02\x03")
    path.write_bytes(data[:middle] + b"!" + data[middle + 1 :] if damage == "flip" else data[:-20])
    with pytest.raises(DamagedExtent) as raised:
        read(log, "t")
    assert "t/0, offsets 0 to 0" in str(raised.value.where)


def test_a_forked_child_may_not_use_it(log: EmbeddedLog) -> None:
    log.create_topic("t")
    put(log, "t", b"x")
    producer, writer, consumer = log.producer(), log.writer("w"), log.consumer("g", Subscription(("t",)))

    def child(results) -> None:
        codes = []
        for ask in (
            log.topics,
            lambda: log.append([]),
            lambda: put(log, "t", b"y"),
            lambda: writer.append(1, []),
            consumer.poll,
            log.groups,
        ):
            try:
                ask()
                codes.append("fine")
            except Exception as error:
                codes.append(getattr(error, "code", repr(error)))
        log.close()
        results.put(codes)

    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    forked = context.Process(target=child, args=(results,))
    forked.start()
    assert results.get() == ["closed"] * 6
    forked.join()
    assert values(log, "t") == [b"x"]  # and the parent is not harmed
    put(log, "t", b"y")
    producer.close()


def test_closing_wakes_waiting_readers(log: EmbeddedLog) -> None:
    log.create_topic("t")
    consumer = log.consumer("g", Subscription(("t",)))
    seen: list[object] = []

    def wait() -> None:
        from datetime import timedelta

        try:
            while True:
                seen.append(consumer.poll(timedelta(milliseconds=20)))
        except Closed as error:
            seen.append(error.code)

    thread = threading.Thread(target=wait)
    thread.start()
    while not seen:
        pass
    log.close()
    thread.join(30)
    assert seen[-1] == "closed"
    consumer.close()


def test_closing_while_threads_append_is_safe(open_log: OpenLog) -> None:
    """A connection that is closed while another thread uses it takes the whole process down."""
    for _ in range(20):
        log = open_log()
        if not log.topics():
            log.create_topic("t")
        codes: list[str] = []

        def work(act: Callable[[], object], codes: list[str] = codes) -> None:
            try:
                while True:
                    act()
            except Closed as error:
                codes.append(error.code)

        acts = (lambda log=log: read(log, "t"), lambda log=log: put(log, "t", b"x"), lambda log=log: log.groups())
        threads = [threading.Thread(target=work, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
        time.sleep(0.01)
        log.close()
        for thread in threads:
            thread.join(30)
        assert codes == ["closed"] * len(acts)


def test_closing_writes_unacknowledged_records(folder: Path, open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("t")
    for i in range(50):
        log.append([Append("t", raw(b"%d" % i))], ack=Ack.NONE)
    log.close()
    assert values(open_log(), "t") == [b"%d" % i for i in range(50)]


def test_a_quota_is_enforced(log: EmbeddedLog, folder: Path) -> None:
    log.create_topic("t", TopicSpec(quota_bytes=Size(10_000)))
    log.create_topic("free")
    put(log, "t", b"x" * 6000)
    with pytest.raises(QuotaExceeded) as raised:
        log.append([Append("free", raw(b"y")), Append("t", raw(b"x" * 6000))])
    assert "9.766 KB" in raised.value.what
    with pytest.raises(QuotaExceeded):
        put(log, "t", LARGE)
    assert files(folder) == set()
    assert (len(values(log, "t")), values(log, "free")) == (1, [])
    log.truncate("t", 0, 1)
    put(log, "t", b"x" * 6000)
    log.alter_topic("t", quota_bytes=None)
    put(log, "t", LARGE)
    assert len(values(log, "t")) == 2


def test_a_failed_append_leaves_nothing(log: EmbeddedLog, folder: Path) -> None:
    log.create_topic("t")
    with pytest.raises(UnknownTopic):
        log.append([Append("t", raw(LARGE)), Append("no", raw(b"x"))])
    writer = log.writer("w")
    writer.append(1, [Append("t", raw(LARGE))])
    writer.append(1, [Append("t", raw(LARGE))])
    assert len(files(folder)) == 1
    assert extents(log) == [("file", 1)]


def test_a_log_holds_many_topics(log: EmbeddedLog) -> None:
    for i in range(500):
        log.create_topic(f"t{i:03}", TopicSpec(partitions=2))
    assert len(log.topics()) == 500
    log.append([Append(f"t{i:03}", raw(b"x")) for i in range(500)])
    assert log.head([f"t{i:03}" for i in range(500)]) == 500


def test_a_topic_created_by_a_process_that_died_before_signalling_is_found(log: EmbeddedLog, open_log: OpenLog) -> None:
    other = open_log()
    other.topics()
    log.create_topic("t")
    page = log.store.commit_signal.page
    page.catalog -= 1  # as if it had been killed in between
    put(other, "t", b"x")
    log.alter_topic("t", schema=log.topic("t").schema, max_record_bytes=Size(5000))
    page.catalog -= 1
    put(other, "t", b"y")
    assert values(log, "t") == [b"x", b"y"]


def test_a_committer_that_died_before_signalling_does_not_block_others(log: EmbeddedLog) -> None:
    log.create_topic("t")
    put(log, "t", b"x")
    log.store.commit_signal.page.committed = log.store.commit_signal.page.synced = 0
    assert log.head(["t"]) == 1
    assert log.store.commit_signal.page.synced == 1


def test_a_folder_can_be_removed_and_recreated(tmp_path: Path) -> None:
    import shutil

    for value in (b"first", b"second"):
        with EmbeddedLog(tmp_path / "data", Settings()) as log:
            log.create_topic("t")
            put(log, "t", value)
            assert values(log, "t") == [value]
        shutil.rmtree(tmp_path / "data")


def test_connections_of_finished_threads_are_closed(log: EmbeddedLog) -> None:
    log.create_topic("t")
    for _ in range(20):
        thread = threading.Thread(target=lambda: log.bounds("t"))
        thread.start()
        thread.join()
    assert len(log.store._readers) <= 2


def test_a_log_holds_typed_and_raw_topics(log: EmbeddedLog) -> None:
    log.create_topic("raw")
    log.create_topic("typed", TopicSpec(schema=Schema.parse("id int key")))
    import pyarrow as pa

    log.append([Append("raw", raw(b"x")), Append("typed", pa.RecordBatch.from_pydict({"id": [1]}))])
    assert [b.rows.schema.names[0] for b in log.scan(["raw", "typed"], 0, 9)] == ["key", "id"]
