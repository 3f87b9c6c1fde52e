"""Connection to Kafka: client settings, the admin client, and translation of Kafka's errors.

No wait is longer than `REQUEST_TIMEOUT` for a request and `DELIVERY_TIMEOUT` for rows, which must survive a leader
election. A repeatable request to the partition leader waits at most `ATTEMPT_TIMEOUT` per attempt: that broker may have
just died, and the library notices only at the next attempt.
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
    GroupFenced,
    GroupNotEmpty,
    HeadraceError,
    KafkaNotInstalled,
    OffsetOutOfRange,
    RecordTooLarge,
    TopicExists,
    UnknownGroup,
    UnknownTopic,
    WriterFenced,
)
from headrace.secrets import resolve_secrets
from headrace.settings import Settings

try:
    from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException
    from confluent_kafka import TopicPartition as KafkaPartition
    from confluent_kafka.admin import AdminClient
except ImportError as error:
    raise KafkaNotInstalled("the library confluent-kafka is missing", fix="pip install headrace[kafka]") from error

T = TypeVar("T")
P = ParamSpec("P")
Denials = deque[tuple[float, KafkaError]]  # the last one, and when it was reported

REQUEST_TIMEOUT = timedelta(seconds=10)
ATTEMPT_TIMEOUT = timedelta(seconds=2)
DELIVERY_TIMEOUT = timedelta(seconds=30)
METADATA_TIMEOUT = timedelta(seconds=2)
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
    GroupNotEmpty: ("NON_EMPTY_GROUP",),
    UnknownGroup: ("GROUP_ID_NOT_FOUND",),
}
_CLASSES = {getattr(KafkaError, name): cls for cls, names in _CODES.items() for name in names}
_FIXES: Mapping[type[HeadraceError], str] = {
    BrokerUnreachable: "start a broker with `headrace kafka up`, or set kafka.bootstrap_servers to a running one",
    UnknownTopic: "`headrace topic list` shows the existing ones",
    TopicExists: "choose another name, or alter or delete it",
    BadTopicOption: "choose a value that this Kafka cluster allows",
    RecordTooLarge: "send smaller records, or raise the topic's max_record_bytes",
    BadRecord: "give every record of a compacted topic a key",
    WriterFenced: "stop this writer; only the one that was opened last may write",
    GroupFenced: "poll again; rows since the last commit are delivered again to the new owner",
    GroupNotEmpty: "stop its members first",
    UnknownGroup: "headrace group list shows those that do",
    BrokerRefused: "see the broker's log",
}
_DENIALS = (KafkaError._AUTHENTICATION, KafkaError._SSL)


def translate(error: KafkaError | KafkaException, servers: str, where: str | None = None) -> HeadraceError:
    """Translate one of Kafka's errors into a headrace error."""
    inner: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    cls = _CLASSES.get(inner.code(), BrokerUnreachable if inner.retriable() else BrokerRefused)
    what = f"Kafka at {servers}: {inner.str()} ({inner.name()})"
    if cls is BrokerUnreachable:
        what = f"{what} did not respond in time"
    return cls(what, where=where, fix=_FIXES.get(cls))


def retry_on_election(question: Callable[P, T]) -> Callable[P, T]:
    """Retry while a leader is being elected; the request must be idempotent."""
    return _again(question, BrokerUnreachable, REQUEST_TIMEOUT)


def retry_on_unknown_topic(question: Callable[P, T]) -> Callable[P, T]:
    """Retry for a moment when a broker does not know an existing topic: metadata takes time to propagate."""
    return _again(question, UnknownTopic, METADATA_TIMEOUT)


def _again(question: Callable[P, T], error: type[HeadraceError], patience: timedelta) -> Callable[P, T]:
    @functools.wraps(question)
    def translated(*args: P.args, **kwargs: P.kwargs) -> T:
        until = time.monotonic() + patience.total_seconds()
        while True:
            try:
                return question(*args, **kwargs)
            except error:
                if time.monotonic() > until:
                    raise
                time.sleep(_BACK_OFF)

    return translated


class Client:
    """Settings and the admin client, shared by the parts of one log."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.servers = settings.kafka.bootstrap_servers
        self._options = client_options(settings)
        self._admin: AdminClient | None = None
        self._denials: Denials = deque(maxlen=1)
        self._lock = threading.Lock()

    def config(self, **more: Any) -> dict[str, Any]:
        """Configuration of a client; underscores in names stand for dots. The user's options take precedence."""
        own = {
            "bootstrap.servers": self.servers,
            "client.id": "headrace",
            # Failures are returned as errors; the library would print them as well.
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
                # The library must not reference this object: the cycle would keep both alive until garbage collection.
                config: dict[str, Any] = {**self.config(), "error_cb": functools.partial(_record_denial, self._denials)}
                self._admin = AdminClient(config)
        self._admin.poll(0)  # otherwise its events would pile up
        return self._admin

    def answer(self, future: Future[T], where: str | None = None) -> T:
        """Kafka's response to an admin request."""
        try:
            return future.result(REQUEST_TIMEOUT.total_seconds() + 5)
        except KafkaException as error:
            raise self.translate(error, where) from error
        except TimeoutError as error:
            raise BrokerUnreachable(
                f"Kafka at {self.servers} did not respond in time", where=where, fix=_FIXES[BrokerUnreachable]
            ) from error

    @retry_on_unknown_topic
    @retry_on_election
    def offsets(self, specs: Mapping[TopicPartition, Any], *, committed: bool = True) -> dict[TopicPartition, int]:
        """The offset that each `OffsetSpec` resolves to, for readers of committed rows, or of all rows."""
        translated = self.admin.list_offsets(
            {KafkaPartition(*tp): spec for tp, spec in specs.items()},
            isolation_level=IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED,
            request_timeout=ATTEMPT_TIMEOUT.total_seconds(),
        )
        return {TopicPartition(k.topic, k.partition): self._offset(future, k) for k, future in translated.items()}

    def _offset(self, future: Future[Any], place: KafkaPartition) -> int:
        """A broker that has just started does not know yet, a dead one never responds: the library reports neither."""
        where = f"{place.topic}/{place.partition}"
        offset = self.answer(future, where).offset
        if offset == OFFSET_INVALID:
            with contextlib.suppress(KafkaException):
                self.admin.list_topics(
                    timeout=ATTEMPT_TIMEOUT.total_seconds()
                )  # the leader may have changed, and the library would cache the old one
            raise BrokerUnreachable(f"Kafka at {self.servers} does not have its offsets yet", where=where)
        return offset

    def translate(self, error: KafkaError | KafkaException, where: str | None = None) -> HeadraceError:
        translated = translate(error, self.servers, where)
        return self._denied(where) or translated if isinstance(translated, BrokerUnreachable) else translated

    def _denied(self, where: str | None) -> HeadraceError | None:
        """The broker may have denied the request: the library reports that separately and the request times out."""
        self.admin.poll(0)
        told_at, denial = self._denials[0] if self._denials else (0.0, None)
        if denial is None or time.monotonic() - told_at > 2 * REQUEST_TIMEOUT.total_seconds():
            return None
        return BrokerRefused(
            f"Kafka at {self.servers} denies access: {denial.str()}",
            where=where,
            fix="check security.protocol, sasl.* and ssl.* in kafka.client_options",
        )


def _record_denial(denials: Denials, error: KafkaError) -> None:
    if error.code() in _DENIALS:
        denials.append((time.monotonic(), error))


_GARBLED = KafkaError(KafkaError._FATAL, "the client failed for good", fatal=True)


@contextlib.contextmanager
def callbacks() -> Iterator[None]:
    """Wraps calls that run delivery reports: the library raises fatal errors there, sometimes garbled."""
    try:
        yield
    except SystemError as error:
        cause = error.__cause__
        raise cause if isinstance(cause, KafkaException) else KafkaException(_GARBLED) from error


def client_options(settings: Settings) -> dict[str, str]:
    """The options of setting `kafka.client_options`, with secrets resolved."""
    options = parse_options(settings.kafka.client_options)
    return {name: resolve_secrets(value, settings.storage.data).reveal() for name, value in options.items()}


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
                'setting "kafka.client_options" is not valid', fix="write key=value pairs separated by commas"
            )
        options[name.strip()] = value.strip()
    return options
