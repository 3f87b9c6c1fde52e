"""Determines the committed position of a running query from outside: its last batch, what it had read and written.

Nothing is stopped or fenced. The number of the last batch and its results become visible together, so it is enough to
read the number before and after: if it is the same, what was read in between belongs to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from headrace.contracts import Log
from headrace.engine.checkpoint import Checkpoint, Manifest, cuts_topic, writer_name
from headrace.engine.execution_mode import NATIVE
from headrace.engine.io.failing_batch import SkippedRecord, read_skipped
from headrace.engine.native.task_spec import is_final
from headrace.errors import InputGone, LogBusy
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.commit.writers import last_number
from headrace.log.embedded.storage import total_order
from headrace.plan.nodes import Query

if TYPE_CHECKING:
    from headrace.engine.io.kafka_source import Cut, Offsets
    from headrace.log.kafka.log import KafkaLog

_TASK_ROWS = 100_000  # also about as many as are sorted at once
_MAX_WAIT_SECONDS = 30.0  # seconds to wait for a moment between two batches
_POLL_SECONDS = 0.02


class OffsetRange(NamedTuple):
    """Rows of a partition that one task reads: by sequence, `(start, end]`; on Kafka by offset, `[start, end)`."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True)
class CommittedPosition:
    """`batch` is the last committed one; -1 if there is none."""

    batch: int
    read: Sequence[Sequence[OffsetRange]]
    """Parts, one after another; rows of the same part are ordered among themselves."""
    written: Sequence[OffsetRange]
    ends: Mapping[tuple[str, int], Sequence[int]] = field(default_factory=dict)
    """On Kafka: where each batch ended, by topic and partition."""


def committed_position(
    log: Log, query: Query, checkpoint: Checkpoint, manifest: Manifest, topics: Sequence[str]
) -> CommittedPosition:
    """The position of a query that reads these topics. Raises InputGone if part of its input or output was removed."""
    # In native mode a window is emitted in the batch after the one that closed it.
    trailing_batches = int(manifest.execution_mode == NATIVE and is_final(query))
    if isinstance(log, EmbeddedLog):
        return _embedded(log, query, checkpoint, manifest, topics, trailing_batches)
    return _on_kafka(log, query, checkpoint, manifest, trailing_batches)  # type: ignore[arg-type]


_Result = TypeVar("_Result")


def _poll(attempt: Callable[[], _Result | None], query: str) -> _Result:
    """Calls `attempt` until it returns a result."""
    deadline = time.monotonic() + _MAX_WAIT_SECONDS
    while (result := attempt()) is None:
        if time.monotonic() > deadline:
            raise LogBusy(
                f"query {query} writes continuously", fix="try again, or pause the query during the verification"
            )
        time.sleep(_POLL_SECONDS)
    return result


def _input_gone(what: str, *, where: str) -> InputGone:
    return InputGone(what, where=where, fix="set retention_time to at least the period that you verify")


# -- the embedded log -----------------------------------------------------------------------------------------------


def _embedded(
    log: EmbeddedLog,
    query: Query,
    checkpoint: Checkpoint,
    manifest: Manifest,
    topics: Sequence[str],
    trailing_batches: int,
) -> CommittedPosition:
    writer, sink = writer_name(manifest.run), query.sink.topic

    def attempt() -> tuple[int, int, Mapping[str, Any]] | None:
        last = last_number(log.store, writer)
        batch = -1 if last is None else last
        upto = log.head([sink])
        try:
            position = checkpoint.position(max(batch - trailing_batches, -1)) or {}
        except FileNotFoundError:  # the query has committed many batches since
            return None
        return (batch, upto, position) if last_number(log.store, writer) == last else None

    batch, upto, position = _poll(attempt, query.id)
    start = (manifest.start or {}).get("sequence", 0)
    _check_order(log, manifest.topics, max(start, position.get("removed", 0)))
    _check_order(log, [sink], 0)
    read = list(_read_parts(log, topics, start, position.get("sequence", start), read_skipped(checkpoint)))
    written_ranges = total_order.split(log, [sink], 0, upto, _TASK_ROWS)
    return CommittedPosition(batch, read, [OffsetRange(*piece) for piece in written_ranges])


def _read_parts(
    log: EmbeddedLog, topics: Sequence[str], after: int, upto: int, skipped: Sequence[SkippedRecord]
) -> Iterator[list[OffsetRange]]:
    """All that a query has read; records that it left out are not among that."""
    for at in sorted(one.place.sequence for one in skipped if one.place.sequence is not None):
        if after < at <= upto:
            yield from _parts(log, topics, after, at - 1)
        after = max(after, at)
    yield from _parts(log, topics, after, upto)


def _parts(log: EmbeddedLog, topics: Sequence[str], after: int, upto: int) -> Iterator[list[OffsetRange]]:
    """The total order of the log, cut anywhere."""
    while after < upto:
        end = min(log.cut(topics, after, _TASK_ROWS), upto)
        yield [OffsetRange(*piece) for piece in total_order.split(log, topics, after, end, 10 * _TASK_ROWS)]
        after = end


def _check_order(log: EmbeddedLog, topics: Sequence[str], known: int) -> None:
    """Records removed before the query began were never its input."""
    if (removed := log.removed(topics)) > known:
        raise _input_gone(f"records up to position {removed} were removed", where=f"topic {', '.join(topics)}")


# -- Kafka ----------------------------------------------------------------------------------------------------------


def _on_kafka(
    log: KafkaLog, query: Query, checkpoint: Checkpoint, manifest: Manifest, trailing_batches: int
) -> CommittedPosition:
    from headrace.engine.io.kafka_source import CutJournal

    sink, journal = query.sink.topic, CutJournal(log, manifest.run, checkpoint.spark)

    def attempt() -> tuple[dict[int, int], list[Cut]] | None:
        """Every transaction adds to the journal of cuts: while that does not change, there is none."""
        before = _ends_without_transaction(log, cuts_topic(manifest.run))
        ends = _ends_without_transaction(log, sink)
        if before is None or ends is None or before != log.ends(journal.topic):
            return None
        return ends, list(journal.read())

    ends, cuts = _poll(attempt, query.id)
    done = cuts[-1].batch if cuts else -1
    _check_cuts(log, cuts)
    read = cuts[: len(cuts) - trailing_batches]
    return CommittedPosition(done, list(_cut_parts(read)), list(_result_ranges(log, sink, ends)), _ends_of(read))


def _ends_without_transaction(log: KafkaLog, topic: str) -> dict[int, int] | None:
    """The ends of its partitions; None while a transaction is open in one of them."""
    ends = log.ends(topic)
    return ends if ends == {partition: bounds.end for partition, bounds in log.bounds(topic).items()} else None


def _check_cuts(log: KafkaLog, cuts: Sequence[Cut]) -> None:
    if cuts and cuts[0].batch > 0:
        raise _input_gone(
            f"the boundaries and the records of the first {cuts[0].batch} batches were removed", where="Kafka"
        )
    for topic, starts in (cuts[0].start if cuts else {}).items():
        for partition, bounds in log.bounds(topic).items():
            if bounds.start > starts.get(str(partition), 0):
                raise _input_gone(
                    f"records before offset {bounds.start} were removed", where=f"topic {topic}/{partition}"
                )


def _cut_parts(cuts: Sequence[Cut]) -> Iterator[list[OffsetRange]]:
    """Whole cuts, with small ones combined: starting a read takes longer than reading."""
    first = 0
    for last, cut in enumerate(cuts):
        pieces = list(_between(cuts[first].start, cut.end))
        is_end = last == len(cuts) - 1 or _skips(cut, cuts[last + 1])
        if is_end or sum(piece.end - piece.start for piece in pieces) >= _TASK_ROWS:
            yield pieces
            first = last + 1


def _skips(cut: Cut, following: Cut) -> bool:
    """Whether the query left out a record between two cuts."""
    return any(
        at < following.start.get(topic, {}).get(partition, at)
        for topic, ends in cut.end.items()
        for partition, at in ends.items()
    )


def _between(start: Offsets, end: Offsets) -> Iterator[OffsetRange]:
    for topic, ends in end.items():
        for partition, at in ends.items():
            if (begin := start.get(topic, {}).get(partition, 0)) < at:
                yield OffsetRange(topic, int(partition), begin, at)


def _result_ranges(log: KafkaLog, topic: str, ends: Mapping[int, int]) -> Iterator[OffsetRange]:
    for partition, bounds in log.bounds(topic).items():
        if bounds.start > 0:
            raise _input_gone(f"results before offset {bounds.start} were removed", where=f"topic {topic}/{partition}")
        end = ends.get(partition, 0)
        for at in range(0, end, _TASK_ROWS):
            yield OffsetRange(topic, partition, at, min(at + _TASK_ROWS, end))


def _ends_of(cuts: Sequence[Cut]) -> dict[tuple[str, int], list[int]]:
    places = [(topic, partition) for topic, ends in (cuts[-1].end if cuts else {}).items() for partition in ends]
    return {(topic, int(p)): [cut.end.get(topic, {}).get(p, 0) for cut in cuts] for topic, p in places}
