"""Rows of a grid for the records of a topic: keys and values decoded in the formats of a stream or table over it.

A windowed key is shown as its columns and its window. Bytes that cannot be decoded are shown as base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from headrace.control.serving.print_topic import source_of_topic
from headrace.lang.record_printer import record_cells
from headrace.plan.catalog import Catalog
from headrace.plan.chain.records import CODEC_ERRORS, RawRecord, key_serde
from headrace.plan.sources import SourceInfo
from headrace.serve.console.widgets import number_format

_METADATA = ("$partition", "$offset", "$timestamp", "$headers", "$deleted")

Row = dict[str, object]


class RecordRows:
    """Converts records, as the HTTP API returns them, to rows."""

    def __init__(self, catalog: Catalog, topic: str) -> None:
        self._source = source_of_topic(catalog, topic)
        self._decode_key = None if self._source is None else _key_decoder(self._source)
        self._texts = record_cells(self._source)

    @property
    def is_windowed(self) -> bool:
        """Whether rows have a window."""
        return self._source is not None and self._source.relation.window is not None

    def row(self, record: Mapping[str, Any]) -> Row:
        place = {"place": f"{record['$partition']}/{record['$offset']}"}
        row: Row = {"at": number_format.format_time(record["$timestamp"]), **place}
        if not any(name in record for name in ("key", "key_base64")):  # a topic with a schema
            return row | {"key": "", "value": json.dumps({n: v for n, v in record.items() if n not in _METADATA})}
        return row | self._key(record) | {"value": self._text(record, "value", "deleted")}

    def _key(self, record: Mapping[str, Any]) -> Row:
        payload = _bytes(record, "key")
        if payload is None or not self.is_windowed or self._decode_key is None:
            return {"key": self._text(record, "key", "")}
        try:
            decoded = self._decode_key(payload)
        except CODEC_ERRORS:
            decoded = None
        if decoded is None:
            return {"key": self._text(record, "key", "")}
        *columns, (start, end) = decoded
        return {"key": _columns_text(columns), "window": _window_text(start, end)}

    def _text(self, record: Mapping[str, Any], name: str, absent: str) -> str:
        if f"{name}_base64" in record and self._source is not None:
            raw = RawRecord(_bytes(record, "key"), _bytes(record, "value"), 0)
            return self._texts(raw)[("key", "value").index(name) + 1]
        value = record.get(name, record.get(f"{name}_base64"))
        return absent if value is None else value


def _key_decoder(source: SourceInfo) -> Callable[[bytes], Any]:
    return key_serde(source.relation, source.key_format).decode


def _bytes(record: Mapping[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in record:
        return base64.b64decode(record[f"{name}_base64"])
    text = record.get(name)
    return None if text is None else text.encode()


def _columns_text(columns: list[Any]) -> str:
    """A single column as it is, several as JSON."""
    if len(columns) == 1 and isinstance(columns[0], str):
        return columns[0]
    return json.dumps(columns[0] if len(columns) == 1 else columns, default=str)


def _window_text(start: int, end: int) -> str:
    """
    >>> _window_text(1_500_000_000_000, 1_500_000_060_000)
    '2017-07-14 02:40:00 to 02:41:00'
    """
    first, last = (number_format.format_time(one).removesuffix(".000") for one in (start, end))
    return f"{first} to {last.removeprefix(first[:11]) if first[:10] == last[:10] else last}"
