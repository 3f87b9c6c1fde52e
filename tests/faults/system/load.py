"""The load on the server while it is killed: two producers, pull queries and a followed stream.

A numbered request is repeated until it is answered: each of its rows must be there once. A row of `/inserts-stream` is
acknowledged, refused, or nobody knows, if the connection broke; then it may be there once, or not at all.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count, islice, zip_longest
from typing import Any

from tests.faults.system.job import KEYS, TOPIC, Row, record_of, row
from tests.faults.system.server import LOST, Server

from headrace.client.client import Client
from headrace.client.exchange import KSQL_LINES, Exchange, ServerAddress
from headrace.client.row_stream import RowStream
from headrace.errors import CODES, ConnectionLost, DiskFull, HeadraceError, Retry, UserError

NUMBERED, PLAIN = 20, 10  # rows in a request
WATCHED = 300  # rows after which somebody who watches goes, and another one comes
ANSWERED = 300.0  # seconds in which a numbered request must be answered, whatever is killed meanwhile
_BAD = 0.1  # of so many requests one has a row that must be refused
_PAUSE = 0.2


class Load:
    """What was told of each row, by its number; `told` counts answers by what they are."""

    def __init__(self, server: Server, seed: int, *, typed: bool) -> None:
        self._server, self._seed, self.typed = server, seed, typed
        self._client = Client(f"http://127.0.0.1:{server.port}")
        self._address = ServerAddress.parse(self._client.address)
        self._numbers = count()
        self._ended = threading.Event()
        self._rows: RowStream | None = None
        self._patience = ANSWERED
        self.acknowledged: set[int] = set()
        self.refused: set[int] = set()
        self.unknown: set[int] = set()
        self.pushed: list[list[int]] = []
        """Of everybody who watched, the numbers that were seen."""
        self.receded: list[str] = []
        """Counts that were lower than before."""
        self.token = ""
        """Of the last numbered request: a read with it sees that."""
        self.told: Counter[str] = Counter()
        self.failures: list[str] = []

    @contextmanager
    def going(self) -> Iterator[None]:
        """To the end of the block; if that raises, nobody waits for answers any more."""
        parts = (self._numbered, self._plain, self._pull, self._watch)
        threads = [
            threading.Thread(target=self._guarded, args=(part,), name=part.__name__, daemon=True) for part in parts
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        except BaseException:
            self._patience = 0.0
            raise
        finally:
            self._ended.set()
            if self._rows is not None:
                self._rows.close()
            for thread in threads:
                thread.join(ANSWERED)
                if thread.is_alive():
                    self.failures.append(f"{thread.name}: was not answered in {ANSWERED:g} s")

    def _guarded(self, part: Callable[[], None]) -> None:
        try:
            part()
        except Exception as error:
            self.failures.append(f"{part.__name__}: {type(error).__name__}: {error}")

    def _next(self, rows: int) -> list[Row]:
        return [row(self._seed, n) for n in islice(self._numbers, rows)]

    # -- rows -------------------------------------------------------------------------------------------------------

    def _numbered(self) -> None:
        for number in count():
            if self._ended.wait(_PAUSE):
                return
            self.produce("campaign", number)

    def produce(self, producer: str, number: int) -> None:
        """Send a numbered request until it is answered."""
        rows, begun = self._next(NUMBERED), time.monotonic()
        headers = {"headrace-producer": producer, "headrace-sequence": str(number)}
        body = [record_of(one.columns, typed=self.typed) for one in rows]
        while True:
            with suppress(*LOST):
                status, document = self._server.ask("POST", f"/api/v1/topics/{TOPIC}/records", body, headers)
                if status == 201:
                    break
                self.told[document["code"]] += 1
                if status < 500:
                    raise RuntimeError(f"a numbered request was refused: {document}")
            if time.monotonic() - begun > self._patience:
                raise TimeoutError(f"a numbered request was not answered in {self._patience:g} s")
            time.sleep(_PAUSE)
        self.acknowledged.update(one.n for one in rows)
        self.token = document["token"]
        self.told["repeated" if document["repeated"] else "numbered"] += 1

    def _plain(self) -> None:
        chance = random.Random(f"bad.{self._seed}")
        rows: list[Row] = []
        while not self._ended.wait(_PAUSE):
            rows = rows or self._next(PLAIN)
            with self._patient():  # what is raised was raised before a row was looked at
                self._insert(rows, chance.randrange(PLAIN) if chance.random() < _BAD else None)
                rows = []

    def _insert(self, rows: Sequence[Row], bad: int | None) -> None:
        """The `bad` one has a text where a number belongs."""
        columns = [one.columns | ({"SPENT": "much"} if at == bad else {}) for at, one in enumerate(rows)]
        body = "".join(f"{json.dumps(line)}\n" for line in [{"target": TOPIC}, *columns]).encode()
        told: list[Any] = []
        with suppress(ConnectionLost), Exchange(self._address, "/inserts-stream", body, KSQL_LINES) as exchange:
            for part in exchange.batches():
                told += part
        for one, answer in zip_longest(rows, told, fillvalue=None):
            assert one is not None, f"more answers than rows: {told}"
            self._note(one.n, answer or {})

    def _note(self, n: int, answer: dict[str, Any]) -> None:
        code = answer.get("code", "")
        self.told[code or answer.get("status", "unknown")] += 1
        if answer.get("status") == "ok":
            self.acknowledged.add(n)
        elif code == DiskFull.code or issubclass(CODES.get(code, HeadraceError), UserError):
            self.refused.add(n)
        else:
            self.unknown.add(n)

    # -- questions --------------------------------------------------------------------------------------------------

    def _pull(self) -> None:
        """A count never goes back."""
        known: Counter[str] = Counter()
        chance = random.Random(f"pull.{self._seed}")
        while not self._ended.wait(_PAUSE):
            key = f"k{chance.randrange(KEYS)}"
            with self._patient(), self._client.query(f"SELECT n FROM sums WHERE id = '{key}';") as found:
                n = next((n for (n,) in found), 0)
                self.told["pulled"] += 1
                if n < known[key]:
                    self.receded.append(f"the count of {key} was {known[key]}, then {n}")
                known[key] = n

    def _watch(self) -> None:
        while not self._ended.wait(_PAUSE):
            with self._patient(), self._client.query("SELECT n FROM clicks EMIT CHANGES;") as self._rows:
                self.pushed.append(seen := [])
                for (n,) in self._rows:
                    seen.append(n)
                    if len(seen) >= WATCHED or self._ended.is_set():
                        break

    @contextmanager
    def _patient(self) -> Iterator[None]:
        """What may pass by itself is counted, and tried again."""
        try:
            yield
        except Retry as error:
            self.told[error.code] += 1
