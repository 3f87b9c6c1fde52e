"""The properties that statements and connections set (`SET`): which exist, their defaults, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from headrace.errors import BadProperty, suggestion
from headrace.plan.functions.aggregates.collect import LIMIT, LIMITS
from headrace.span import Span

DEFAULT_KEY_FORMAT = "ksql.persistence.default.format.key"
DEFAULT_VALUE_FORMAT = "ksql.persistence.default.format.value"
WRAP_VALUES = "ksql.persistence.wrap.single.values"
NEW_PLANNER = "ksql.new.query.planner.enabled"
TOPIC_PREFIX = "ksql.output.topic.name.prefix"
OR_REPLACE = "ksql.create.or.replace.enabled"
PULL_QUERIES = "ksql.pull.queries.enable"
PULL_FROM_STREAMS = "ksql.query.pull.stream.enabled"
PULL_LIMITS = "ksql.query.pull.limit.clause.enabled"
PULL_TABLE_SCANS = "ksql.query.pull.table.scan.enabled"
PULL_RANGE_SCANS = "ksql.query.pull.range.scan.enabled"
OFFSET_RESET = "auto.offset.reset"
STRICT: Mapping[str, str] = {
    "ksql.fail.on.deserialization.error": "bad-record",
    "ksql.timestamp.throw.on.invalid": "bad-time",
}
"""Properties under which a problem stops the query; otherwise it is reported and the record dropped."""
CACHES = ("cache.max.bytes.buffering", "statestore.cache.max.bytes")
"""Properties that are 0 to request every change of a table."""

DEFAULT_PROPERTIES: Mapping[str, str] = MappingProxyType(
    {
        DEFAULT_KEY_FORMAT: "KAFKA",
        DEFAULT_VALUE_FORMAT: "",
        WRAP_VALUES: "true",
        NEW_PLANNER: "false",
        TOPIC_PREFIX: "",
        OR_REPLACE: "true",
        **dict.fromkeys(STRICT, "false"),
        **dict.fromkeys(LIMITS.values(), str(LIMIT)),
    }
)
"""The properties that have an effect in every runtime, with their defaults."""

_STREAMS_PREFIX = "ksql.streams."
_PULL = (PULL_QUERIES, PULL_FROM_STREAMS, PULL_LIMITS, PULL_TABLE_SCANS, PULL_RANGE_SCANS)
_STREAMS = (OFFSET_RESET, *CACHES)
KNOWN_PROPERTIES = frozenset({*DEFAULT_PROPERTIES, *_PULL, *_STREAMS, *(_STREAMS_PREFIX + name for name in _STREAMS)})


def check_known(name: str, span: Span | None) -> None:
    """Raises if no property has that name."""
    if name not in KNOWN_PROPERTIES:
        fix = suggestion(name, KNOWN_PROPERTIES, "remove the statement; SHOW PROPERTIES lists the properties")
        raise BadProperty(f"there is no property '{name}'", span=span, fix=fix)


def is_disabled(properties: Mapping[str, Any], name: str) -> bool:
    """Whether a property that is on by default is off."""
    return str(properties.get(name, "true")).lower() == "false"


def is_enabled(properties: Mapping[str, Any], name: str) -> bool:
    """Whether a property that is off by default is on."""
    return str(properties.get(name, "false")).lower() == "true"


def emits_every_change(properties: Mapping[str, Any]) -> bool:
    """Whether queries emit every change of a table, not only the last one of a batch."""
    names = [f"{prefix}{name}" for prefix in ("", _STREAMS_PREFIX) for name in CACHES]
    return any(str(properties.get(name, "")).strip() == "0" for name in names)


def strict_problems(properties: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Returns the problems that stop a query, each with the property that says so."""
    return tuple((code, name) for name, code in STRICT.items() if is_enabled(properties, name))
