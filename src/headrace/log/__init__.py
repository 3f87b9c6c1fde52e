"""The log: partitioned topics on the embedded log or on Apache Kafka, behind one contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import BadSetting, KafkaNotInstalled

if TYPE_CHECKING:
    from headrace.clock import Clock
    from headrace.contracts import Log
    from headrace.settings import Settings

# Late imports: opening the embedded log must not need, or load, Kafka's client library.


def open_log(settings: Settings, clock: Clock | None = None) -> Log:
    """Open the log that the settings name."""
    openers = {"embedded": _embedded, "kafka": _kafka}
    if settings.storage.log not in openers:
        raise BadSetting(
            f'setting "storage.log" cannot be "{settings.storage.log}"', fix=f"choose one of: {', '.join(openers)}"
        )
    return openers[settings.storage.log](settings, clock)


def _embedded(settings: Settings, clock: Clock | None) -> Log:
    from headrace.log.embedded import EmbeddedLog

    return EmbeddedLog(settings.storage.data, settings, clock)


def _kafka(settings: Settings, clock: Clock | None) -> Log:
    try:
        from headrace.log.kafka import KafkaLog
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        raise KafkaNotInstalled(
            "Kafka's client library is not installed", fix="pip install 'headrace[kafka]'"
        ) from error
    return KafkaLog(settings, clock)
