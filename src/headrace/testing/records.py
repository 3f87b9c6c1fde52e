"""Records of test cases: from a case into the world, and from the world back into the form that cases have."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors import BadCases
from headrace.plan.catalog import SourceInfo
from headrace.plan.chain.records import Headers
from headrace.testing import documents
from headrace.testing.topics import Entry
from headrace.testing.world import World


def produce(world: World, record: Mapping[str, Any]) -> None:
    """Write a record of a case into the world, as the format of its source wants it."""
    source = source_of(world, record)
    key = documents.key_bytes(record.get("key"), record.get("window"), source)
    value = documents.value_bytes(record.get("value"), source)
    world.produce(source.topic, key, value, record.get("timestamp", 0), _headers(record.get("headers") or ()))


def source_of(world: World, record: Mapping[str, Any]) -> SourceInfo:
    """The source a record names, itself or by its topic."""
    topic, name = record.get("topic"), record.get("source")
    if topic in world.declared:
        return world.declared[topic]
    sources = world.catalog.sources
    found = sources.get(name or "") or sources.get(str(name).upper())
    if found is None:
        known = ", ".join(sources) or "none"
        raise BadCases(
            f"a record names {topic or name or 'no topic'!r}, which nobody declares", fix=f"sources: {known}"
        )
    return found


def _headers(given: Sequence[Mapping[str, Any]]) -> Headers:
    return tuple((h["KEY"], None if h["VALUE"] is None else base64.b64decode(h["VALUE"])) for h in given)


def document(entry: Entry, source: SourceInfo) -> dict[str, Any]:
    """A record as cases write it."""
    key, window = documents.key_document(entry.key, source)
    return {
        "key": key,
        "value": documents.value_document(entry.value, source),
        "timestamp": entry.timestamp,
        "window": window,
        "headers": [{"KEY": k, "VALUE": v if v is None else base64.b64encode(v).decode()} for k, v in entry.headers],
    }
