"""Errors of topics, records, consumer groups, queues and writers."""

from __future__ import annotations

from headrace.errors.base import Retry, StatementError, Stop, UserError

# -- topics, records, schemas -----------------------------------------------------------------------------------------


class UnknownTopic(UserError, code="unknown-topic"):
    """The named topic does not exist."""


class TopicExists(UserError, code="topic-exists"):
    """A topic of that name already exists."""


class TopicInUse(UserError, code="topic-in-use"):
    """Streams, tables or queries use the topic."""


class BadTopicName(UserError, code="bad-topic-name"):
    """A topic name is 1 to 249 letters, digits, dots, dashes and underscores."""


class BadTopicOption(UserError, code="bad-topic-option"):
    """A topic option has an invalid value, or options contradict each other."""


class UnknownPartition(UserError, code="unknown-partition"):
    """The topic has no partition of that number."""


class PartitionConflict(UserError, code="partition-conflict"):
    """A record with a key names a partition other than the one its key belongs to."""


class RecordTooLarge(UserError, code="record-too-large"):
    """A record is larger than the topic's max_record_bytes."""


class WrongType(UserError, code="wrong-type"):
    """A value does not fit its column's type in the topic's schema."""


class BadSchema(UserError, code="bad-schema"):
    """A schema text or definition is invalid."""


class IncompatibleSchema(UserError, code="incompatible-schema"):
    """A schema change would make existing records unreadable."""


class QuotaExceeded(UserError, code="quota-exceeded"):
    """An append would take the topic above its disk quota."""


class BadRecord(UserError, code="bad-record"):
    """Bytes cannot be decoded as a record in the topic's format."""


# -- reading ----------------------------------------------------------------------------------------------------------


class OffsetOutOfRange(UserError, code="offset-out-of-range"):
    """An offset lies before the first or after the last record in the partition."""


class OffsetLost(Stop, code="offset-lost"):
    """Retention removed a consumer's next record before the consumer read it."""


class BadFilter(StatementError, code="bad-filter"):
    """A condition on the rows of a topic, or a pattern of topic names, is invalid."""


# -- groups, queues, writers ------------------------------------------------------------------------------------------


class UnknownGroup(UserError, code="unknown-group"):
    """The named consumer group does not exist."""


class GroupNotEmpty(UserError, code="group-not-empty"):
    """The group has active members, so its offsets cannot be reset."""


class GroupFenced(Retry, code="group-fenced"):
    """The group was rebalanced: this member no longer owns the partition that it tried to commit."""


class UnknownQueue(UserError, code="unknown-queue"):
    """No consumer has taken records from a queue of that name on that topic yet."""


class UnknownReceipt(UserError, code="unknown-receipt"):
    """The receipt is not valid: it was acknowledged, it expired, or it was never issued."""


class WriterFenced(Stop, code="writer-fenced"):
    """Another process opened the same writer; this one must stop writing."""


class SequenceGap(UserError, code="sequence-gap"):
    """A producer's sequence numbers must be consecutive: a skipped number would later be taken for a repeat."""


class Closed(UserError, code="closed"):
    """The log, producer or consumer is closed and cannot be used."""


# -- dead letters -----------------------------------------------------------------------------------------------------


class UnknownDeadLetter(UserError, code="unknown-dead-letter"):
    """There is no dead letter at that offset."""


class DeadLetterResolved(UserError, code="dead-letter-resolved"):
    """The dead letter was already replayed or discarded."""


class NotReplayable(UserError, code="not-replayable"):
    """A dead letter does not name its original record, or that record was removed."""
