"""The requests that a server takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from headrace.client.documents import json_text
from headrace.client.exchange import DOCUMENT, LINES, Address, Exchange, Shown
from headrace.client.refusals import refused
from headrace.client.rows import Rows
from headrace.errors import ConnectionLost, HeadraceError

ADDRESS = "http://127.0.0.1:8088"
_AT_ONCE = 1000  # rows in a request: their acknowledgements must find room while nobody reads them
_FAILED = 400
Document = dict[str, Any]
Values = Mapping[str, Any]
Refused = Callable[[int, HeadraceError], None]


class Client:
    """Holds no connection between requests, so it may be kept for long and used from any thread.

    `ca` is a file of certificates by which it knows the server, in place of the machine's.
    """

    def __init__(self, address: str = ADDRESS, *, token: str | None = None, ca: str | None = None) -> None:
        self._address = Address.parse(address)
        self._shown = Shown(token, ca)

    @property
    def address(self) -> str:
        return str(self._address)

    def execute(self, text: str, properties: Values | None = None, variables: Values | None = None) -> list[Document]:
        """Do one statement after another, and tell what became of each. What comes before an error is done."""
        body = {"ksql": text, "streamsProperties": properties or {}, "sessionVariables": variables or {}}
        return self._exchange("/ksql", json_text(body).encode()).document()

    def query(self, text: str, properties: Values | None = None, variables: Values | None = None) -> Rows:
        """Ask; with EMIT CHANGES, and of PRINT, the rows go on until they are closed."""
        body = {"sql": text, "properties": properties or {}, "sessionVariables": variables or {}}
        return Rows(self._exchange("/query-stream", json_text(body).encode(), LINES))

    def insert(self, stream: str, rows: Iterable[Values], on_refused: Refused | None = None) -> int:
        """Append rows, each an object by its columns, and say how many; all of them are durable then.

        A row that is refused does not hold up the others that go with it, up to a thousand. It is raised when those
        are written, or, if there is an `on_refused`, that gets its number (from 0) and the error, and it goes on.
        `ConnectionLost` says how many rows surely are written.
        """
        sent = written = 0
        left = iter(rows)
        while batch := list(islice(left, _AT_ONCE)):
            failures = self._inserted(stream, batch, written)
            written += len(batch) - len(failures)
            for number, error in failures.items():
                error.where = error.where or f"row {sent + number}, counted from 0"
                if on_refused is None:
                    raise error
                on_refused(sent + number, error)
            sent += len(batch)
        return written

    def deploy(self, source: str, path: str = "app.py") -> Document:
        """Send the text of a Python file that makes an app; tells what it declares and which statements were done."""
        body = {"source": source, "path": path}
        return self._exchange("/api/v1/apps", json_text(body).encode()).document()

    def info(self) -> Document:
        """About the server: its version and its name."""
        return self._exchange("/info").document()["KsqlServerInfo"]

    def _exchange(self, path: str, body: bytes | None = None, accept: str = DOCUMENT) -> Exchange:
        return Exchange(self._address, path, body, accept, self._shown)

    def _inserted(self, stream: str, batch: list[Values], before: int) -> dict[int, HeadraceError]:
        """Send these, and give back those that were refused, by their numbers."""
        body = "".join(f"{json_text(line)}\n" for line in [{"target": stream}, *batch]).encode()
        told: list[Document] = []
        try:
            with self._exchange("/inserts-stream", body, LINES) as exchange:
                for acknowledgements in exchange.batches():
                    told += acknowledgements
            if told and "status" not in told[-1]:  # not of a row: the server reads no further
                raise refused(_FAILED, told[-1])
            if len(told) < len(batch):
                raise ConnectionLost(f"the server acknowledges {len(told)} rows of {len(batch)}")
        except ConnectionLost as error:
            error.where = f"after {before + sum(map(_is_fine, told))} acknowledged rows"
            raise
        return {number: refused(_FAILED, one) for number, one in enumerate(told) if not _is_fine(one)}


def _is_fine(acknowledgement: Document) -> bool:
    return acknowledgement.get("status") == "ok"
