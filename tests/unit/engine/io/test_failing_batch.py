"""A batch that fails again and again is bisected down to the record that fails."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.contracts import Append, Log
from headrace.engine.checkpoint import Checkpoint, Manifest, writer_name
from headrace.engine.io.failing_batch import FailingBatchResume, count_failure, read_failing, read_skipped
from headrace.errors import (
    HeadraceError,
    OutOfMemory,
    ProcessLost,
    PythonWorkerLost,
    RecordFailed,
    RecordsKeepFailing,
    SparkOutOfMemory,
    StateUnreadable,
    TaskFailed,
    UnexpectedFailure,
)
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.settings import Settings
from tests.ksql_strategies import planned

QUERY = planned("CREATE TABLE o AS SELECT id, COUNT(*) FROM s GROUP BY id;")
LOST = PythonWorkerLost("query o lost a Python worker process")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data", Settings.of(storage_maintenance_interval=timedelta(0))) as opened:
        for topic in ("s", "o", "o.dead"):
            opened.create_topic(topic)
        yield opened


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    made = Checkpoint(tmp_path / "q")
    made.open(QUERY, "record", 2, ("s",))
    for kind in ("offsets", "commits"):
        (made.spark / kind).mkdir(parents=True)
    return made


@dataclass
class FakeQuery:
    """A query that reads all there is in one batch, and fails at some values."""

    log: Log
    checkpoint: Checkpoint
    bad: set[bytes]
    topic: str = "s"
    sink: str = "o"
    on_failing_record: str = "dead-letter"
    processed: list[bytes] = field(default_factory=list)
    starts: int = 0

    @property
    def manifest(self) -> Manifest:
        found = self.checkpoint.manifest
        assert found is not None
        return found

    def run(self, error: HeadraceError = LOST) -> bool:
        """Starts the query, and runs it until it fails (False) or has read all (True)."""
        self.starts += 1
        parts = self.log, self.checkpoint, self.manifest, [self.topic], self.sink, self.on_failing_record
        ends = FailingBatchResume(*parts).resume()
        while (end := self.next_end(after := self.checkpoint.position() or self.manifest.start, ends)) is not None:
            committed, started = self.checkpoint.last_committed(), self.checkpoint.last_started()
            if started <= committed:
                started = committed + 1
                (self.checkpoint.spark / "offsets" / str(started)).write_text(f"v1\n{{}}\n{json.dumps(end)}")
            values = self.values(after, self.checkpoint.position(started))
            self.write_state(started, values)
            if self.bad & set(values):
                count_failure(self.checkpoint.folder, error)
                return False
            self.processed += values
            (self.checkpoint.spark / "commits" / str(started)).write_text("v1\n{}")
        return True

    def write_state(self, batch: int, values: list[bytes]) -> None:
        """A task stores the state, also of a batch that fails: no other attempt's may be there."""
        snapshot, content = self.checkpoint.spark / "state" / "0" / "0" / f"{batch + 1}.zip", b" ".join(values)
        snapshot.parent.mkdir(parents=True, exist_ok=True)
        assert not snapshot.exists() or snapshot.read_bytes() == content
        snapshot.write_bytes(content)

    def run_until_done(self, starts: int = 200, error: HeadraceError = LOST) -> None:
        while not self.run(error):
            assert self.starts < starts

    def next_end(self, after: Any, ends: Sequence[Any]) -> Any:
        """The end of the next batch; None if all is read."""
        at, head = (after or {"sequence": 0})["sequence"], self.log.head([self.topic])  # pyright: ignore[reportAttributeAccessIssue]
        wanted = [end["sequence"] for end in ends if end["sequence"] > at]
        return {"sequence": min([head, *wanted])} if at < head else None

    def values(self, after: Any, end: Any) -> list[bytes]:
        found = self.log.scan([self.topic], (after or {"sequence": 0})["sequence"], end["sequence"])  # pyright: ignore[reportAttributeAccessIssue]
        return [record.value or b"" for batch in found for record in batch.records()]


def fill(log: EmbeddedLog, rows: int, *, together: bool = True) -> None:
    records = [Record(b"%d" % n, b"k%d" % n) for n in range(rows)]
    for part in [records] if together else [[record] for record in records]:
        log.append([Append("s", from_records(part))])
        log.append([Append("o", from_records([Record(b"between")]))])  # sequences have gaps


def dead_letters(log: EmbeddedLog) -> list[tuple[bytes | None, dict[str, str]]]:
    return [
        (record.value, {name: value.decode() for name, value in record.headers})
        for record in log.read("o.dead", 0, 0).records()
    ]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("bad", [0, 1, 49, 63, 98, 99])
def test_a_record_that_always_fails_becomes_a_dead_letter(
    log: EmbeddedLog, checkpoint: Checkpoint, bad: int, together: bool
) -> None:
    fill(log, 100, together=together)
    query = FakeQuery(log, checkpoint, {b"%d" % bad})
    query.run_until_done(starts=3 + 7 + 4 + 1)
    assert query.processed == [b"%d" % n for n in range(100) if n != bad]
    ((value, headers),) = dead_letters(log)
    assert (value, headers["code"], headers["query"]) == (b"%d" % bad, "record-failed", QUERY.id)
    assert headers["where"] == f"topic s, partition 0, offset {bad}"
    assert "lost a Python worker" in headers["reason"]
    assert [one.place.offset for one in read_skipped(checkpoint)] == [bad]


def test_several_records_that_fail_are_all_found(log: EmbeddedLog, checkpoint: Checkpoint) -> None:
    fill(log, 20)
    query = FakeQuery(log, checkpoint, {b"0", b"1", b"7", b"19"})
    query.run_until_done()
    assert query.processed == [b"%d" % n for n in range(20) if n not in (0, 1, 7, 19)]
    assert [value for value, _ in dead_letters(log)] == [b"0", b"1", b"7", b"19"]


ALL = {b"%d" % n for n in range(20)}


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (TaskFailed("ModuleNotFoundError: No module named 'gone'"), "a missing library"),
        (PythonWorkerLost("a worker"), "ends its process"),
        (OutOfMemory("query o ran out of memory"), "too little memory"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.code,
)
def test_what_fails_for_every_record_leaves_out_three_and_stops(
    log: EmbeddedLog, checkpoint: Checkpoint, error: HeadraceError, cause: str
) -> None:
    fill(log, 20)
    query = FakeQuery(log, checkpoint, set(ALL))
    with pytest.raises(RecordsKeepFailing) as caught:
        query.run_until_done(100, error)
    assert caught.value.where == "topic s, partition 0, offset 3"
    assert error.what in caught.value.what
    assert cause in (caught.value.fix or "")
    for _ in range(3):  # each later start, also of another server, tries the record once
        assert not query.run(error)
        with pytest.raises(RecordsKeepFailing):
            query.run(error)
    assert [value for value, _ in dead_letters(log)] == [b"0", b"1", b"2"]
    query.bad = set()  # the cause was removed
    assert query.run()
    assert query.processed == [b"%d" % n for n in range(3, 20)]


def test_records_that_fail_with_batches_in_between_are_all_left_out(log: EmbeddedLog, checkpoint: Checkpoint) -> None:
    fill(log, 20)
    bad = {b"%d" % n for n in range(20) if n % 4 != 3}
    query = FakeQuery(log, checkpoint, bad)
    query.run_until_done(starts=500)
    assert query.processed == [b"3", b"7", b"11", b"15", b"19"]
    assert [one.committed for one in read_skipped(checkpoint)][:6] == [-1, -1, -1, 0, 0, 0]


def test_a_record_that_an_earlier_version_left_out_is_known(checkpoint: Checkpoint) -> None:
    (checkpoint.folder / "skipped.json").write_text('[{"topic": "s", "partition": 0, "offset": 7, "sequence": 9}]')
    (record,) = read_skipped(checkpoint)
    assert (record.place.offset, record.committed) == (7, None)


def test_a_query_stops_at_the_record_if_configured(log: EmbeddedLog, checkpoint: Checkpoint) -> None:
    fill(log, 8)
    query = FakeQuery(log, checkpoint, {b"5"}, on_failing_record="stop")
    with pytest.raises(RecordFailed) as caught:
        query.run_until_done()
    assert caught.value.where == "topic s, partition 0, offset 5"
    assert dead_letters(log) == []
    assert query.processed == [b"0", b"1", b"2", b"3", b"4"]
    assert not query.run()  # each later start tries the record once
    with pytest.raises(RecordFailed):
        query.run()
    query.bad = set()  # the code was corrected
    assert query.run()
    assert query.processed == [b"%d" % n for n in range(8)]
    assert (dead_letters(log), read_skipped(checkpoint)) == ([], [])


def test_failures_that_pass_leave_no_record_out(log: EmbeddedLog, checkpoint: Checkpoint) -> None:
    fill(log, 8)
    query = FakeQuery(log, checkpoint, {b"5"})
    for _ in range(6):
        assert not query.run()
    query.bad = set()
    assert query.run()
    fill(log, 1)
    assert query.run()
    assert (len(query.processed), dead_letters(log)) == (9, [])
    assert read_failing(checkpoint) is None


@pytest.mark.parametrize("error", [ProcessLost("Spark"), SparkOutOfMemory("all"), UnexpectedFailure("a broker")])
def test_failures_that_no_record_causes_are_not_counted(
    log: EmbeddedLog, checkpoint: Checkpoint, error: HeadraceError
) -> None:
    fill(log, 2)
    query = FakeQuery(log, checkpoint, {b"1"})
    for _ in range(20):
        assert not query.run(error)
    assert (read_failing(checkpoint), dead_letters(log)) == (None, [])


DAMAGED = [b"", b"{", b"\xff\xfe", b"3", b"[1]", b'{"other": 1}', b'[{"other": 1}]']


@pytest.mark.parametrize("content", [*DAMAGED, b'{"committed": "x", "failures": 1, "code": "", "reason": ""}'])
def test_a_search_begins_again_if_its_note_cannot_be_read(
    log: EmbeddedLog, checkpoint: Checkpoint, content: bytes
) -> None:
    fill(log, 4)
    query = FakeQuery(log, checkpoint, {b"2"})
    for _ in range(4):
        assert not query.run()
    (checkpoint.folder / "failing.json").write_bytes(content)
    assert read_failing(checkpoint) is None
    query.run_until_done()
    assert query.processed == [b"0", b"1", b"3"]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_list_of_skipped_records_is_reported(checkpoint: Checkpoint, content: bytes) -> None:
    (checkpoint.folder / "skipped.json").write_bytes(content)
    with pytest.raises(StateUnreadable, match=r"skipped.json is damaged"):
        read_skipped(checkpoint)


@pytest.mark.parametrize("changes", range(1, 25))
def test_a_search_goes_on_after_a_crash_at_any_place(
    log: EmbeddedLog, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    """The process ends after so many changes of the checkpoint."""
    fill(log, 6)
    query, counter = FakeQuery(log, checkpoint, {b"2"}), itertools.count(1)

    def crashing(change: Callable[..., None]) -> Callable[..., None]:
        def changed(*arguments: object) -> None:
            change(*arguments)
            if next(counter) == changes:
                raise CrashError

        return changed

    for name in ("write_note", "write_position", "shorten_batch", "discard_batch", "_remove_state_of", "move_start"):
        monkeypatch.setattr(Checkpoint, name, crashing(getattr(Checkpoint, name)))
    done = False
    while not done:
        assert query.starts < 30
        with suppress(CrashError):
            done = query.run()
    assert query.processed == [b"0", b"1", b"3", b"4", b"5"]
    assert [value for value, _ in dead_letters(log)] == [b"2"]


class CrashError(Exception):
    pass


def test_a_batch_that_is_in_the_log_is_not_cut(log: EmbeddedLog, checkpoint: Checkpoint) -> None:
    fill(log, 4)
    query = FakeQuery(log, checkpoint, {b"2"})
    assert not query.run()
    log.writer(writer_name(query.manifest.run)).append(0, [Append("o", from_records([Record(b"result")]))])
    for _ in range(10):
        assert not query.run()
    assert checkpoint.position(0) == {"sequence": log.head(["s"])}


def test_an_error_of_the_code_counts_like_a_lost_worker(log: EmbeddedLog, checkpoint: Checkpoint) -> None:
    fill(log, 1)
    query = FakeQuery(log, checkpoint, {b"0"})
    while not query.run(TaskFailed("query o failed: SystemExit: 1")):
        assert query.starts < 10
    ((_, headers),) = dead_letters(log)
    assert headers["reason"].endswith("failed 4 times at one record: query o failed: SystemExit: 1")
