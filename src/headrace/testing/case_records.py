"""Converts records of test cases: from the form of a case to records of the world, and back."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors import BadTestCases
from headrace.plan.chain.records import Headers
from headrace.plan.sources import SourceInfo
from headrace.testing import json_payloads
from headrace.testing.memory_log import MemoryRecord
from headrace.testing.world import World


def produce(world: World, record: Mapping[str, Any]) -> None:
    """Write a record of a case to the world, encoded in the format of its source."""
    source = source_of(world, record)
    key = json_payloads.encode_key(record.get("key"), record.get("window"), source)
    value = json_payloads.encode_value(record.get("value"), source)
    world.produce(source.topic, key, value, record.get("timestamp", 0), _headers(record.get("headers") or ()))


def source_of(world: World, record: Mapping[str, Any]) -> SourceInfo:
    """The source that a record names, directly or by its topic."""
    topic, name = record.get("topic"), record.get("source")
    if topic in world.declared:
        return world.declared[topic]
    sources = world.catalog.sources
    source = sources.get(name or "") or sources.get(str(name).upper())
    if source is None:
        declared = ", ".join(sources) or "none"
        raise BadTestCases(
            f"a record refers to {topic or name or 'no topic'!r}, which is not declared", fix=f"sources: {declared}"
        )
    return source


def _headers(headers: Sequence[Mapping[str, Any]]) -> Headers:
    return tuple((h["KEY"], None if h["VALUE"] is None else base64.b64decode(h["VALUE"])) for h in headers)


def case_document(entry: MemoryRecord, source: SourceInfo) -> dict[str, Any]:
    """A record in the form of test cases."""
    key, window = json_payloads.decode_key(entry.key, source)
    return {
        "key": key,
        "value": json_payloads.decode_value(entry.value, source),
        "timestamp": entry.timestamp,
        "window": window,
        "headers": [{"KEY": k, "VALUE": v if v is None else base64.b64encode(v).decode()} for k, v in entry.headers],
    }
