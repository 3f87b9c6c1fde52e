"""Bisects a batch that fails again and again, down to the record that fails.

    count_failure(folder, error)              when a query has failed
    FailingBatchResume(...).resume()          before it starts again

Spark repeats a batch that has started until it is committed. One that has failed `BATCH_ATTEMPTS` times is cut in half
by its records, and so is the half that fails, until only one record is left: so many starts as a batch's size has
binary digits. If that record fails `RECORD_ATTEMPTS` times, the query continues after it: the record becomes a dead
letter, or the query fails with `record-failed`.

Only failures that a record may have caused are counted: those of Python workers and of their code. They may still have
another cause, such as a missing library or a sink that cannot be reached; then every record fails. So a query that has
left out `LEFT_OUT_IN_A_ROW` records, with no committed batch in between, leaves out no more: it stops with
`records-keep-failing`. A checkpoint holds what is known in two files, so that a restart of the server continues where
it was:

    failing.json     the batch: how often it failed, and the part that is tried
    skipped.json     the records that were left out, each with the last batch that was committed before
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from headrace.contracts import Append, Log, dead_letter_topic
from headrace.engine.checkpoint import Checkpoint, Manifest, writer_name
from headrace.engine.execution_mode import REALTIME
from headrace.engine.io.batch_cuts import BatchCuts, RecordPlace, batch_cuts
from headrace.errors import (
    HeadraceError,
    OutOfMemory,
    PythonWorkerLost,
    RecordFailed,
    RecordsKeepFailing,
    SparkOutOfMemory,
    StateUnreadable,
    TaskFailed,
)
from headrace.record import Record

BATCH_ATTEMPTS = 3
"""Failures of a batch before it is bisected."""
RECORD_ATTEMPTS = 4
"""Failures of a single record before it is left out."""
LEFT_OUT_IN_A_ROW = 3
"""Records that are left out with no committed batch in between, before the query stops."""
CAUSED_BY_RECORDS = (PythonWorkerLost, TaskFailed, OutOfMemory)
"""Failures that a record may have caused."""
CAUSED_BY_OTHERS = (SparkOutOfMemory,)
"""Exceptions to them: failures that may be another query's fault, as a lost Spark process is."""
_LIKELY_CAUSES = {
    PythonWorkerLost.code: "a library that ends its process, or too little memory for Python",
    OutOfMemory.code: "too little memory",
}
_LIKELY_CAUSE = "code that fails for every record, a missing library, or a system that it cannot reach"
DEAD_LETTER, STOP = "dead-letter", "stop"
_FAILING, _SKIPPED = "failing.json", "skipped.json"
_NARROWED = "batch %s of query %s failed again: %s of its %s records are tried alone"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FailingBatch:
    """What is known of the batch after the last committed one; `cut` and `until` are positions."""

    committed: int
    """The last committed batch."""
    failures: int
    """Failures of the part that is tried."""
    code: str
    reason: str
    cut: Any = None
    """The end of the part that is tried; None while it is the whole batch."""
    until: Any = None
    """The end of the part that contains the failing record."""
    records: int = 0
    """The records of the part that is tried."""

    @property
    def narrows(self) -> bool:
        """Whether the next failure makes the part smaller."""
        return self.records > 1


@dataclass(frozen=True)
class SkippedRecord:
    """A record that was left out; `committed` is the last batch before, None if an earlier version left it out."""

    place: RecordPlace
    committed: int | None = None


def count_failure(folder: Path, error: HeadraceError) -> bool:
    """Counts a failure of a query's batch; whether that has brought the search for a record on."""
    checkpoint = Checkpoint(folder)
    manifest, committed = checkpoint.manifest, checkpoint.last_committed()
    if manifest is None or manifest.execution_mode == REALTIME:
        return False
    if not isinstance(error, CAUSED_BY_RECORDS) or isinstance(error, CAUSED_BY_OTHERS):
        return False
    if checkpoint.last_started() <= committed:
        return False
    before = read_failing(checkpoint)
    failures = before.failures + 1 if before is not None and before.committed == committed else 1
    known = before or FailingBatch(committed, 0, "", "")
    failing = replace(known, committed=committed, failures=failures, code=error.code, reason=error.what)
    checkpoint.write_note(_FAILING, asdict(failing))
    return known.narrows


def read_failing(checkpoint: Checkpoint) -> FailingBatch | None:
    """What is known of a failing batch; None if there is none, or if it cannot be read: the search begins again."""
    try:
        document = checkpoint.read_note(_FAILING)
        return None if document is None else _parsed(document)
    except (StateUnreadable, TypeError) as error:
        _logger.warning("%s of %s cannot be read: %s", _FAILING, checkpoint.folder.name, error)
        return None


def forget_failing(checkpoint: Checkpoint) -> None:
    """Forgets what is known of a failing batch: the search begins again."""
    checkpoint.write_note(_FAILING, None)


def skipped_writer(run: str) -> str:
    """The name of the writer of the dead letters of records that were left out: its numbers count them."""
    return f"skipped.{run}"


def _parsed(document: Any) -> FailingBatch:
    failing = FailingBatch(**document)
    if not all(isinstance(number, int) for number in (failing.committed, failing.failures, failing.records)):
        raise TypeError(f"not a number: {document}")
    if not all(isinstance(position, dict | None) for position in (failing.cut, failing.until)):
        raise TypeError(f"not a position: {document}")
    return failing


def read_skipped(checkpoint: Checkpoint) -> list[SkippedRecord]:
    """The records that were left out, in the order in which the query would have read them."""
    records = checkpoint.read_note(_SKIPPED) or []
    try:
        return [_skipped(**record) for record in records]
    except TypeError as error:
        raise checkpoint.unreadable_note(_SKIPPED) from error


def _skipped(committed: int | None = None, **place: Any) -> SkippedRecord:
    return SkippedRecord(RecordPlace(**place), committed)


def _write_skipped(checkpoint: Checkpoint, records: Sequence[SkippedRecord]) -> None:
    checkpoint.write_note(_SKIPPED, [{**asdict(one.place), "committed": one.committed} for one in records])


@dataclass(frozen=True)
class FailingBatchResume:
    """Decides how a query resumes whose batch has failed. Nobody else may run it."""

    log: Log
    checkpoint: Checkpoint
    manifest: Manifest
    topics: Sequence[str]
    sink: str
    on_failing_record: str

    def resume(self) -> Sequence[Any]:
        """Makes the batch smaller, or leaves a record out; returns the positions at which batches must end."""
        failing = read_failing(self.checkpoint)
        if failing is None:
            return ()
        committed, started = self.checkpoint.last_committed(), self.checkpoint.last_started()
        after = self.checkpoint.position(committed) or self.manifest.start
        if failing.until is not None and not self._cuts.count(after, failing.until):
            failing = replace(failing, cut=None, until=None, records=0)  # that part has been processed
            self._store(failing)
        if failing.committed != committed and failing.until is None:
            self._forget()
            return ()
        if started <= committed:
            return self._boundaries(failing)
        if failing.cut is None and failing.failures < BATCH_ATTEMPTS:
            return ()
        if self._is_written(started):
            return self._boundaries(failing)
        return self._narrow(failing, after, started)

    @property
    def _cuts(self) -> BatchCuts:
        return batch_cuts(self.log, self.topics)

    def _narrow(self, failing: FailingBatch, after: Any, started: int) -> Sequence[Any]:
        end = self.checkpoint.position(started)
        part = self._cuts.earlier(end, failing.until or end)
        records = self._cuts.count(after, part)
        if records == 1 and failing.failures >= RECORD_ATTEMPTS and (place := self._cuts.only(after, part)) is not None:
            self._leave_out(place, failing, part)
            return ()
        if records > 1 and not failing.failures:
            return self._boundaries(failing)
        cut = self._cuts.half(after, part) if records > 1 else part
        failures = 0 if records > 1 else failing.failures
        narrowed = replace(failing, failures=failures, cut=cut, until=part, records=max(1, records // 2))
        if narrowed != failing:
            self._store(narrowed)
            _logger.warning(_NARROWED, started, self.manifest.query, narrowed.records, records)
            self._cuts.shorten(self.checkpoint, started, cut)
        return self._boundaries(narrowed)

    def _boundaries(self, failing: FailingBatch) -> Sequence[Any]:
        return [position for position in (failing.cut, failing.until) if position is not None]

    def _is_written(self, batch: int) -> bool:
        """Whether the batch is in the log: then it must be repeated as it was. Fences the earlier writer."""
        writer = self.log.writer(writer_name(self.manifest.run))
        writer.close()
        return writer.last is not None and writer.last >= batch

    # -- the record -------------------------------------------------------------------------------------------------

    def _leave_out(self, place: RecordPlace, failing: FailingBatch, end: Any) -> None:
        """Continues after a record. After a crash in between, it fails once more, and is written only once."""
        what = f"query {self.manifest.query} failed {failing.failures} times at one record: {failing.reason}"
        skipped = read_skipped(self.checkpoint)
        if place not in [one.place for one in skipped[-1:]]:
            self._check_stop(place, failing, what, skipped)
            self._append_dead_letter(place, what, len(skipped))
            _write_skipped(self.checkpoint, [*skipped, SkippedRecord(place, failing.committed)])
        _logger.error("%s; it is now a dead letter (%s)", what, place)
        self.checkpoint.move_start(end)
        self._forget()

    def _check_stop(
        self, place: RecordPlace, failing: FailingBatch, what: str, skipped: Sequence[SkippedRecord]
    ) -> None:
        """Raises if the query is to stop at the record. Each later start tries the record once."""
        before = [one.committed for one in skipped[-LEFT_OUT_IN_A_ROW:]]
        is_every_record = before == [failing.committed] * LEFT_OUT_IN_A_ROW
        stops = self.on_failing_record == STOP or place.topic not in self.manifest.topics
        if not is_every_record and not stops:
            return
        self._store(replace(failing, failures=RECORD_ATTEMPTS - 1))
        if is_every_record and not stops:
            raise RecordsKeepFailing(
                f"{what}; it has left out the {LEFT_OUT_IN_A_ROW} records before, and committed nothing since",
                where=str(place),
                fix=f"the cause is probably not these records but {_LIKELY_CAUSES.get(failing.code, _LIKELY_CAUSE)}: "
                "remove it and RESUME the query; the records left out are its dead letters",
            )
        raise RecordFailed(
            what,
            where=str(place),
            fix='correct the code and RESUME the query; with query.on_failing_record = "dead-letter", it continues '
            "without the record",
        )

    def _append_dead_letter(self, place: RecordPlace, reason: str, number: int) -> None:
        why = {"code": RecordFailed.code, "reason": reason, "where": str(place), "query": self.manifest.query}
        headers = tuple((name, text.encode()) for name, text in why.items())
        rows = self.log.read(place.topic, place.partition, place.offset, max_records=1).rows
        record = Record(_cell(rows, "value"), _cell(rows, "key"), headers, rows.column("$timestamp")[0].as_py())
        with closing(self.log.writer(skipped_writer(self.manifest.run))) as writer:
            writer.append(number, [Append(dead_letter_topic(self.sink), [record])])

    def _store(self, failing: FailingBatch) -> None:
        self.checkpoint.write_note(_FAILING, asdict(failing))

    def _forget(self) -> None:
        forget_failing(self.checkpoint)


def _cell(rows: Any, name: str) -> bytes | None:
    """A column of a raw topic; of a typed one all columns are the value."""
    if name in rows.schema.names:
        value = rows.column(name)[0].as_py()
        return value if value is None or isinstance(value, bytes) else repr(value).encode()
    if name == "key":
        return None
    return repr({one: rows.column(one)[0].as_py() for one in rows.schema.names if not one.startswith("$")}).encode()
