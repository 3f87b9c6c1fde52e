"""Actions: what planned statements do outside the catalog. Every dialect plans into these values.

An action is a frozen dataclass and knows no dialect. `lang.interpreter` applies actions to a server, a script or a
test; a server journals those that must survive a restart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar

import pyarrow as pa

from headrace.plan.expressions import Expression
from headrace.plan.nodes import Query
from headrace.plan.notifiers import Notifier
from headrace.plan.sources import SourceInfo


@dataclass(frozen=True)
class Action:
    action_name: ClassVar[str]
    """The action in the HTTP API: `create_source` of `CreateSource`."""

    journaled: ClassVar[bool] = False
    """Whether a server journals the statement: it changes the catalog or a query, and must survive a restart."""

    def __init_subclass__(cls, *, journaled: bool = False) -> None:
        cls.action_name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        cls.journaled = journaled


@dataclass(frozen=True)
class NoChange(Action):
    """Nothing to do: IF [NOT] EXISTS applied, or the statement only concerns its own script."""


# -- sources and queries --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CreateSource(Action, journaled=True):
    """Creates a source; `query`, if set, fills it. `replaces` is the id of a query that is stopped for it."""

    source: SourceInfo
    query: Query | None = None
    replaces: str | None = None


@dataclass(frozen=True)
class StartQuery(Action, journaled=True):
    """Starts a query that writes into an existing source, or that runs an alert's rule."""

    query: Query


class QueryVerb(StrEnum):
    TERMINATE = "TERMINATE"
    PAUSE = "PAUSE"
    RESUME = "RESUME"


@dataclass(frozen=True)
class ControlQueries(Action, journaled=True):
    """Terminates, pauses or resumes queries."""

    verb: QueryVerb
    queries: tuple[str, ...]


@dataclass(frozen=True)
class KillProcess(Action):
    """Ends a pull or push query that is running. `process` is its id as it was written: it may be no number."""

    process: str


@dataclass(frozen=True)
class DropSource(Action, journaled=True):
    """Drops a source, with the queries that fill it."""

    source: SourceInfo
    delete_topic: bool = False
    queries: tuple[str, ...] = ()


# -- rows -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InsertRow(Action):
    """Writes one row: the values of the key's and the payload's columns, as chain values."""

    source: SourceInfo
    key: tuple[Any, ...]
    value: tuple[Any, ...]
    timestamp: int | None = None


@dataclass(frozen=True)
class DeleteRows(Action):
    """Deletes rows of a table: a tombstone is written for each key."""

    source: SourceInfo
    keys: tuple[tuple[Any, ...], ...]


# -- types, notifiers, alerts, properties ---------------------------------------------------------------------------


@dataclass(frozen=True)
class CreateType(Action, journaled=True):
    name: str


@dataclass(frozen=True)
class DropType(Action, journaled=True):
    name: str


@dataclass(frozen=True)
class CreateNotifier(Action, journaled=True):
    notifier: Notifier


@dataclass(frozen=True)
class DropNotifier(Action, journaled=True):
    name: str


@dataclass(frozen=True)
class MuteAlert(Action, journaled=True):
    """Mutes the notices of an alert, or of one of its keys, for a while."""

    name: str
    duration: timedelta
    key: str | None = None


@dataclass(frozen=True)
class UnmuteAlert(Action, journaled=True):
    """Ends the muting of one of an alert's keys, or of all."""

    name: str
    key: str | None = None


@dataclass(frozen=True)
class SetProperty(Action):
    name: str
    value: Any


@dataclass(frozen=True)
class UnsetProperty(Action):
    name: str


# -- transient queries ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result: its name there, and whether it is a key column or a bound of the window."""

    name: str
    type: pa.DataType
    in_key: bool = False


@dataclass(frozen=True)
class TransientSelect(Action):
    """A transient query: a push query if `push`, else a pull query over materialized rows.

    `columns` are those of SELECT in order; `order` is that of the rows, each with whether it is descending.
    """

    query: Query
    push: bool
    limit: int | None = None
    columns: tuple[ResultColumn, ...] = ()
    order: tuple[tuple[Expression, bool], ...] = ()
    text: str = field(default="", compare=False)
    principal: str = field(default="", compare=False)
    """What was asked, and by whom."""


# -- assertions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExpectRecord(Action):
    """ASSERT VALUES: the next record of the source has these values; a `value` of None is a deletion."""

    source: SourceInfo
    columns: tuple[str, ...]
    values: tuple[Any, ...]
    null: bool = False


@dataclass(frozen=True)
class ExpectSource(Action):
    """ASSERT STREAM or TABLE: a source of that shape exists. `properties` are those given in the statement."""

    name: str
    expected: SourceInfo
    properties: Mapping[str, Any]


@dataclass(frozen=True)
class ExpectTopic(Action):
    """ASSERT TOPIC: the topic exists, or does not."""

    topic: str
    exists: bool = True


@dataclass(frozen=True)
class ExpectSchema(Action):
    """ASSERT SCHEMA: the schema registry has a schema, or has it not."""

    subject: str | None
    id: int | None
    exists: bool = True


# -- metadata -------------------------------------------------------------------------------------------------------


class MetadataKind(StrEnum):
    """The subject of a metadata query: all objects of a kind, or one of them."""

    STREAMS = "streams"
    TABLES = "tables"
    SOURCE = "source"
    TOPICS = "topics"
    TOPIC = "topic"
    QUERIES = "queries"
    QUERY = "query"
    PROCESSES = "processes"
    FUNCTIONS = "functions"
    FUNCTION = "function"
    TYPES = "types"
    PROPERTIES = "properties"
    VARIABLES = "variables"
    ALERTS = "alerts"
    ALERT = "alert"
    NOTIFIERS = "notifiers"
    CONNECTORS = "connectors"
    PLUGINS = "connector plugins"


@dataclass(frozen=True)
class MetadataQuery(Action):
    """LIST, DESCRIBE, EXPLAIN or PRINT.

    `name` is that of the one object it is about; `query` is what EXPLAIN explains, its type PERSISTENT, PUSH or PULL.
    `described` requests descriptions of all objects of the kind instead of their list; `all` includes those of the
    system. The last three fields are those of PRINT.
    """

    about: MetadataKind
    name: str = ""
    text: str = field(default="", compare=False)
    query: Query | None = None
    query_type: str = "PERSISTENT"
    extended: bool = False
    described: bool = False
    all: bool = False
    from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None
