"""Moves a queue's exhausted messages to the dead-letter topic, exactly once.

This is one atomic append of the dead letters and of the journal event that records them, by a named writer of which
there is one per queue. Opening the writer fences the member that had it; the journal is read after that, so it shows
every earlier dead letter; and the append fails if yet another member has opened the writer since. So no two members
dead-letter the same message, however slow one of them is.
"""

from __future__ import annotations

from headrace.contracts import Append, Batch, Log, Writer, dead_letter_spec
from headrace.errors import OffsetOutOfRange, WriterFenced
from headrace.formats.json.rows import JsonRows
from headrace.log.partitioners import key_bytes
from headrace.log.queues.journal import Journal
from headrace.log.queues.state import InFlight, MessageId
from headrace.log.stored_rows import from_records
from headrace.log.topic_spec import ensure_topic
from headrace.record import Headers, Record

_AT_ONCE = 500
_TRIES = 5


class DeadLetterWriter:
    """Dead-letters the messages that are exhausted according to the journal."""

    def __init__(self, log: Log, topic: str, name: str, journal: Journal, dead_letters: str) -> None:
        self._log = log
        self._topic = topic
        self._name = name
        self._journal = journal
        self._dead_letters = dead_letters
        self._writer: Writer | None = None

    def row(self, item: MessageId) -> Batch | None:
        """A message's row, if the topic still holds it."""
        try:
            batch = self._log.read(self._topic, item.partition, item.offset, max_records=1)
        except OffsetOutOfRange:
            return None
        return batch if len(batch) and batch.rows.column("$offset")[0].as_py() == item.offset else None

    def write_expired(self) -> None:
        """Dead-letter everything that is exhausted by now; messages that another member is moving are left to it."""
        now = self._journal.now()
        if not self._journal.state.exhausted(now):
            return
        if now > self._journal.state.at:
            # Only the journal's time counts: from here on a late acknowledgement cannot conflict with the dead letter.
            self._journal.append("tick")
        tries = 0
        while tries < _TRIES and self._journal.state.exhausted(self._journal.state.at):
            tries = 0 if self._write_some() else tries + 1

    def _write_some(self) -> bool:
        if self._writer is None:
            self._writer = self._log.writer(self._journal.topic)
        self._journal.sync()
        items = self._journal.state.exhausted(self._journal.state.at)[:_AT_ONCE]
        rows = {item: row for item in items if (row := self.row(item)) is not None}
        if len(rows) < len(items):
            self._journal.append("lost", starts=[], items=[item for item in items if item not in rows])
        if rows:
            try:
                self._append(self._writer, rows)
            except WriterFenced:
                self._writer = None
                return False
        return True

    def _append(self, writer: Writer, rows: dict[MessageId, Batch]) -> None:
        ensure_topic(self._log, self._dead_letters, dead_letter_spec(self._log.topic(self._topic).spec))
        records = [self._dead_letter(item, row) for item, row in rows.items()]
        event = self._journal.row("dead", items=list(rows))
        writer.append((writer.last or 0) + 1, [Append(self._dead_letters, from_records(records)), event])
        self._journal.sync()

    def _dead_letter(self, item: MessageId, row: Batch) -> Record:
        in_flight = self._journal.state.held[item]
        is_raw = self._log.topic(self._topic).schema.is_raw
        record = next(row.records()).record if is_raw else self._typed_record(row)
        return Record(record.value, record.key, record.headers + self._headers(item, in_flight))

    def _typed_record(self, row: Batch) -> Record:
        schema = self._log.topic(self._topic).schema
        key = key_bytes(row.rows, schema)[0].as_py() if schema.key else None
        headers = tuple((h["name"], h["value"]) for h in row.rows.column("$headers")[0].as_py() or ())
        return Record(JsonRows().encode(row.rows, schema)[0].as_py(), key, headers)

    def _headers(self, item: MessageId, in_flight: InFlight) -> Headers:
        code = "rejected" if in_flight.refused else "max-deliveries"
        how = "was rejected" if in_flight.refused else "failed"
        reason = f'queue "{self._name}": the message {how} after {in_flight.deliveries} deliveries'
        origin = f"{self._topic}/{item.partition}/{item.offset}"
        texts = {"code": code, "reason": reason, "origin": origin, "deliveries": str(in_flight.deliveries)}
        return tuple((name, text.encode()) for name, text in texts.items())
