"""The job that the engine's campaign disturbs: one script with a filter, aggregates and all joins, and its records.

Record n is the same for the same seed, whenever it is fed. Time stands still for the program's clock, so windows are
closed by records alone, and the last ones stay open: results hang on nothing but the input.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

from headrace.contracts import Append, Log, TopicSpec
from headrace.log.embedded import EmbeddedLog
from headrace.log.kafka import KafkaLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.settings import Settings, Size

PROGRAM = "job"
BATCH_ROWS = 6  # so that a handful of records are several batches
_DECLARE = "WITH (kafka_topic='{0}', format='JSON', partitions=2)"
SCRIPT = f"""
CREATE STREAM clicks (id INT KEY, page STRING, spent BIGINT) {_DECLARE.format("clicks")};
CREATE STREAM orders (id INT KEY, item STRING) {_DECLARE.format("orders")};
CREATE TABLE users (id INT PRIMARY KEY, name STRING) {_DECLARE.format("users")};
CREATE TABLE cities (id INT PRIMARY KEY, city STRING) {_DECLARE.format("cities")};

CREATE STREAM big AS SELECT * FROM clicks WHERE spent > 20;
CREATE TABLE sums AS SELECT id, COUNT(*) AS n, SUM(spent) AS total FROM big GROUP BY id;
CREATE TABLE closed AS SELECT page, COUNT(*) AS n, SUM(spent) AS total FROM clicks
  WINDOW TUMBLING (SIZE 5 SECONDS, GRACE PERIOD 3 SECONDS) GROUP BY page EMIT FINAL;
CREATE STREAM who AS SELECT c.id AS id, page, name FROM clicks c LEFT JOIN users u ON c.id = u.id;
CREATE TABLE people AS SELECT u.id AS id, name, city FROM users u LEFT JOIN cities t ON u.id = t.id;
CREATE STREAM bought AS SELECT c.id AS id, page, item FROM clicks c
  LEFT JOIN orders o WITHIN 4 SECONDS GRACE PERIOD 2 SECONDS ON c.id = o.id;
"""
TOPICS = ("clicks", "orders", "users", "cities")
_CHANCES = (10, 4, 2, 2)
_KEYS = 7
_PACE = 300  # milliseconds of event time between two records

Fed = tuple[str, bytes | None, bytes | None, int]
"""Topic, key, value, time."""


def records(seed: int) -> Iterator[Fed]:
    """What is fed, without end: some records are late, some cannot be read, some delete."""
    chance = random.Random(f"engine.{seed}")
    for n in count():
        (topic,) = chance.choices(TOPICS, _CHANCES)
        time = 1_000_000 + n * _PACE - (chance.choice((1000, 4000, 20_000)) if chance.random() < 0.15 else 0)
        key: bytes | None = b"%d" % chance.randrange(_KEYS)
        value: bytes | None = json.dumps(_value(topic, n, chance)).encode()
        if chance.random() < 0.06:
            key, value = chance.choice([(key, b"not json"), (key, None), (None, value), (b"no number", value)])
        yield topic, key, value, time


def _value(topic: str, n: int, chance: random.Random) -> dict[str, object]:
    return {
        "clicks": {"PAGE": f"/{chance.randrange(4)}", "SPENT": chance.randrange(100)},
        "orders": {"ITEM": f"i{n}"},
        "users": {"NAME": f"u{n}"},
        "cities": {"CITY": f"c{n}"},
    }[topic]


def settings(folder: Path, servers: str = "", master: str = "local[2]") -> Settings:
    """The same for the job and for who feeds it; with servers, on Kafka."""
    return Settings.of(
        storage_data=folder,
        storage_log="kafka" if servers else "embedded",
        kafka_bootstrap_servers=servers or "127.0.0.1:9092",
        spark_driver_memory=Size(1 << 30),
        spark_master=master,
        query_max_batch_rows=BATCH_ROWS,
        query_key_groups=2,
        query_execution_mode="auto",
        query_emit="per-record",
        storage_maintenance_interval=timedelta(0),
    )


def open_log(given: Settings) -> EmbeddedLog | KafkaLog:
    if given.storage.log == "embedded":
        return EmbeddedLog(given.storage.data, given)
    return KafkaLog(given)


def create_topics(log: Log) -> None:
    for name in TOPICS:
        log.create_topic(name, TopicSpec(partitions=2))


def feed(log: Log, topic: str, key: bytes | None, value: bytes | None, time: int) -> None:
    log.append([Append(topic, from_records([Record(value, key, occurred_at=time)]))])
