"""The queries of table `engine`, as KSQL text; peers express the same in their own languages."""

from __future__ import annotations

from bench.tables.engine_rows import LEAST, WINDOW_MS

WINDOW_SECONDS = WINDOW_MS // 1000

# Partitions of Kafka run ahead of each other between two cuts: with an hour of grace nothing is late on any side.
GRACE = "1 HOUR"

_SOURCE = """
CREATE STREAM clicks (user STRING KEY, page STRING, amount BIGINT)
    WITH (kafka_topic = '{topic}', key_format = 'KAFKA', value_format = 'JSON', partitions = {partitions});
"""

_RESULTS = {
    "filter": """
CREATE STREAM results WITH (kafka_topic = '{out}') AS
    SELECT user, page, amount * 2 AS doubled FROM clicks WHERE amount > {least};
""",
    "keyed": """
CREATE TABLE results WITH (kafka_topic = '{out}') AS
    SELECT user, COUNT(*) AS n, SUM(amount) AS total FROM clicks GROUP BY user;
""",
    "windowed": """
CREATE TABLE results WITH (kafka_topic = '{out}') AS
    SELECT user, COUNT(*) AS n, SUM(amount) AS total FROM clicks
    WINDOW TUMBLING (SIZE {window} SECONDS, GRACE PERIOD {grace}) GROUP BY user;
""",
    "count": """
CREATE TABLE results WITH (kafka_topic = '{out}') AS SELECT user, COUNT(*) AS n FROM clicks GROUP BY user;
""",
    "pass": """
CREATE STREAM results WITH (kafka_topic = '{out}') AS SELECT user, page, amount * 2 AS doubled FROM clicks;
""",
    "latest": """
CREATE TABLE results WITH (kafka_topic = '{out}') AS
    SELECT user, COUNT(*) AS n, LATEST_BY_OFFSET(page) AS page FROM clicks GROUP BY user;
""",
}


def script(query: str, topic: str, out: str, partitions: int = 1) -> str:
    """Statements that read `topic` and write `out`."""
    words = {"least": LEAST, "window": WINDOW_SECONDS, "grace": GRACE}
    return (_SOURCE + _RESULTS[query]).format(topic=topic, out=out, partitions=partitions, **words)
