"""The rows of a query, as they come."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Self

from headrace.client.exchange import Exchange
from headrace.client.refusals import is_refusal, refused
from headrace.errors import ServerFailed

Row = list[Any]
_BROKEN_OFF = 500
_FORMATS = ("keyFormat", "valueFormat")


class Rows:
    """Go through them once. Closed, or left, the query ends on the server as well.

    Numbers with a point or an exponent are decimals, and so exact.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._batches = exchange.batches()
        try:
            first, *self._begun = next(self._batches, [None])
            self._read_header(first)
        except BaseException:
            self.close()
            raise

    def _read_header(self, document: Any) -> None:
        if is_refusal(document):
            raise refused(_BROKEN_OFF, document)
        if not isinstance(document, dict) or "columnNames" not in document:
            raise ServerFailed("the answer to a query does not begin with its columns", fix="look at the server's log")
        self.query_id: str | None = document.get("queryId")
        self.names: tuple[str, ...] = tuple(document["columnNames"])
        self.types: tuple[str, ...] = tuple(document.get("columnTypes") or ("",) * len(self.names))
        self.formats: tuple[str, ...] = tuple(str(document[name]) for name in _FORMATS if name in document)
        """Of the keys and values that PRINT shows."""

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(self.batches())

    def batches(self) -> Iterator[list[Row]]:
        """As many at a time as have come. An error is raised when the rows before it have been given out."""
        for documents in chain([self._begun], self._batches):
            # Objects are words about the answer, such as how far it reaches.
            if found := [row for row in documents if isinstance(row, list)]:
                yield found
            if (error := next(filter(is_refusal, documents), None)) is not None:
                raise refused(_BROKEN_OFF, error)

    def close(self) -> None:
        """End the query. May be called from any thread."""
        self._exchange.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
