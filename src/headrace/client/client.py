"""`Client`: the requests that a server accepts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Any

from headrace.client.decimal_json import format_json
from headrace.client.errors import error_from
from headrace.client.exchange import KSQL_JSON, KSQL_LINES, Credentials, Exchange, ServerAddress
from headrace.client.row_stream import RowStream
from headrace.errors import ConnectionLost, HeadraceError

DEFAULT_ADDRESS = "http://127.0.0.1:8088"
_AT_ONCE = 1000  # rows per request: the acknowledgements must fit into the socket buffers until the client reads them
_FAILED = 400
_TOO_MANY = 429  # the request was not started
_BUSY = (_TOO_MANY, 503)  # a script of statements may have been interrupted, so it is not sent again
_RETRIES, _LONGEST_PAUSE = 4, 30.0
Document = dict[str, Any]
Values = Mapping[str, Any]
OnRowRejected = Callable[[int, HeadraceError], None]


class Client:
    """Holds no connection between requests, so it can live long and be used from any thread.

    A server that is too busy says after how long a request fits. Requests that it did not start are sent again then, a
    few times. `ca` is a file of CA certificates that replaces the system's trust store.
    """

    def __init__(self, address: str = DEFAULT_ADDRESS, *, token: str | None = None, ca: str | None = None) -> None:
        self._address = ServerAddress.parse(address)
        self._credentials = Credentials(token, ca)

    @property
    def address(self) -> str:
        return str(self._address)

    def execute(
        self,
        text: str,
        properties: Values | None = None,
        variables: Values | None = None,
        *,
        language: str | None = None,
    ) -> list[Document]:
        """Execute statements in order and return the result of each. Statements before an error stay applied.

        Without a language they are KSQL, and the results are those of ksqlDB. With one, they are those of POST
        /api/v1/statements.
        """
        if language is not None:
            return self._execute_in(language, text, properties, variables)
        body = {"ksql": text, "streamsProperties": properties or {}, "sessionVariables": variables or {}}
        return self._exchange("/ksql", format_json(body).encode()).document()

    def query(self, text: str, properties: Values | None = None, variables: Values | None = None) -> RowStream:
        """Run a query. With EMIT CHANGES, and for PRINT, rows arrive until the stream is closed."""
        body = {"sql": text, "properties": properties or {}, "sessionVariables": variables or {}}
        return RowStream(self._exchange("/query-stream", format_json(body).encode(), KSQL_LINES, again=_BUSY))

    def insert(self, stream: str, rows: Iterable[Values], on_refused: OnRowRejected | None = None) -> int:
        """Append rows, each a mapping from column to value, and return their number. All of them are durable on return.

        A rejected row does not stop the other rows of its request (up to a thousand). Its error is raised after those
        are written. With `on_refused`, the callback gets the row's number (from 0) and the error instead, and the
        insert continues. `ConnectionLost` reports how many rows are known to be written.
        """
        sent = written = 0
        remaining = iter(rows)
        while batch := list(islice(remaining, _AT_ONCE)):
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
        """Send the text of a Python file that creates an app; returns what it declares and the applied statements."""
        body = {"source": source, "path": path}
        return self._exchange("/api/v1/apps", format_json(body).encode()).document()

    def login_link(self) -> str:
        """A link that opens the console and logs a browser in, once: as the user of the client's token."""
        return self.address + self._exchange("/api/v1/session/links", b"{}").document()["path"]

    def info(self) -> Document:
        """The server's version and name."""
        return self._exchange("/info", again=_BUSY).document()["KsqlServerInfo"]

    def _execute_in(
        self, language: str, text: str, properties: Values | None, variables: Values | None
    ) -> list[Document]:
        body = {"language": language, "text": text, "properties": properties, "variables": variables}
        return self._exchange("/api/v1/statements", format_json(body).encode()).document()["done"]

    def _exchange(
        self,
        path: str,
        body: bytes | None = None,
        accept: str = KSQL_JSON,
        *,
        again: Collection[int] = (_TOO_MANY,),
    ) -> Exchange:
        """Send a request, and a few times again if the server refuses it for now with one of the statuses `again`."""
        for _ in range(_RETRIES):
            exchange = Exchange(self._address, path, body, accept, self._credentials)
            if exchange.status not in again or (seconds := exchange.retry_after) is None or seconds > _LONGEST_PAUSE:
                return exchange
            exchange.close()
            time.sleep(seconds * random.uniform(1.0, 1.5))  # so that refused clients do not all come back at once
        return Exchange(self._address, path, body, accept, self._credentials)

    def _inserted(self, stream: str, batch: list[Values], before: int) -> dict[int, HeadraceError]:
        """Send a batch and return the errors of the rejected rows, by row number."""
        body = "".join(f"{format_json(line)}\n" for line in [{"target": stream}, *batch]).encode()
        results: list[Document] = []
        try:
            with self._exchange("/inserts-stream", body, KSQL_LINES, again=_BUSY) as exchange:
                for acknowledgements in exchange.batches():
                    results += acknowledgements
            if results and "status" not in results[-1]:  # not about a row: the server stopped reading the request
                raise error_from(_FAILED, results[-1])
            if len(results) < len(batch):
                raise ConnectionLost(f"the server acknowledged {len(results)} of {len(batch)} rows")
        except ConnectionLost as error:
            error.where = f"after {before + sum(map(_is_fine, results))} acknowledged rows"
            raise
        return {number: error_from(_FAILED, one) for number, one in enumerate(results) if not _is_fine(one)}


def _is_fine(acknowledgement: Document) -> bool:
    return acknowledgement.get("status") == "ok"
