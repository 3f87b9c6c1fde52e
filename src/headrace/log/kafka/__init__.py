"""The log on Apache Kafka, with the same contract as the embedded log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.component import Component, Option, register
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.log.kafka.log import KafkaLog

__all__ = ["KafkaLog"]


def _open(servers: str, options: str) -> KafkaLog:
    from headrace.log.kafka.log import KafkaLog

    return KafkaLog(Settings.of(storage_log="kafka", kafka_bootstrap_servers=servers, kafka_client_options=options))


def __getattr__(name: str) -> Any:
    # Imported late, so that the component is known (and documented) without the client library.
    if name != "KafkaLog":
        raise AttributeError(name)
    from headrace.log.kafka.log import KafkaLog

    return KafkaLog


register(
    Component(
        "log",
        "kafka",
        "An Apache Kafka cluster: replicated, shared with other programs; no total order over topics.",
        _open,
        (
            Option("servers", str, "Bootstrap servers, host:port separated by commas.", "127.0.0.1:9092"),
            Option("options", str, "Further client settings as key=value,...; SASL and TLS go here.", "", secret=True),
        ),
    )
)
