"""Appends of a single row: atomic by nature, so without a transaction, with the requested acknowledgement."""

from __future__ import annotations

import threading

from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.clock import millis
from headrace.contracts import Ack, Appended
from headrace.log.kafka.client import DELIVERY_TIMEOUT, Client, callbacks
from headrace.log.kafka.producer import ACKS
from headrace.log.kafka.transactions import PRODUCER, DeliveryReports, Outgoing, send


class SingleAppender:
    """One producer for each level of acknowledgement, created at first use."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._producers: dict[Ack, Producer] = {}
        self._lock = threading.Lock()

    def send(self, out: Outgoing, ack: Ack) -> list[Appended]:
        """Append a row, and wait for it unless the level is NONE."""
        if ack is Ack.NONE:
            producer = self._producer(ack)
            send(producer, out, lambda error, message: None)
            producer.poll(0)
            return []
        self.resolve()
        reports = DeliveryReports()
        done = threading.Event()

        def report(error: KafkaError | None, message: object) -> None:
            reports.take(error, message)
            done.set()

        producer = self._producer(ack)
        try:
            with callbacks():
                send(producer, out, report)
                while not done.is_set():  # terminates: Kafka's client reports every message within its delivery timeout
                    producer.poll(0.1)
        except KafkaException as error:
            self._producers.pop(ack, None)  # it failed permanently; the next append creates a new one
            raise self._client.translate(error, f"{out.topic}/{out.partition}") from error
        if reports.error is not None:
            raise self._client.translate(*reports.error)
        return reports.appended()

    def resolve(self) -> None:
        """Flush unacknowledged rows first, so that they stay ahead of the rows that follow."""
        waiting = self._producers.get(Ack.NONE)
        if waiting is not None and len(waiting):
            waiting.flush(DELIVERY_TIMEOUT.total_seconds())

    def close(self) -> None:
        for producer in self._producers.values():
            producer.flush(DELIVERY_TIMEOUT.total_seconds())
        self._producers.clear()

    def _producer(self, ack: Ack) -> Producer:
        with self._lock:
            if ack not in self._producers:
                config = self._client.config(
                    linger_ms=0, delivery_timeout_ms=millis(DELIVERY_TIMEOUT), **PRODUCER, **ACKS[ack]
                )
                self._producers[ack] = Producer(config)
            return self._producers[ack]
