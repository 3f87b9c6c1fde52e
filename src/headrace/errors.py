"""Every failure a person can cause or must act on, each with a stable code.

An error carries a *code* (kebab-case, never reused), *what* happened (kind and quoted name), *where*
(file:line:col, query and option, or partition and offset) and a *fix* (one sentence to act on).
Operational failures also say what a supervisor should do: `Retry` or `Stop`.

    HeadraceError
    |-- UserError                 the caller asked for something that cannot be done
    |-- Retry                     may pass by itself: try again with back-off
    `-- Stop                      will not pass by itself: a person must act
"""

from __future__ import annotations

from typing import ClassVar

CODES: dict[str, type[HeadraceError]] = {}


class HeadraceError(Exception):
    """Root of all headrace errors."""

    code: ClassVar[str] = ""

    def __init_subclass__(cls, code: str | None = None, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if code is not None:
            if code in CODES:
                raise TypeError(f"error code {code!r} is declared twice")
            cls.code = code
            CODES[code] = cls

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.what}"]
        if self.where:
            lines.append(f"  at {self.where}")
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Spark workers, bench peers), so keyword fields must survive pickling.
        return (_rebuild, (type(self), self.what, self.where, self.fix))

    def as_dict(self) -> dict[str, str | None]:
        """The one JSON shape of an error."""
        return {"code": self.code, "what": self.what, "where": self.where, "fix": self.fix}


def _rebuild(cls: type[HeadraceError], what: str, where: str | None, fix: str | None) -> HeadraceError:
    return cls(what, where=where, fix=fix)


class UserError(HeadraceError):
    """The request is wrong; repeating it unchanged fails again."""


class Retry(HeadraceError):
    """The surroundings failed; the same request may succeed later."""


class Stop(HeadraceError):
    """Going on would harm data, or cannot succeed until a person acts."""


# -- topics, records, schemas ---------------------------------------------------------------------------------------


class UnknownTopic(UserError, code="unknown-topic"):
    """The named topic does not exist."""


class TopicExists(UserError, code="topic-exists"):
    """A topic of that name exists already."""


class BadTopicName(UserError, code="bad-topic-name"):
    """A topic name is 1 to 249 letters, digits, dots, dashes and underscores."""


class BadTopicOption(UserError, code="bad-topic-option"):
    """A topic option has a value that is not possible, or options contradict each other."""


class UnknownPartition(UserError, code="unknown-partition"):
    """The topic has fewer partitions than the one that was named."""


class PartitionConflict(UserError, code="partition-conflict"):
    """A keyed record names a partition other than the one its key belongs to."""


class RecordTooLarge(UserError, code="record-too-large"):
    """A record is larger than the topic's max_record_bytes."""


class WrongType(UserError, code="wrong-type"):
    """A value does not fit the type its column has in the topic's schema."""


class BadSchema(UserError, code="bad-schema"):
    """A schema text or definition cannot be understood."""


class IncompatibleSchema(UserError, code="incompatible-schema"):
    """A schema change would make records that exist unreadable."""


class QuotaExceeded(UserError, code="quota-exceeded"):
    """An append would take the topic above its disk quota."""


class BadRecord(UserError, code="bad-record"):
    """Bytes could not be read as a record of the topic's format."""


# -- reading --------------------------------------------------------------------------------------------------------


class OffsetOutOfRange(UserError, code="offset-out-of-range"):
    """An offset lies before the first or after the last record that the partition holds."""


class OffsetLost(Stop, code="offset-lost"):
    """A consumer's next record was removed by retention before the consumer read it."""


class BadFilter(UserError, code="bad-filter"):
    """A content filter cannot be understood, or uses something that is not allowed."""


# -- groups, queues, writers ----------------------------------------------------------------------------------------


class UnknownGroup(UserError, code="unknown-group"):
    """The named consumer group does not exist."""


class GroupBusy(UserError, code="group-busy"):
    """The group has live members, so its offsets cannot be changed from outside."""


class GroupFenced(Retry, code="group-fenced"):
    """The group was rebalanced: this member no longer owns what it tried to commit."""


class UnknownQueue(UserError, code="unknown-queue"):
    """Nobody has taken from a queue of that name on that topic yet."""


class UnknownReceipt(UserError, code="unknown-receipt"):
    """The receipt is not held: it was acknowledged, its time ran out, or it never was given."""


class WriterFenced(Stop, code="writer-fenced"):
    """Another process opened the same writer; this one must not write any more."""


class Closed(UserError, code="closed"):
    """The log, producer or consumer was closed and cannot be used any more."""


# -- storage --------------------------------------------------------------------------------------------------------


class DamagedExtent(Stop, code="damaged-extent"):
    """Stored bytes do not match their checksum."""


class DiskFull(Retry, code="disk-full"):
    """There is no space left on the device; nothing of the append was kept."""


class ReadOnly(Stop, code="read-only"):
    """The data folder cannot be written."""


class NewerFormat(Stop, code="newer-format"):
    """The data folder was written by a later version of headrace."""


class NotADataFolder(UserError, code="not-a-data-folder"):
    """The folder holds other things than a headrace log."""


class LogBusy(Retry, code="log-busy"):
    """Another process held the log's write lock for too long."""


class BackupFailed(UserError, code="backup-failed"):
    """A backup or restore cannot be done as asked."""


# -- Kafka ----------------------------------------------------------------------------------------------------------


class BrokerUnreachable(Retry, code="broker-unreachable"):
    """No Kafka broker answered in time."""


class BrokerRefused(Stop, code="broker-refused"):
    """Kafka refused a request."""


class KafkaNotInstalled(UserError, code="kafka-not-installed"):
    """A jar or library that Kafka needs is missing."""


class NotOnThisLog(UserError, code="not-on-this-log"):
    """The operation belongs to the other kind of log."""


# -- surroundings ---------------------------------------------------------------------------------------------------


class BadSetting(UserError, code="bad-setting"):
    """A setting is unknown or its value cannot be understood."""


class UnknownComponent(UserError, code="unknown-component"):
    """No component of that kind and name is installed."""


class BadOption(UserError, code="bad-option"):
    """A component's option is unknown, missing or has a wrong value."""


class MissingPart(UserError, code="missing-part"):
    """A program or library that this feature needs is not installed."""


class PortTaken(UserError, code="port-taken"):
    """Another process listens on the port."""


class QueryFailed(Stop, code="query-failed"):
    """A streaming query ended with an error."""
