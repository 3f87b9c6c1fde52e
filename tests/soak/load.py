"""The load on a server during a soak: producers, pull queries, push queries and statements.

Each of them is a thread that does its thing again and again, a few times a second. What a server refuses ends the load
with an error.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from bench.tables.serve_server import Server

STATEMENTS = """
CREATE STREAM clicks (id STRING KEY, page STRING, n BIGINT) WITH (kafka_topic='clicks', format='JSON', partitions=2);
CREATE STREAM homes AS SELECT id, page, n FROM clicks WHERE page = 'home';
CREATE TABLE counts AS SELECT id, COUNT(*) AS n FROM clicks GROUP BY id;
"""
KEYS = 200
BATCH = 50
_PAGES = ("home", "shop", "help")


class Load:
    """`done` counts what was done, by what it is."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._ended = threading.Event()
        self._numbers = itertools.count()
        self.done: Counter[str] = Counter()
        self.failures: list[Exception] = []

    @contextmanager
    def going(self) -> Iterator[None]:
        """To the end of the block; then what went wrong is raised."""
        parts: dict[Callable[[], None], float] = {self.insert: 0.25, self.pull: 0.05, self.push: 0.5, self.state: 10.0}
        threads = [threading.Thread(target=self._repeat, args=part) for part in parts.items()]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()
        if self.failures:
            raise self.failures[0]

    def _repeat(self, part: Callable[[], None], pause: float) -> None:
        while not self._ended.wait(pause):
            try:
                part()
                self.done[part.__name__] += 1
            except Exception as error:
                self.failures.append(error)
                return

    def insert(self) -> None:
        rows = [{"ID": _key(), "PAGE": random.choice(_PAGES), "N": next(self._numbers)} for _ in range(BATCH)]
        lines = [{"target": "CLICKS"}, *rows]
        told = self._server.text("/inserts-stream", "\n".join(map(json.dumps, lines)))
        assert told.count('"ok"') == BATCH, told
        self.done["rows"] += BATCH

    def pull(self) -> None:
        self._server.rows(f"SELECT * FROM counts WHERE id = '{_key()}';")

    def push(self) -> None:
        """Somebody looks on until a few rows have come, or goes away before. When nobody inserts any more none come."""
        question = {"sql": f"SELECT id, n FROM clicks WHERE page <> 'p{random.randrange(10)}' EMIT CHANGES LIMIT 20;"}
        with closing(http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=20)) as connection:
            connection.request("POST", "/query-stream", json.dumps(question))
            response = connection.getresponse()
            try:
                for _ in range(random.choice((1, 5, 30))):
                    response.readline()
            except TimeoutError:
                if not self._ended.is_set():
                    raise

    def state(self) -> None:
        """A stream and a query over it come and go."""
        name = f"passing{self.done['state']}"
        self._server.ksql(f"CREATE STREAM {name} AS SELECT id, n FROM clicks WHERE n < 0;")
        self._ended.wait(5)
        self._server.ksql(f"DROP STREAM {name} DELETE TOPIC;")


def _key() -> str:
    return f"k{random.randrange(KEYS)}"
