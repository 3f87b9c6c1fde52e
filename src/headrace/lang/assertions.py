"""Checks ASSERT statements: the next record of a source, or the shape of a source.

Only the columns that the statement names are compared, and the record's time if ROWTIME is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from headrace.errors import AssertFailed
from headrace.plan.actions import ExpectRecord, ExpectSource
from headrace.plan.chain.records import RawRecord
from headrace.plan.chain.row_codec import decode_row
from headrace.plan.expressions import ROWTIME, WINDOWEND, WINDOWSTART
from headrace.plan.sources import SourceInfo
from headrace.schema import type_name


def check_record(expect: ExpectRecord, record: RawRecord | None) -> None:
    """Raises unless the record is the expected one."""
    name = expect.source.name
    if record is None:
        raise AssertFailed(f"{name} has no more records, expected one", fix="check the statements before the ASSERT")
    actual = _actual(expect.source, record)
    named = zip(expect.columns, expect.values, strict=True)
    wrong = [f"{c}: expected {value!r}, got {actual.get(c)!r}" for c, value in named if value != actual.get(c)]
    if expect.null != (record.value is None):
        wrong.append("expected a deletion, got a row" if expect.null else "expected a row, got a deletion")
    if wrong:
        raise AssertFailed(
            f"Expected record does not match actual, record {record.offset} of {name}: {'; '.join(wrong)}",
            fix="change the ASSERT; records are compared in the order in which they were written",
        )


def _actual(source: SourceInfo, record: RawRecord) -> dict[str, Any]:
    time, key, row = decode_row(source, record)
    relation = source.relation
    columns = dict(zip((f.name for f in relation.key), key or (), strict=False))
    columns |= dict(zip((f.name for f in relation.value), row or (), strict=False))
    if relation.window is not None and key is not None:
        columns |= {WINDOWSTART: key[-1][0], WINDOWEND: key[-1][1]}
    return columns | {ROWTIME: time}


# -- sources --------------------------------------------------------------------------------------------------------


def check_source(expect: ExpectSource, actual: SourceInfo | None) -> None:
    """Raises unless the source exists with that shape; only given properties are compared."""
    if actual is None:
        raise AssertFailed(f"stream or table {expect.name} does not exist", fix="create it before the ASSERT")
    for what, property, view in _VIEWS:
        if property is not None and not _has_any(property, expect.properties):
            continue
        expected_view, actual_view = view(expect.expected), view(actual)
        if expected_view != actual_view:
            raise AssertFailed(
                f"Expected {what} does not match actual for source {expect.name}. "
                f"It is {_text(actual_view)}, not {_text(expected_view)}",
                fix="change the ASSERT, or the statement that created the source",
            )


def check_topic(topic: str, topics: Collection[str], *, exists: bool) -> None:
    """Raises unless the topic exists, or does not exist; its properties are ignored."""
    if (topic in topics) != exists:
        raise AssertFailed(
            f'Topic "{topic}" {"does not exist" if exists else "exists"}',
            fix=f"topics: {', '.join(sorted(topics)) or 'none'}",
        )


def _has_any(names: str, properties: Any) -> bool:
    return any(name in properties for name in names.split())


def _text(value: Any) -> str:
    return "missing" if value is None else str(value)


def _schema(source: SourceInfo) -> str:
    relation = source.relation
    key = [f"{f.name} {type_name(f.type)} key" for f in relation.key]
    return ", ".join(key + [f"{f.name} {type_name(f.type)}" for f in relation.value])


def _window(source: SourceInfo) -> Any:
    window = source.relation.window
    return window and (window.kind.value, window.size)


# What is compared, the properties that request it (None: always), and how it is read from a source.
_VIEWS: tuple[tuple[str, str | None, Callable[[SourceInfo], Any]], ...] = (
    ("type", None, lambda source: source.kind.value),
    ("schema", None, _schema),
    ("topic", "KAFKA_TOPIC", lambda source: source.topic),
    ("key format", "KEY_FORMAT FORMAT", lambda source: source.key_format.name),
    ("value format", "VALUE_FORMAT FORMAT", lambda source: source.value_format.name),
    ("timestamp column", "TIMESTAMP", lambda source: source.timestamp and source.timestamp.column),
    ("timestamp format", "TIMESTAMP_FORMAT", lambda source: source.timestamp and source.timestamp.format),
    ("window", "WINDOW_TYPE", _window),
    ("wrapping", "WRAP_SINGLE_VALUE", lambda source: source.value_format.option("wrapped")),
    ("delimiter", "VALUE_DELIMITER", lambda source: source.value_format.option("delimiter")),
    ("key delimiter", "KEY_DELIMITER", lambda source: source.key_format.option("delimiter")),
)
