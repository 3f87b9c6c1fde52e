"""Errors of brokers, and what Kafka needs."""

from __future__ import annotations

from headrace.errors.base import Retry, Stop, UserError


class BrokerUnreachable(Retry, code="broker-unreachable"):
    """No Kafka broker answered in time."""


class BrokerRefused(Stop, code="broker-refused"):
    """Kafka refused a request."""


class KafkaNotInstalled(UserError, code="kafka-not-installed"):
    """A jar or library that Kafka needs is missing."""


class KafkaJarMismatch(Stop, code="kafka-jar-mismatch"):
    """A jar that Kafka needs is not the file that headrace was tested with."""


class NotOnThisLog(UserError, code="not-on-this-log"):
    """This kind of log (embedded or Kafka) does not support the operation."""
