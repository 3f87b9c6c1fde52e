"""The way to Kafka: client settings, the administrative client, and Kafka's errors in our words.

No wait is longer than `ANSWER` for a question and `DELIVERY` for rows, which must outlive the election of a leader. A
question for the one broker that leads, and that may be repeated, waits no longer than `TRY` at a time: it may be the
one that has just died, of which the library hears only when it is asked again.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

from headrace.contracts import TopicPartition
from headrace.errors import (
    BadRecord,
    BadSetting,
    BadTopicOption,
    BrokerRefused,
    BrokerUnreachable,
    GroupBusy,
    GroupFenced,
    HeadraceError,
    KafkaNotInstalled,
    OffsetOutOfRange,
    RecordTooLarge,
    TopicExists,
    UnknownGroup,
    UnknownTopic,
    WriterFenced,
)
from headrace.secrets import resolve
from headrace.settings import Settings

try:
    from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException
    from confluent_kafka import TopicPartition as KafkaPartition
    from confluent_kafka.admin import AdminClient
except ImportError as error:
    raise KafkaNotInstalled("the library confluent-kafka is missing", fix="pip install headrace[kafka]") from error

T = TypeVar("T")
P = ParamSpec("P")
Denials = deque[tuple[float, KafkaError]]  # the last one, and when it was told

ANSWER = timedelta(seconds=10)
TRY = timedelta(seconds=2)
DELIVERY = timedelta(seconds=30)
NEWS = timedelta(seconds=2)
_BACK_OFF = 0.05  # seconds
_LOGGER = logging.getLogger("headrace.kafka")

_NO_ANSWER = """
    _TRANSPORT _RESOLVE _TIMED_OUT _TIMED_OUT_QUEUE _MSG_TIMED_OUT _ALL_BROKERS_DOWN REQUEST_TIMED_OUT
    LEADER_NOT_AVAILABLE BROKER_NOT_AVAILABLE NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND
    COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR NOT_LEADER_FOR_PARTITION _DESTROY_BROKER
    FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH OFFSET_NOT_AVAILABLE REPLICA_NOT_AVAILABLE KAFKA_STORAGE_ERROR
    _NOENT
"""
_NOT_A_MEMBER = """
    ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH
    STALE_MEMBER_EPOCH _ASSIGNMENT_LOST _MAX_POLL_EXCEEDED
"""
_CODES: Mapping[type[HeadraceError], Iterable[str]] = {
    BrokerUnreachable: _NO_ANSWER.split(),
    UnknownTopic: ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID"),
    TopicExists: ("TOPIC_ALREADY_EXISTS",),
    BadTopicOption: ("INVALID_REPLICATION_FACTOR", "INVALID_CONFIG", "INVALID_PARTITIONS", "POLICY_VIOLATION"),
    RecordTooLarge: ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"),
    BadRecord: ("INVALID_RECORD", "INVALID_MSG", "INVALID_TIMESTAMP"),
    OffsetOutOfRange: ("OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"),
    WriterFenced: ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"),
    GroupFenced: _NOT_A_MEMBER.split(),
    GroupBusy: ("NON_EMPTY_GROUP",),
    UnknownGroup: ("GROUP_ID_NOT_FOUND",),
}
_CLASSES = {getattr(KafkaError, name): cls for cls, names in _CODES.items() for name in names}
_FIXES: Mapping[type[HeadraceError], str] = {
    BrokerUnreachable: "start a broker with `headrace kafka up`, or set kafka_servers to one that runs",
    UnknownTopic: "`headrace topic list` shows those that exist",
    TopicExists: "choose another name, or alter or delete it",
    BadTopicOption: "choose a value that this Kafka cluster allows",
    RecordTooLarge: "send smaller records, or raise the topic's max_record_bytes",
    BadRecord: "give every record of a compacted topic a key",
    WriterFenced: "stop this writer: the one that was opened last goes on",
    GroupFenced: "poll again: the rows since the last commit come again, to whoever has them now",
    GroupBusy: "stop its members first",
    UnknownGroup: "headrace group list shows those that do",
    BrokerRefused: "read the broker's log",
}
_DENIALS = (KafkaError._AUTHENTICATION, KafkaError._SSL)


def translate(error: KafkaError | KafkaException, servers: str, where: str | None = None) -> HeadraceError:
    """One of Kafka's errors as one of ours."""
    inner: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    cls = _CLASSES.get(inner.code(), BrokerUnreachable if inner.retriable() else BrokerRefused)
    what = f"Kafka at {servers}: {inner.str()} ({inner.name()})"
    if cls is BrokerUnreachable:
        what = f"no answer in time from {what}"
    return cls(what, where=where, fix=_FIXES.get(cls))


def patient(question: Callable[P, T]) -> Callable[P, T]:
    """Ask again while a leader is being elected; what is asked so must be safe to repeat."""
    return _again(question, BrokerUnreachable, ANSWER)


def trusting(question: Callable[P, T]) -> Callable[P, T]:
    """Ask again, for a moment, when a broker does not know a topic that should be there: news travels between them."""
    return _again(question, UnknownTopic, NEWS)


def _again(question: Callable[P, T], error: type[HeadraceError], patience: timedelta) -> Callable[P, T]:
    @functools.wraps(question)
    def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        until = time.monotonic() + patience.total_seconds()
        while True:
            try:
                return question(*args, **kwargs)
            except error:
                if time.monotonic() > until:
                    raise
                time.sleep(_BACK_OFF)

    return asked


class Client:
    """Settings and the administrative client that the parts of one log share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.servers = settings.kafka_servers
        self._options = options_of(settings)
        self._admin: AdminClient | None = None
        self._denials: Denials = deque(maxlen=1)
        self._lock = threading.Lock()

    def config(self, **more: Any) -> dict[str, Any]:
        """Settings of a client; underscores in names stand for dots. The user's options win."""
        own = {
            "bootstrap.servers": self.servers,
            "client.id": "headrace",
            # Failures come back as errors; the library would print them as well.
            "log_level": 0,
            "logger": _LOGGER,
            "retry.backoff.ms": 10,
            "socket.keepalive.enable": True,
            "reconnect.backoff.max.ms": 1000,
            "topic.metadata.refresh.interval.ms": 5000,
        }
        return {**own, **{name.replace("_", "."): value for name, value in more.items()}, **self._options}

    @property
    def admin(self) -> AdminClient:
        with self._lock:
            if self._admin is None:
                # The library must not hold this object: both would live until the garbage is collected.
                config: dict[str, Any] = {**self.config(), "error_cb": functools.partial(_notice, self._denials)}
                self._admin = AdminClient(config)
        self._admin.poll(0)  # or what it has to tell would pile up
        return self._admin

    def answer(self, future: Future[T], where: str | None = None) -> T:
        """What Kafka answered to an administrative request."""
        try:
            return future.result(ANSWER.total_seconds() + 5)
        except KafkaException as error:
            raise self.translate(error, where) from error
        except TimeoutError as error:
            raise BrokerUnreachable(
                f"no answer in time from Kafka at {self.servers}", where=where, fix=_FIXES[BrokerUnreachable]
            ) from error

    @trusting
    @patient
    def offsets(self, wanted: Mapping[TopicPartition, Any], *, committed: bool = True) -> dict[TopicPartition, int]:
        """The offset that each `OffsetSpec` means, as readers of committed rows see it, or of all."""
        asked = self.admin.list_offsets(
            {KafkaPartition(*here): spec for here, spec in wanted.items()},
            isolation_level=IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED,
            request_timeout=TRY.total_seconds(),
        )
        return {TopicPartition(k.topic, k.partition): self._offset(future, k) for k, future in asked.items()}

    def _offset(self, future: Future[Any], place: KafkaPartition) -> int:
        """A broker that has just begun does not know yet, one that died never answers: the library tells of neither."""
        where = f"{place.topic}/{place.partition}"
        found = self.answer(future, where).offset
        if found == OFFSET_INVALID:
            with contextlib.suppress(KafkaException):
                self.admin.list_topics(timeout=TRY.total_seconds())  # who leads may have changed, and would be kept
            raise BrokerUnreachable(f"Kafka at {self.servers} does not know its offsets yet", where=where)
        return found

    def translate(self, error: KafkaError | KafkaException, where: str | None = None) -> HeadraceError:
        said = translate(error, self.servers, where)
        return self._denied(where) or said if isinstance(said, BrokerUnreachable) else said

    def _denied(self, where: str | None) -> HeadraceError | None:
        """The broker may have answered with a refusal: the library tells it aside, and lets the question time out."""
        self.admin.poll(0)
        told_at, denial = self._denials[0] if self._denials else (0.0, None)
        if denial is None or time.monotonic() - told_at > 2 * ANSWER.total_seconds():
            return None
        return BrokerRefused(
            f"Kafka at {self.servers} does not let us in: {denial.str()}",
            where=where,
            fix="mend security.protocol, sasl.* and ssl.* in kafka_options",
        )


def _notice(denials: Denials, error: KafkaError) -> None:
    if error.code() in _DENIALS:
        denials.append((time.monotonic(), error))


_GARBLED = KafkaError(KafkaError._FATAL, "the client failed for good", fatal=True)


@contextlib.contextmanager
def callbacks() -> Iterator[None]:
    """Around calls that run delivery reports: the library raises fatal errors there, and may garble them on the way."""
    try:
        yield
    except SystemError as error:
        cause = error.__cause__
        raise cause if isinstance(cause, KafkaException) else KafkaException(_GARBLED) from error


def options_of(settings: Settings) -> dict[str, str]:
    """What the setting `kafka_options` says, with its secrets."""
    given = parse_options(settings.kafka_options)
    return {name: resolve(value, settings.data).reveal() for name, value in given.items()}


def parse_options(text: str) -> dict[str, str]:
    """`key=value,key=value`; a comma inside a value stays, unless a `name=` follows it.

    >>> parse_options("sasl.mechanisms=PLAIN, sasl.password=a,b")
    {'sasl.mechanisms': 'PLAIN', 'sasl.password': 'a,b'}
    """
    options: dict[str, str] = {}
    for part in re.split(r",\s*(?=[a-z][a-z0-9._]*=)", text.strip()) if text.strip() else ():
        name, equals, value = part.partition("=")
        if not equals or not re.fullmatch(r"[a-z][a-z0-9._]*", name.strip()):
            raise BadSetting(
                'setting "kafka_options" cannot be understood', fix="write key=value pairs separated by commas"
            )
        options[name.strip()] = value.strip()
    return options
