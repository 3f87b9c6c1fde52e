"""`RowStream`: the rows of a query as they arrive."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Self

from headrace.client.errors import error_from, is_error
from headrace.client.exchange import Exchange
from headrace.errors import ServerFailed

Row = list[Any]
_FAILED = 500
_FORMATS = ("keyFormat", "valueFormat")


class RowStream:
    """Iterates over the rows once. Closing it, or leaving its `with` block, also stops the query on the server.

    Numbers with a point or an exponent are decimals, so they are exact.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._batches = exchange.batches()
        try:
            first, *self._first_rows = next(self._batches, [None])
            self._read_header(first)
        except BaseException:
            self.close()
            raise

    def _read_header(self, document: Any) -> None:
        if is_error(document):
            raise error_from(_FAILED, document)
        if not isinstance(document, dict) or "columnNames" not in document:
            raise ServerFailed("the response to a query does not begin with its columns", fix="see the server's log")
        self.query_id: str | None = document.get("queryId")
        self.names: tuple[str, ...] = tuple(document["columnNames"])
        self.types: tuple[str, ...] = tuple(document.get("columnTypes") or ("",) * len(self.names))
        self.formats: tuple[str, ...] = tuple(str(document[name]) for name in _FORMATS if name in document)
        """Formats of the keys and values that PRINT shows."""
        self.notice = self._exchange.notice
        """Why the rows may be incomplete, for example because a query is starting; usually empty."""

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(self.batches())

    def batches(self) -> Iterator[list[Row]]:
        """Rows in batches as they arrive. An error is raised after the rows before it have been returned."""
        for documents in chain([self._first_rows], self._batches):
            # Objects are metadata of the result, such as its offsets, not rows.
            if rows := [row for row in documents if isinstance(row, list)]:
                yield rows
            if (error := next(filter(is_error, documents), None)) is not None:
                raise error_from(_FAILED, error)

    def close(self) -> None:
        """Stop the query. May be called from any thread."""
        self._exchange.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
